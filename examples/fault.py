# SPDX-License-Identifier: Apache-2.0
"""Makes three faults, each on its own queue pair, and prints what the host sees of them.

    .venv/bin/python examples/fault.py                  # the reference model
    .venv/bin/python examples/fault.py verilator        # the RTL
"""

import sys

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.host.driver import Driver
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts.defs import AdminQpState


def main(name: str = "model") -> None:
    with open_backend(name) as device:
        driver = Driver(device).probe()
        context = Context(driver)
        pd, cq = context.alloc_pd(), context.create_cq(16, events=True)
        unread, beyond, lost = (pd.create_qp(cq, cq).to_rts(qkey=1) for _ in range(3))
        memory, absent = pd.reg_mr(4096), pd.create_ah(gid_of(device.node_id + 1))
        message = SendWr(absent, lost.number, qkey=1, sges=[Sge(memory.addr, 64, memory.l_key)])

        def show(fault, qp):
            try:
                cq.get_event()
                seen = f"event, status {cq.poll()[0].status.name}"
                cq.req_notify()
            except DeviceTimeout:
                seen = "no event"
            print(f"{fault}: {seen}, queue pair in {AdminQpState(qp.query().qp_state).name}")

        cq.req_notify()
        lost.post_send(message)
        show("packet to a node that is absent", lost)
        lost.modify(AdminQpState.ERR)
        show("the same send, flushed", lost)

        beyond.post_recv(message.sges)
        context.ring(beyond.rq_db, 1 + beyond.rq_descriptors)
        context.push()
        show("doorbell beyond the ring", beyond)

        # On the model device.memory is the view of the CPU, on which no read fails.
        read_by_device = device.device_memory if name == "model" else device.memory
        read_by_device.fail(*next(memory.pieces(0, 64)))
        unread.post_send(message)
        show("failed read of the payload", unread)


if __name__ == "__main__":
    main(*sys.argv[1:])
