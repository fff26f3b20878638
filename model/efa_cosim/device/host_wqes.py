# SPDX-License-Identifier: Apache-2.0
"""Fetches send WQEs from host memory, for builds with send queues there (SQ_HOST).

The model fetches each posted WQE separately; hardware combines reads. After a failed read, the
set of affected WQEs is therefore implementation-defined, unless the read covers a whole batch.
"""

from __future__ import annotations

from efa_cosim.boundary.memory import HostMemory, HostReadError
from efa_cosim.device.objects import Qp
from efa_cosim.layouts import defs

_State = defs.AdminQpState
_NOT_YET = (_State.RESET, _State.INIT, _State.RTR)


class HostWqes:
    """Fetches posted WQEs into the queue pair's `fetched`: bytes, None if the read failed."""

    def __init__(self, memory: HostMemory) -> None:
        self._memory = memory

    def fetch(self, qp: Qp) -> bool:
        """Fetches posted WQEs not fetched yet; False if one of the reads failed."""
        sq, intact = qp.sq, True
        if qp.state in _NOT_YET:
            return intact
        for ahead in range(len(qp.fetched), sq.waiting):
            address = qp.sq_base + sq.slot(ahead) * qp.wqe_bytes
            try:
                qp.fetched.append(self._memory.read(address, qp.wqe_bytes))
            except HostReadError:
                qp.fetched.append(None)
                intact = False
        return intact

    @staticmethod
    def broken(qp: Qp) -> bool:
        """True if the fetch of the next WQE failed."""
        return qp.fetched[0] is None

    @staticmethod
    def take(qp: Qp) -> bytes:
        """Consumes the next WQE; returns zeros if its fetch failed."""
        entry = qp.fetched.popleft()
        qp.sq.take()
        return bytes(qp.wqe_bytes) if entry is None else entry
