"""Says which simulators there are; installs Icarus through the system's packages when root."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tb.simulators import SIMULATORS, simulator_missing  # noqa: E402 - needs the path above


def install_icarus():
    """Icarus from Debian's packages; a failure is told, not fatal: Verilator is what must be."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print("installing Icarus Verilog through apt-get", flush=True)
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "iverilog"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            tail = done.stderr.strip().splitlines()[-1:] or ["no message"]
            print(f"icarus: {' '.join(command)} failed: {tail[0]}")
            return


def main():
    if simulator_missing("icarus") and os.geteuid() == 0 and shutil.which("apt-get"):
        install_icarus()
    missing = {sim: simulator_missing(sim) for sim in SIMULATORS}
    for sim, reason in missing.items():
        print(f"simulator {sim}: {reason or 'present'}")
    return 2 if missing["verilator"] else 0


if __name__ == "__main__":
    sys.exit(main())
