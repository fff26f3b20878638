# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest: stores to LLQ memory that no queue owns, which the device ignores.

    store_rate.py FUNCTION

The rate is what the path from guest to device carries: QEMU, socket, server.
"""

import mmap
import sys
import time
from pathlib import Path

STORES = 20_000
WORDS = 8  # of the last line


def main() -> None:
    """Prints the rate of 8-byte stores."""
    path = Path(f"/sys/bus/pci/devices/{sys.argv[1]}/resource2")
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), path.stat().st_size) as memory:
        line = memoryview(memory)[-8 * WORDS :].cast("Q")
        begin = time.monotonic()
        for number in range(STORES):
            line[number % WORDS] = number
        seconds = time.monotonic() - begin
        line.release()
    print(f"{STORES / seconds:.0f} stores/s that the device ignores")


main()
