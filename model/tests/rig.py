# SPDX-License-Identifier: Apache-2.0
"""Provides a minimal host for the model tests: admin commands, queues and WQEs."""

import os

from efa_cosim.boundary.memory import Memory
from efa_cosim.device.device import Device
from efa_cosim.fabric.fabric import Fabric
from efa_cosim.host.admin_queue import widened
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16
from efa_cosim.layouts.wire import mask

Reg = defs.Reg
Opcode = defs.AdminAqOpcode
Status = defs.AdminAqCompletionStatus
Comp = defs.IoCompStatus
State = defs.AdminQpState
ENTRY = 64
QUEUE_DEPTH = 32
QKEY = 0x1234
SRD, UD = defs.AdminQpType.SRD, defs.AdminQpType.UD


class Refused(Exception):
    """Reports an admin command that completed with an error status."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


def shown(opcode, status):
    """Checks that spec/statuses.yaml lists this status of the command, and logs the pair.

    EFA_STATUSES names a log file; each pair appends one line: test, opcode, status.
    """
    known = defs.COMMAND_STATUSES.get(opcode, [Status.UNSUPPORTED_OPCODE])
    assert status in known, f"{opcode!r}: {status!r} is not in spec/statuses.yaml"
    if "EFA_STATUSES" in os.environ:
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition("::")[2].partition("[")[0]
        with open(os.environ["EFA_STATUSES"], "a", encoding="ascii") as file:
            print(test.split(" ")[0], int(opcode), int(status), file=file)


class Host:
    """One device with its memory and all its outputs; initialized unless `up` is False."""

    def __init__(
        self, node_id=1, profile="basic", limits=None, *, up=True, wide=False, **straps
    ):
        self.memory, self.wide = Memory(), wide
        self.device = Device(
            self.memory, node_id=node_id, profile=profile, limits=limits, **straps
        )
        self.writes, self.interrupts, self.events, self.packets = [], [], [], []
        self.device.on_dma_write = lambda address, data: self.writes.append((address, data))
        self.device.on_interrupt = lambda *message: self.interrupts.append(message)
        self.device.on_event = lambda name, values: self.events.append((name, values))
        self.device.on_packet = self.packets.append
        self._next_address = 0x10_0000
        self.commands = 0
        if up:
            self.bring_up()

    def allocate(self, size, alignment=4096):
        """Allocates zeroed memory; returns its address."""
        start = -(-self._next_address // alignment) * alignment
        self._next_address = start + size
        return start

    def reg(self, offset, value):
        self.device.store(0, offset, value.to_bytes(4, "little"))

    def read_less(self, offset, sequence=1):
        """Returns the value of a register through a readless register read."""
        address = self.allocate(8, 8)
        self.reg(Reg.MMIO_RESP_HI, address >> 32)
        self.reg(Reg.MMIO_RESP_LO, address & 0xFFFFFFFF)
        bits = defs.REG_BITS.MMIO_REG_READ
        self.reg(Reg.MMIO_REG_READ, bits.pack(REQ_ID=sequence, REG_OFF=offset))
        rsp = defs.AdminMmioReqReadLessResp.unpack(self.memory.read(address, 8))
        assert (rsp.req_id, rsp.reg_off) == (sequence, offset)
        return rsp.reg_val

    def base(self, low, high, address):
        self.reg(low, address & 0xFFFFFFFF)
        self.reg(high, address >> 32)

    def bring_up(self, depth=QUEUE_DEPTH):
        """Creates the admin queues and unmasks every MSI-X vector."""
        self.depth, self.commands = depth, 0
        self.entry = 2 * ENTRY if self.wide else ENTRY
        self.aq, self.acq = self.allocate(self.entry * depth), self.allocate(ENTRY * depth)
        self.base(Reg.AQ_BASE_LO, Reg.AQ_BASE_HI, self.aq)
        caps = defs.REG_BITS
        self.reg(Reg.AQ_CAPS, caps.AQ_CAPS.pack(AQ_DEPTH=depth, AQ_ENTRY_SIZE=self.entry))
        self.base(Reg.ACQ_BASE_LO, Reg.ACQ_BASE_HI, self.acq)
        self.reg(Reg.ACQ_CAPS, caps.ACQ_CAPS.pack(ACQ_DEPTH=depth, ACQ_ENTRY_SIZE=ENTRY))
        for vector in range(self.device.limits.msix_vectors):
            self.vector(vector)

    def vector(self, vector, masked=False):
        """Programs an MSI-X table entry: address 0xfee00000 + 16 x vector, data 0x40 + vector."""
        words = (0xFEE00000 + 16 * vector, 0, 0x40 + vector, int(masked))
        start = self.device.limits.msix_table_offset + 16 * vector
        self.device.store(0, start, b"".join(w.to_bytes(4, "little") for w in words))

    def write_command(self, opcode, flags=None, **values):
        """Writes the next AQE without a doorbell; returns its command id."""
        layout = defs.COMMANDS[opcode][0] if opcode in defs.COMMANDS else defs.AdminAqCommonDesc
        entry = layout()
        for path, value in values.items():
            put(entry, path, value)
        common = defs.AdminAqCommonDesc.over(entry.image)
        common.command_id__command_id = command_id = self.commands & 0xFFF
        common.opcode = opcode
        common.phase = 1 ^ (self.commands // self.depth & 1)
        common.flags |= sum(mask(common.FIELDS[name]) for name in flags or ())
        slot = self.commands % self.depth
        image = entry.pack(ENTRY)
        self.memory.write(self.aq + self.entry * slot, widened(image) if self.wide else image)
        self.commands += 1
        return command_id

    def ring_aq(self):
        self.reg(Reg.AQ_PROD_DB, self.commands & 0xFFFF)

    def response(self, number):
        """Returns the ACQE of the number-th command (from 1) after a check of every header field.
        """
        slot, phase = (number - 1) % self.depth, 1 ^ ((number - 1) // self.depth & 1)
        raw = self.memory.read(self.acq + ENTRY * slot, ENTRY)
        header = defs.AdminAcqCommonDesc.unpack(raw)
        assert header.phase == phase and header.reserved == 0
        zeroed = bytearray(raw)
        defs.AdminAcqCommonDesc.over(zeroed).checksum = 0
        assert header.checksum == (crc16(zeroed) if self.device.version >= 2 else 0)
        return header, raw

    def command(self, opcode, flags=None, **values):
        """Executes one command; returns the response layout or raises Refused with its status."""
        command_id = self.write_command(opcode, flags, **values)
        self.ring_aq()
        header, raw = self.response(self.commands)
        assert header.command_id == command_id
        shown(opcode, header.status)
        if header.status != Status.SUCCESS:
            assert not any(raw[8:])
            raise Refused(header.status)
        return defs.COMMANDS[opcode][1].unpack(raw)

    def refusal(self, opcode, flags=None, **values):
        """Returns the status of a command that must fail and must change no state."""
        before = self.device.snapshot(), self.device.digest()
        try:
            self.command(opcode, flags, **values)
        except Refused as refused:
            assert (self.device.snapshot(), self.device.digest()) == before
            return refused.status
        raise AssertionError(f"{opcode!r} was not refused")

    # Objects.

    def pd(self):
        return self.command(Opcode.ALLOC_PD).pd

    def uar(self):
        return self.command(Opcode.ALLOC_UAR).uar

    def ah(self, pd, node=1, gid=None):
        gid = gid or self.device.limits.gid_prefix + node.to_bytes(2, "big")
        return self.command(Opcode.CREATE_AH, pd=pd, dest_addr=gid).ah

    def eq(self, depth=16, vector=1):
        eq = Eq(self, depth)
        rsp = self.command(
            Opcode.CREATE_EQ, depth=depth, msix_vec=vector, entry_size_words=4,
            **words("ba", eq.base),
        )  # fmt: skip
        eq.number = rsp.eqn
        return eq

    def aenq(self, depth=16, vector=0, groups=0x1E):
        """Creates an AENQ with these groups enabled."""
        ring = Aenq(self, depth)
        self.base(Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, ring.base)
        caps = defs.REG_BITS.AENQ_CAPS
        self.reg(Reg.AENQ_CAPS, caps.pack(
            AENQ_DEPTH=depth, AENQ_ENTRY_SIZE=ENTRY, AENQ_MSIX_VECTOR=vector))
        self.enable(groups)
        return ring

    def enable(self, groups):
        """Executes SET_FEATURE of the AENQ groups."""
        values = {"feature_common.feature_id": 2, "u.aenq.enabled_groups": groups}
        self.command(Opcode.SET_FEATURE, **values)

    def counter(self, uar):
        """Creates an event counter; returns its number and the address of its value."""
        address = self.allocate(8, 8)
        rsp = self.command(Opcode.CREATE_EVENT_COUNTER, uar=uar, paddr=address)
        return rsp.cntr_handle, address

    def cq(self, uar, depth=16, entry_words=4, eq=None, **values):
        subs = self.device.profile.sub_cqs_per_cq
        cq = Cq(self, depth, entry_words * 4, subs)
        if eq is not None:
            values |= {"interrupt_mode_enabled": 1, "eqn": eq.number}
        rsp = self.command(
            Opcode.CREATE_CQ, cq_entry_size_words=entry_words, sub_cq_depth=depth,
            num_sub_cqs=subs, uar=uar, **words("cq_ba", cq.base), **values,
        )  # fmt: skip
        assert rsp.sub_cq_actual_depth == depth and rsp.db_valid
        cq.number, cq.doorbell = rsp.cq_idx, rsp.db_offset
        return cq

    def mr(self, pd, address, length, pages=None, shift=12, local_write=1, iova=None, **values):
        """Registers host memory; without a page list, the memory is contiguous."""
        iova = address if iova is None else iova
        if pages is None:
            first = address & -(1 << shift)
            pages = range(first, address + length, 1 << shift)
        pages = list(pages)
        flags = None
        if len(pages) > 4:
            table = self.allocate(8 * len(pages), 8)
            self.memory.write(table, b"".join(p.to_bytes(8, "little") for p in pages))
            values |= words("pbl.pbl.address", table) | {"pbl.pbl.length": 8 * len(pages)}
            flags = ("ctrl_data",)
        else:
            values["pbl.inline_pbl_array"] = pages
        rsp = self.command(
            Opcode.REG_MR, flags, pd=pd, mr_length=length, phys_page_size_shift=shift,
            local_write_enable=local_write, iova=iova, **values,
        )  # fmt: skip
        assert rsp.l_key == rsp.r_key
        return rsp.l_key

    def qp(self, pd, uar, scq, rcq=None, **options):
        return Qp(self, pd, uar, scq, rcq or scq, **options)

    def doorbell(self, offset, value):
        self.device.store(self.device.limits.db_bar, offset, value.to_bytes(4, "little"))

    def names(self, *wanted):
        """Returns the events with these names since the last call."""
        found = [values for name, values in self.events if name in wanted]
        self.events.clear()
        return found


class Ring:
    """A ring that the device fills; `poll` returns each new entry once."""

    def __init__(self, host, depth, entry_bytes, base):
        self.host, self.depth, self.entry_bytes, self.base = host, depth, entry_bytes, base
        self.consumed = 0

    def poll(self):
        result = []
        while True:
            slot, phase = self.consumed % self.depth, 1 ^ (self.consumed // self.depth & 1)
            raw = self.host.memory.read(self.base + slot * self.entry_bytes, self.entry_bytes)
            if self.phase(raw) != phase:
                return result
            result.append(raw)
            self.consumed += 1


class Eq(Ring):
    def __init__(self, host, depth):
        super().__init__(host, depth, 16, host.allocate(16 * depth, 64))

    @staticmethod
    def phase(raw):
        return defs.AdminEqe.unpack(raw).phase

    def arm(self):
        self.host.reg(Reg.EQ_DB, defs.REG_BITS.EQ_DB.pack(EQN=self.number, ARM=1))

    def cqns(self):
        return [defs.AdminEqe.unpack(raw).u.comp_event.cqn for raw in self.poll()]


class Aenq(Ring):
    def __init__(self, host, depth):
        super().__init__(host, depth, ENTRY, host.allocate(ENTRY * depth, 64))

    @staticmethod
    def phase(raw):
        return defs.AdminAenqEntry.unpack(raw).aenq_common_desc.phase

    def events(self):
        """Returns (group, syndrome, data) of each new entry."""
        entries = [defs.AdminAenqEntry.unpack(raw) for raw in self.poll()]
        heads = [entry.aenq_common_desc for entry in entries]
        return [
            (int(head.group), head.syndrome, entry.pack()[16:])
            for head, entry in zip(heads, entries, strict=True)
        ]

    def consume(self, count=None):
        """Writes AENQ_CONS_DB."""
        self.host.reg(Reg.AENQ_CONS_DB, self.consumed if count is None else count)


class Sub(Ring):
    @staticmethod
    def phase(raw):
        return defs.IoCdescCommon.unpack(raw).phase


class Cq:
    """A CQ; `poll` returns the decoded CQEs of one sub-CQ."""

    def __init__(self, host, depth, entry_bytes, subs):
        self.host, self.entry_bytes = host, entry_bytes
        self.base = host.allocate(depth * entry_bytes * subs, 64)
        self.subs = [
            Sub(host, depth, entry_bytes, self.base + i * depth * entry_bytes) for i in range(subs)
        ]

    def poll(self, sub=0):
        layout = defs.IoRxCdescEx if self.entry_bytes == 32 else defs.IoRxCdesc
        return [layout.unpack(raw) for raw in self.subs[sub].poll()]

    def results(self, sub=0):
        """Returns (request id, status, queue type) of each new CQE."""
        entries = self.poll(sub)
        commons = [e.base.common if self.entry_bytes == 32 else e.common for e in entries]
        return [(c.req_id, c.status, int(c.q_type)) for c in commons]

    def ring(self, consumed, arm=0):
        value = defs.DOORBELL_BITS.CQ_DB.pack(CONSUMER_INDEX=consumed & 0xFFFF, ARM=arm)
        self.host.doorbell(self.doorbell, value)


class Qp:
    """A QP with the counters of the provider."""

    def __init__(
        self, host, pd, uar, scq, rcq, kind=SRD, sq_depth=8, rq_depth=8, wqe_bytes=64, **values
    ):  # fmt: skip
        self.host, self.pd, self.wqe_bytes, self.sq_depth = host, pd, wqe_bytes, sq_depth
        self.rq_depth = rq_depth
        self.rq_base = host.allocate(16 * rq_depth) if rq_depth else 0
        self.sq_base = 0
        if host.device.limits.sq_host:
            self.sq_base = values.pop("sq_base_addr", 0) or host.allocate(sq_depth * wqe_bytes)
            values["sq_base_addr"] = self.sq_base
        sizes = {
            "send_queue_ring_size": sq_depth * wqe_bytes, "send_queue_depth": sq_depth,
            "recv_queue_ring_size": 16 * rq_depth, "recv_queue_depth": rq_depth // 2,
        }  # fmt: skip
        self.response = rsp = host.command(
            Opcode.CREATE_QP, pd=pd, qp_type=kind, uar=uar, send_cq_idx=scq.number,
            recv_cq_idx=rcq.number, rq_base_addr=self.rq_base,
            **{f"qp_alloc_size.{name}": value for name, value in sizes.items()}, **values,
        )  # fmt: skip
        self.handle, self.number, self.llq = (
            rsp.qp_handle, rsp.qp_num, rsp.llq_descriptors_offset
        )  # fmt: skip
        self.sent = self.posted = 0

    def modify(self, state=None, **values):
        chosen = {f"modify_mask__{name}": 1 for name in values}
        if state is not None:
            values["qp_state"], chosen["modify_mask__qp_state"] = state, 1
        self.host.command(Opcode.MODIFY_QP, qp_handle=self.handle, **values, **chosen)
        if state == State.RESET:
            self.sent = self.posted = 0
        return self

    def to(self, state, qkey=QKEY):
        """Moves the QP from RESET to a state through the normal transitions."""
        for step in (State.INIT, State.RTR, State.RTS, State.SQD):
            extra = {State.INIT: {"qkey": qkey}, State.RTS: {"sq_psn": 0}}.get(step, {})
            self.modify(step, **extra)
            if step == state:
                return self
        raise ValueError(state)

    def query(self):
        return self.host.command(Opcode.QUERY_QP, qp_handle=self.handle)

    def destroy(self):
        self.host.command(Opcode.DESTROY_QP, qp_handle=self.handle)

    def slot(self, number=None):
        """Returns the BAR offset of a WQE slot."""
        number = self.sent if number is None else number
        return self.llq + number % self.sq_depth * self.wqe_bytes

    def store(self, image, number=None):
        """Stores a WQE in LLQ memory or host memory without a doorbell."""
        if self.sq_base:
            number = self.sent if number is None else number
            at = self.sq_base + number % self.sq_depth * self.wqe_bytes
            self.host.memory.write(at, bytes(image))
            return
        for at in range(0, len(image), 64):
            self.host.device.store(2, self.slot(number) + at, bytes(image[at : at + 64]))

    def ring(self, count=None):
        if count is None:
            count = self.sent
        self.host.doorbell(self.response.sq_db_offset, count & 0xFFFF)

    def send(self, wqe, ring=True):
        self.store(wqe)
        self.sent += 1
        if ring:
            self.ring()

    def post(self, *buffers, req_id=0, last=True, ring=True):
        """Posts one receive WQE with (address, length, lkey) buffers."""
        for number, (address, length, lkey) in enumerate(buffers):
            descriptor = defs.IoRxDesc(
                buf_addr_lo=address & 0xFFFFFFFF, buf_addr_hi=address >> 32, length=length,
                lkey=lkey, first=number == 0, req_id=req_id if number == 0 else 0,
                last=last and number == len(buffers) - 1,
            )  # fmt: skip
            slot = self.posted % self.rq_depth
            self.host.memory.write(self.rq_base + 16 * slot, descriptor.pack())
            self.posted += 1
        if ring:
            self.ring_rq()

    def ring_rq(self, count=None):
        count = self.posted if count is None else count
        self.host.doorbell(self.response.rq_db_offset, count & 0xFFFF)


def words(path, address):
    """Returns the two halves of an address as fields under a path."""
    return {
        f"{path}.mem_addr_low": address & 0xFFFFFFFF,
        f"{path}.mem_addr_high": address >> 32,
    }


def put(layout, path, value):
    *outer, last = path.split(".")
    for name in outer:
        layout = getattr(layout, name)
    setattr(layout, last, value)


def wqe(dest, ah, buffers=(), inline=None, size=64, req_id=0, imm=None, qkey=QKEY, **meta):
    """Returns a valid send WQE; meta overrides fields of its first half."""
    layout = defs.IoTxWqe if size == 64 else defs.IoTxWqe128
    entry = layout()
    values = {
        "req_id": req_id, "meta_desc": 1, "first": 1, "last": 1, "comp_req": 1,
        "dest_qp_num": dest, "ah": ah, "qkey": qkey, "length": len(buffers),
    }  # fmt: skip
    if imm is not None:
        values |= {"has_imm": 1, "immediate_data": imm}
    if inline is not None:
        values |= {"inline_msg": 1, "length": len(inline)}
        entry.data.inline_data = inline
    for number, (address, length, lkey) in enumerate(buffers):
        entry.data.sgl[number] = defs.IoTxBufDesc(
            length=length, lkey=lkey, buf_addr_lo=address & 0xFFFFFFFF, buf_addr_hi=address >> 32
        )
    for name, value in (values | meta).items():
        setattr(entry.meta, name, value)
    return entry.pack()


class Pair:
    """Two connected QPs: on one device in loopback, or on two devices of a fabric."""

    def __init__(self, kind=SRD, two=False, profile="basic", limits=None, **options):
        self.a = Host(1, profile, limits)
        self.b = Host(2, profile, limits) if two else self.a
        self.fabric = Fabric([self.a.device, self.b.device] if two else [self.a.device])
        entry_words = options.pop("entry_words", 4)
        cq_depth = options.pop("cq_depth", 64)
        cq_values = options.pop("cq_values", {})
        self.pd, self.uar = self.a.pd(), self.a.uar()
        self.cq = self.a.cq(self.uar, cq_depth, entry_words, **cq_values)
        self.pd_b, uar_b = (self.b.pd(), self.b.uar()) if two else (self.pd, self.uar)
        self.rcq = self.b.cq(uar_b, cq_depth, entry_words, **cq_values)
        self.tx = self.a.qp(self.pd, self.uar, self.cq, kind=kind, **options).to(State.RTS)
        self.rx = self.b.qp(self.pd_b, uar_b, self.rcq, kind=kind, **options).to(State.RTS)
        self.ah = self.a.ah(self.pd, self.b.device.node_id)
        self.space = self.a.allocate(0x8000)
        self.key = self.a.mr(self.pd, self.space, 0x8000)
        self.space_b = self.b.allocate(0x8000)
        self.key_b = self.b.mr(self.pd_b, self.space_b, 0x8000)

    def buffer(self, at, length):
        return (self.space + at, length, self.key)

    def sink(self, at, length):
        return (self.space_b + at, length, self.key_b)

    def fill(self, at, data):
        self.a.memory.write(self.space + at, data)

    def received(self, at, length):
        return self.b.memory.read(self.space_b + at, length)

    def wqe(self, *buffers, **values):
        values.setdefault("size", self.tx.wqe_bytes)
        return wqe(self.rx.number, self.ah, buffers, **values)

    def send(self, *buffers, **values):
        """Sends one message and runs the fabric."""
        self.tx.send(self.wqe(*buffers, **values))
        self.fabric.run()

    def status(self):
        """Returns the status of the one new send completion."""
        [(_, status, queue)] = self.cq.results()
        assert queue == defs.IoQueueType.SEND_QUEUE
        return status
