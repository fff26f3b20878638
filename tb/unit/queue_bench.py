# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the benches of rtl/queue: external tables, output pulses, CQE images.

    Table(dut, "qpc_rd_addr", "qpc_rd_data", lambda qpn: contexts.get(qpn, 0))
    work = Pulses(dut, "work", "qpn")        # work.seen: [(cycle, qpn), ...]
"""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import (
    LIMITS,
    IoCompStatus,
    IoQueueType,
    IoRxCdesc,
    IoRxCdescEx,
    IoRxCdescExU,
    IoSendOpType,
    IoTxCdesc,
)
from tb.lib.fast_values import reader
from tb.lib.stream import cycle


class Table:
    """Models an external RAM: each lane returns `read(address)` one cycle later."""

    def __init__(self, dut, addr, data, read, lanes=1):
        self.addr, self.data = getattr(dut, addr), getattr(dut, data)
        self.read, self.lanes = read, lanes
        self.clk = dut.clk
        self.data.value = 0
        cocotb.start_soon(self._serve())

    async def _serve(self):
        end, in_bits = len(self.addr), len(self.addr) // self.lanes
        out_bits = len(self.data) // self.lanes
        places = [(slice(end - in_bits * (lane + 1), end - in_bits * lane), out_bits * lane)
                  for lane in range(self.lanes)]  # fmt: skip
        edge, shown, last = RisingEdge(self.clk), reader(self.addr), None
        while True:
            await edge
            requested = shown()
            words = 0
            for place, lsb in places:
                bits = requested[place]
                if not bits.strip("01"):
                    words |= self.read(int(bits, 2)) << lsb
            # The port keeps the former value.
            if words != last:
                self.data.value = last = words


class Pulses:
    """Records (cycle, payload...) for every cycle of `<prefix>_valid`.

    With `consumed` only cycles with ready high count.
    """

    def __init__(self, dut, prefix, *fields, consumed=False):
        self.dut, self.prefix = dut, prefix
        self.ready = getattr(dut, prefix + "_ready") if consumed else None
        self.valid = getattr(dut, prefix + "_valid")
        self.payload = [getattr(dut, f"{prefix}_{name}") for name in fields]
        self.seen = []
        self._task = cocotb.start_soon(self._watch())

    def stop(self):
        """Stops the recording; recorded beats stay."""
        self._task.cancel()

    async def _watch(self):
        edge, reset, shown = RisingEdge(self.dut.clk), reader(self.dut.rst), reader(self.valid)
        ready = None if self.ready is None else reader(self.ready)
        while True:
            await edge
            if reset() == "1":
                continue
            valid = shown()
            assert valid in "01LH", f"{self.prefix}_valid is unknown"
            if valid == "1" and (ready is None or ready() == "1"):
                self.seen.append((cycle(), *[int(signal.value) for signal in self.payload]))

    def values(self):
        """Returns the payloads without their cycles; a single field is not a tuple."""
        return [beat[1] if len(beat) == 2 else beat[1:] for beat in self.seen]


def lanes(values, width):
    """Packs the values of all readers side by side, the first in the lowest bits."""
    return sum(value << width * lane for lane, value in enumerate(values))


class RefCounts:
    """Models one count of all rings: a lookup returns the updates of its own cycle too."""

    def __init__(self):
        self.counts = {}

    def update(self, new=None, cleared=None):
        """Applies one cycle: `new` is (ring, count) or None, `cleared` a ring or None."""
        if new is not None:
            self.counts[new[0]] = new[1]
        if cleared is not None:
            self.counts[cleared] = 0

    def __getitem__(self, ring):
        return self.counts.get(ring, 0)


def completion_entry(cpl, phase, wide, src_addr, long_id=0):
    """Returns the CQE of a finished work request, by sheet 13.2 and decision 0001.

    `cpl` has the fields of the bundle cpl; `wide`, `src_addr` and `long_id` are those of its CQ.
    """
    received = cpl["rx"] and cpl["status"] == IoCompStatus.OK
    entry = IoRxCdesc() if cpl["rx"] else IoTxCdesc()
    common = entry.common
    common.req_id, common.status, common.phase = cpl["req_id"], cpl["status"], phase
    common.q_type = IoQueueType.RECV_QUEUE if cpl["rx"] else IoQueueType.SEND_QUEUE
    common.op_type, common.qp_num = cpl["op_type"], cpl["qp_num"]
    rest = IoRxCdescExU()
    if not cpl["rx"] and long_id:
        entry.req_id_ex.w = [cpl.get("req_id_ex", 0) >> shift & 0xFFFF for shift in (0, 16, 32)]
    if received:
        entry.length, entry.ah, entry.src_qp_num = cpl["length"], cpl["ah"], cpl["src_qpn"]
        common.has_imm, entry.imm = cpl["has_imm"], cpl["imm"] if cpl["has_imm"] else 0
        common.unsolicited = cpl.get("unsolicited", 0)
        if cpl["op_type"] == IoSendOpType.RDMA_WRITE:
            rest.rdma_write.length_hi = cpl.get("length_hi", 0)
        elif src_addr and cpl["ah"] == LIMITS.reserved_ah:
            rest.src_addr = LIMITS.gid_prefix + cpl["src_node"].to_bytes(2, "big")
    data = entry.pack() + (rest.pack() if wide else b"")
    assert len(data) == (IoRxCdescEx.SIZE if wide else IoRxCdesc.SIZE)
    return data
