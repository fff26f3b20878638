# SPDX-License-Identifier: Apache-2.0
"""Writes memory of another device, then reads it back, on the reference model.

    .venv/bin/python examples/rdma.py
"""

from efa_cosim.backends import open_backend
from efa_cosim.host.driver import Driver
from efa_cosim.host.driver_objects import Access
from efa_cosim.host.queue_pair import RdmaWr, Sge
from efa_cosim.host.verbs import Context, gid_of

QKEY = 0x1234


def main() -> None:
    # Two devices on one fabric.
    near, far = open_backend("model", nodes=2)
    pds = [Context(Driver(device).probe()).alloc_pd() for device in (near, far)]
    cqs = [pd.context.create_cq(16) for pd in pds]
    qp, peer = (pd.create_qp(cq, cq).to_rts(QKEY) for pd, cq in zip(pds, cqs, strict=True))
    local = pds[0].reg_mr(1 << 20)
    remote = pds[1].reg_mr(1 << 20, Access(remote_write=True, remote_read=True))
    # The responder refuses an initiator without address handle.
    pds[1].create_ah(gid_of(near.node_id))
    target = {"ah": pds[0].create_ah(gid_of(far.node_id)), "dest_qp": peer.number, "qkey": QKEY,
              "remote_addr": remote.addr, "r_key": remote.r_key}

    local.write(0, b"over there" * 50_000)
    qp.post_write(RdmaWr(**target, sges=[Sge(local.addr, 500_000, local.l_key)], wr_id=1))
    print(f"write: status {cqs[0].wait_for(1)['status'][0]}, the peer has {remote.read(0, 10)!r}")
    remote.write(0, b"changed")
    qp.post_read(RdmaWr(**target, sges=[Sge(local.addr, 500_000, local.l_key)], wr_id=2))
    print(f"read: status {cqs[0].wait_for(1)['status'][0]}, it begins {local.read(0, 10)!r}")


if __name__ == "__main__":
    main()
