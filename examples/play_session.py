# SPDX-License-Identifier: Apache-2.0
"""Plays a recorded session of unmodified EFA software and compares every output of the device.

    .venv/bin/python examples/play_session.py                 # a ping-pong, the reference model
    .venv/bin/python examples/play_session.py verilator       # the RTL
    .venv/bin/python examples/play_session.py model FILE      # another session (.jsonl.gz)
"""

import sys

from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import read_session
from efa_cosim.session.result import PlayError

PINGPONG = "model/tests/data/sessions/pingpong.jsonl.gz"


def main(name: str = "model", file: str = PINGPONG) -> int:
    session = read_session(file)
    # The device reports the attributes that the recorded one did.
    with open_player(name, session) as device:
        try:
            played = play(file, device, session=session)
        except PlayError as error:
            print(f"difference on {name}: {error}")
            return 1
    print(f"no difference on {name}: {played.stores} stores, {played.admin_responses} admin "
          f"responses, {played.completions} completions, {played.payload_bytes} payload bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
