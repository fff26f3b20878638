# SPDX-License-Identifier: Apache-2.0
"""Runs an untrusted node beside two devices that exchange messages (make peer-fuzz).

    python -m tb.peer_fuzz --packets 1000000 --sim verilator --seed 7

Writes reports/peer_fuzz/summary.json. Exit status 1 if the node affected the devices.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.boundary.events import field, of_kind
from efa_cosim.fabric.description import parse_fabric
from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.completion_queue import VerbsError
from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import precompiled
from efa_cosim.transport.packets import BY_SENDER
from tb.fuzz_command import run_fuzz
from tb.lib.srd_checks import Checks
from tb.scenarios.untrusted_peer import untrusted_peer

FOUND = (AssertionError, DeviceTimeout, DriverError, VerbsError, RuntimeError)
FABRIC = "seed: {seed}\nnodes: [1, 2, 3]\npaths: {{count: 8, default: {{latency: 40}}}}\n"
VICTIMS, UNTRUSTED = [1, 2], 3
_TARGET = precompiled(defs.SrdHdr, "dst_node")


class Tap:
    """Sees the packets to the untrusted node, and counts those to a victim that it must refuse."""

    def __init__(self) -> None:
        self.malformed = Counter[str]()
        self._packets: list[bytes] = []
        self._checks = {node: Checks(node) for node in VICTIMS}

    def sent(self, _now: int, packet: bytes) -> None:
        if _TARGET.unpack_from(packet)[0] == UNTRUSTED:
            self._packets.append(packet)

    def delivered(self, _now: int, packet: bytes) -> None:
        checks = self._checks.get(_TARGET.unpack_from(packet)[0])
        cause = None if checks is None else checks.cause(packet)
        if cause is not None:
            self.malformed[cause.name] += 1

    def reset(self, _now: int, _node: int) -> None:
        """Resets are of no interest."""

    def take(self) -> list[bytes]:
        """Returns the packets since the last call."""
        packets, self._packets = self._packets, []
        return packets


def fuzz(
    sim: str, seed: int, packets: int, progress: Callable[[int, int], object] = lambda _a, _b: None
) -> dict[str, Any]:
    """Returns the result of a run: verdict, seconds, and the counts or the reason.

    `sim` is a simulator; both victims are simulated. Raises BackendUnavailable.
    """
    tap, started = Tap(), time.monotonic()
    result: dict[str, Any] = {"simulator": sim, "seed": seed}
    devices = open_backend(sim, fabric=parse_fabric(FABRIC.format(seed=seed)), simulated=VICTIMS,
                           model=False, observer=tap)  # fmt: skip
    assert isinstance(devices, list)
    # A simulated device has a link, here that of a fabric.
    network = devices[0].link.network  # type: ignore[attr-defined]
    shorter, reported = 0, Counter[str]()

    def shown(done: int, total: int) -> None:
        for device in devices:
            events = device.events()  # type: ignore[attr-defined]  # of a simulated device
            for name in ("anomaly_net", "anomaly_ack"):
                causes = field(of_kind(events, name), name, "what").tolist()
                reported.update(defs.TransportAnomaly(one).name for one in causes)
        progress(done, total)

    def send(packet: bytes) -> None:
        nonlocal shorter
        try:
            network.send(packet)
        except (ValueError, struct.error):
            # The fabric cannot route a packet without a header.
            shorter += 1

    try:
        done = untrusted_peer(devices, random.Random(seed), UNTRUSTED, send, tap.take, packets,
                            progress=shown)  # fmt: skip
        shown(packets, packets)
        at_arrival = Counter(reported)
        for cause in BY_SENDER:
            del at_arrival[cause.name]
        if at_arrival != tap.malformed:
            raise AssertionError(f"malformed packets reported by cause: {dict(at_arrival)}, "
                                 f"expected {dict(tap.malformed)}")  # fmt: skip
        result |= {"verdict": "passed", **done, "without_header": shorter,
                   "reported": dict(sorted(reported.items())),
                   "cycles": devices[0].cycles}  # fmt: skip
        devices[0].close()
    except FOUND as error:
        result |= {"verdict": "failed", "reason": f"{type(error).__name__}: {error}"}
        devices[0].abort()
    return result | {"seconds": round(time.monotonic() - started, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packets", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--sim", choices=("verilator", "icarus"), default="verilator")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.packets < 1:
        parser.error("--packets is at least 1")
    return run_fuzz("peer_fuzz", "untrusted packets", options.packets,
                    lambda show: fuzz(options.sim, options.seed, options.packets,
                                      show))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
