# SPDX-License-Identifier: Apache-2.0
"""Sends one message from a queue pair to another, on the reference model or on the RTL.

    .venv/bin/python examples/hello_verbs.py                    # the reference model
    .venv/bin/python examples/hello_verbs.py verilator          # the RTL
    .venv/bin/python examples/hello_verbs.py verilator waves    # the same, with waves
"""

import sys

from efa_cosim.backends import open_backend
from efa_cosim.host.driver import Driver
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of


def main(name: str = "model", *options: str) -> None:
    with open_backend(name, **dict.fromkeys(options, True)) as device:
        context = Context(Driver(device).probe())
        pd, cq = context.alloc_pd(), context.create_cq(16)
        sender, receiver = (pd.create_qp(cq, cq).to_rts(qkey=0x1234) for _ in range(2))
        memory, ah = pd.reg_mr(4096), pd.create_ah(gid_of(device.node_id))
        memory.write(0, b"Hello, verbs!")
        receiver.post_recv([Sge(memory.addr + 2048, 64, memory.l_key)], wr_id=2)
        sge = Sge(memory.addr, 13, memory.l_key)
        sender.post_send(SendWr(ah, receiver.number, qkey=0x1234, sges=[sge], wr_id=1))
        for one in cq.wait_for(2):
            print(f"work request {one['wr_id']}: status {one['status']}")
        print(f"received {memory.read(2048, 13)!r} on {name}, {device.cycles:,} cycles")


if __name__ == "__main__":
    main(*sys.argv[1:])
