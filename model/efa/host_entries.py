# SPDX-License-Identifier: Apache-2.0
"""Send entries of a build whose send queues lie in host memory: read once rung, then kept.

Each entry is read on its own; hardware shares reads between them, so what a failed read takes
along with it is the hardware's affair as soon as it is not all of a batch.
"""

from efa import defs
from efa.memory import HostReadError

_State = defs.AdminQpState
_NOT_YET = (_State.RESET, _State.INIT, _State.RTR)


class HostEntries:
    """Reads what was rung into the queue pair's `fetched`: bytes, None where a read failed."""

    def __init__(self, memory):
        self._memory = memory

    def fetch(self, qp):
        """Reads what was rung and not read yet; False when one of the entries failed."""
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
    def broken(qp):
        """True when the read of the next entry failed."""
        return qp.fetched[0] is None

    @staticmethod
    def take(qp):
        """The next entry; zeros for one whose read failed."""
        entry = qp.fetched.popleft()
        qp.sq.take()
        return bytes(qp.wqe_bytes) if entry is None else entry
