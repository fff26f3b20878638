# SPDX-License-Identifier: Apache-2.0
"""LLQ memory that a guest maps: its stores reach the device at the doorbell, not as requests."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator

from efa_cosim.device.device import Device
from efa_cosim.layouts import defs

LINE_BYTES = 64
COUNT_MASK = 0xFFFF  # of the producer index in a doorbell


class LlqMap:
    """Shared memory of the size of the LLQ BAR. `fd` is for the client."""

    def __init__(self, device: Device) -> None:
        self._device = device
        size = device.limits.llq_bytes
        self.fd = os.memfd_create("llq", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        # The client must not make the file shorter.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self._memory = mmap.mmap(self.fd, size)

    def close(self) -> None:
        """Ends the mapping; the client may keep its own."""
        self._memory.close()
        os.close(self.fd)

    def posted(self, offset: int, value: int) -> Iterator[tuple[int, int, bytes]]:
        """Yields the stores (BAR, offset, bytes) of the WQEs that a doorbell posts, in whole lines.

        `offset` is that in the doorbell BAR, `value` the stored number.
        """
        datapath = self._device.datapath
        for qp in self._device.objects.qps.live.values():
            if datapath.qp_doorbells(qp)[0] != offset:
                continue
            count = (value - qp.sq.produced) & COUNT_MASK
            if count > qp.sq.depth:
                return  # The device ignores such a doorbell.
            for number in range(count):
                slot = (qp.sq.produced + number) % qp.sq.depth
                first = qp.llq_base + slot * qp.wqe_bytes
                for at in range(first, first + qp.wqe_bytes, LINE_BYTES):
                    yield defs.EFA_MEM_BAR, at, self._memory[at : at + LINE_BYTES]
