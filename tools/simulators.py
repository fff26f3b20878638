# SPDX-License-Identifier: Apache-2.0
"""Lists the installed simulators; as root, installs what is absent from the system's packages.

mmdebstrap is optional; the Linux guest is made with it (tools/linux_guest.py).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import interrupt  # noqa: E402 - needs the path above

from tb.simulators import SIMULATORS, simulator_missing  # noqa: E402 - needs the path above

PACKAGES = {"iverilog": "iverilog", "mmdebstrap": "mmdebstrap"}


def install(packages):
    """Installs Debian packages; reports a failure and continues, because only Verilator is
    required."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print(f"installing {', '.join(packages)} through apt-get", flush=True)
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *packages]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            tail = done.stderr.strip().splitlines()[-1:] or ["no message"]
            print(f"{' '.join(command)} failed: {tail[0]}")
            return


def main():
    interrupt.leave_on_interrupt("simulators")
    absent = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if absent and os.geteuid() == 0 and shutil.which("apt-get"):
        install(absent)
    missing = {sim: simulator_missing(sim) for sim in SIMULATORS}
    for sim, reason in missing.items():
        print(f"simulator {sim}: {reason or 'present'}")
    return 2 if missing["verilator"] else 0


if __name__ == "__main__":
    sys.exit(main())
