# SPDX-License-Identifier: Apache-2.0
"""What the benches of the command units share: a neighbour that owns numbers, one that reads lines.

    unit = Unit(dut, slow=True); await unit.start()
    status, response = await unit.run(AdminAllocPdCmd(), AdminAqOpcode.ALLOC_PD, AdminAllocPdResp)
    assert unit.numbers.reported == [(Op.FIND, Kind.PD, 0), (Op.TAKE, Kind.PD, 0)]

Numbers responses like efa_obj_table: the lowest free number, references, busy while referenced.
"""

from enum import IntEnum

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa.defs import AdminAcqEntry, AdminAqCompletionStatus
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.waits import drive, high, until

Op = IntEnum("Op", "FIND TAKE FREE REF REF_OF_UAR UNREF CHECK", start=0)
Kind = IntEnum("Kind", "PD UAR AH MR EQ CQ QP LLQ", start=0)
OK, ABSENT, BUSY, NONE = range(4)
STATUS = {ABSENT: AdminAqCompletionStatus.ILLEGAL_PARAMETER,
          BUSY: AdminAqCompletionStatus.RESOURCE_BUSY,
          NONE: AdminAqCompletionStatus.RESOURCE_ALLOCATION_FAILURE}  # fmt: skip


class Lines:
    """Host memory behind m_line: pieces of `memory` (bytes by address) come back in order; the one
    with the byte at `broken` fails. Bits beyond a piece's length are random."""

    def __init__(self, dut, name, gaps=0.0, stalls=0.0):
        self.rng, self.memory, self.failed, self.requested = rng_for(name), {}, None, []
        self.responses = StreamDriver(dut, "s_line", gaps)
        self.reads = StreamMonitor(dut, "m_line", stalls, ["addr", "len"], self.response)

    def response(self, beat):
        addr, size = beat["addr"], beat["len"]
        assert 1 <= size <= 64 - addr % 64, beat
        self.requested.append((addr, size))
        line = {"err": int(self.failed in range(addr, addr + size))}
        if "data" in self.responses.payload:
            there = bytes(self.memory.get(at, 0) for at in range(addr, addr + size))
            line["data"] = int.from_bytes(there + self.rng.randbytes(64 - size), "little")
        self.responses.post(line)


class Numbers:
    """Responses obj requests; the state is {(kind, number): references}."""

    def __init__(self, dut, slow):
        self.dut, self.rng, self.slow = dut, rng_for("numbers"), slow
        self.consumed, self.uar_of, self.gens, self.reported = {}, {}, {}, []
        self.full = set()  # kinds that have no free number
        self.first = {}  # by kind, the number that is looked for first
        self.says = {}  # by operation and kind, the code of a refusal whatever is there
        drive(dut, obj_ready=0, obj_rsp_code=0)

    def give(self, kind, *numbers, uar=0):
        """Numbers that are there before the test."""
        for number in numbers:
            self.consumed[kind, number], self.uar_of[kind, number] = 0, uar

    def cancel(self):
        """As after a reset."""
        self.consumed.clear()
        self.uar_of.clear()
        self.gens.clear()
        self.reported.clear()

    def check(self, op, kind, index, uar, log):
        """Response (code, number found) of one request, done at once."""
        key = (kind, index)
        if (op, kind) in self.says:
            return self.says[op, kind], 0
        if op == Op.FIND:
            used = {n for k, n in self.consumed if k == kind}
            first = self.first.get(kind, 0) >> log << log
            free = next(
                n for n in range(first, 1 << 16, 1 << log)
                if not used & {*range(n, n + (1 << log))}
            )  # fmt: skip
            return (NONE, 0) if kind in self.full else (OK, free)
        if op == Op.TAKE:
            for number in range(index, index + (1 << log)):
                assert (kind, number) not in self.consumed, (kind, number)
                self.consumed[kind, number], self.uar_of[kind, number] = 0, uar
            self.gens[key] = self.gens.get(key, 0) + 1
            return OK, index
        assert op != Op.UNREF or key in self.consumed, (key, "let go, which is not there")
        if key not in self.consumed or op == Op.REF_OF_UAR and self.uar_of[key] != uar:
            return ABSENT, 0
        if op == Op.FREE:
            if self.consumed[key]:
                return BUSY, 0
            for number in range(index, index + (1 << log)):
                assert kind != Kind.LLQ or self.uar_of[kind, number] == uar, "pages of another UAR"
                del self.consumed[kind, number]
        elif op in (Op.REF, Op.REF_OF_UAR):
            self.consumed[key] += 1
        elif op == Op.UNREF:
            assert self.consumed[key], (key, "let go more often than named")
            self.consumed[key] -= 1
        return OK, 0

    def requested(self):
        """Operation, kind, number, UAR and size of the request; 0 what its operation ignores."""

        def port(name):
            return int(getattr(self.dut, "obj_" + name).value)

        op = port("op")
        index = 0 if op == Op.FIND else port("index")
        kind = port("kind")
        by_uar = op in (Op.FIND, Op.TAKE, Op.REF_OF_UAR) or kind == Kind.LLQ
        return [op, kind, index, port("uar") if by_uar else 0, port("log")]

    async def run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.obj_valid.value != 1:
                continue
            request = self.requested()
            if self.slow:
                await ClockCycles(dut.clk, self.rng.randrange(8))
            if dut.obj_valid.value != 1:
                continue  # a reset took it back
            assert self.requested() == request, "a waiting request changed"
            op, kind, index, uar, log = request
            key = (Kind(kind), index)
            code, found = self.check(Op(op), Kind(kind), index, uar, log)
            self.reported.append((Op(op), Kind(kind), found if op == Op.FIND else index))
            rsp = {"code": code, "index": found, "gen": self.gens.get(key, 0),
                      "uar": self.uar_of.get(key, 0),
                      "referenced": int(self.consumed.get(key, 0) > 0)}  # fmt: skip
            ports = [(getattr(dut, "obj_rsp_" + name, None), name) for name in rsp]
            ports = [(port, name) for port, name in ports if port is not None]
            for port, name in ports:
                port.value = rsp[name]
            dut.obj_ready.value = 1
            await RisingEdge(dut.clk)
            dut.obj_ready.value = 0
            # What is no response says nothing.
            for port, _ in ports:
                port.value = self.rng.getrandbits(len(port))


def entry(command, opcode, number=0, **flags):
    """An AQ entry as a number."""
    header = command.aq_common
    header.opcode, header.command_id__command_id = opcode, number
    for name, value in flags.items():
        setattr(header, name, value)
    return int.from_bytes(command.pack(64), "little")


class Unit:
    """A command unit between its neighbours; commands go in one at a time."""

    def __init__(self, dut, slow=False):
        self.dut, self.slow, self.rng = dut, slow, rng_for("unit")
        self.numbers = Numbers(dut, slow) if hasattr(dut, "obj_valid") else None
        self.commands = StreamDriver(dut, "s_cmd", 0.5 if slow else 0.0, ["data"])
        # The body of a refusal says nothing, so it is read with the status known.
        self.responses = StreamMonitor(
            dut, "m_rsp", 0.7 if slow else 0.0, ["id", "status"], self.with_body
        )
        if hasattr(dut, "s_cfg_profile"):
            dut.s_cfg_profile.value = 0

    async def start(self):
        """Reset, then the neighbours: what stands on the ports before says nothing."""
        await clock_and_reset(self.dut)
        if self.numbers:
            cocotb.start_soon(self.numbers.run())

    def with_body(self, beat):
        beat["body"] = 0 if beat["status"] else int(self.dut.m_rsp_body.value)

    async def run(self, command, opcode, response=None, **flags):
        """Status and response of one command; where none is named it has zeros only."""
        number = self.rng.randrange(4096)
        self.fill_reserved(command)
        data, size = entry(command, opcode, number, **flags), len(command.pack())
        # What is behind the command says nothing.
        data |= int.from_bytes(self.rng.randbytes(64 - size), "little") << 8 * size
        self.commands.post({"data": data})
        await self.commands.idle()
        self.dut.s_cmd_data.value = self.rng.getrandbits(512)  # nor what is no command
        beat = (await self.responses.take())[0]
        assert beat["id"] == number
        assert response or not beat["body"], "more than a status"
        body = beat["body"].to_bytes(56, "little")
        return beat["status"], (response or AdminAcqEntry).unpack(bytes(8) + body)

    def fill_reserved(self, command):
        """Random bits where the command has none of its own."""
        for part in (command, command.aq_common):
            for name, field in type(part).FIELDS.items():
                if name.startswith("reserved") and hasattr(field, "width"):
                    setattr(part, name, self.rng.getrandbits(field.width))
                elif name.startswith("reserved"):
                    field.slice_of(part.image)[:] = self.rng.randbytes(field.size)

    async def refused(self, command, opcode, status, **flags):
        """A refusal, after which everything is as before."""
        before = dict(self.numbers.consumed) if self.numbers else None
        assert (await self.run(command, opcode, **flags))[0] == status
        assert before is None or self.numbers.consumed == before

    async def every_response(self, command, opcode, *requests, **flags):
        """What efa_obj_table says to one of these requests, but yes, is the status; nothing
        stays."""
        for request in requests:
            for code, status in STATUS.items():
                self.numbers.says = {request: code}
                await self.refused(command, opcode, status, **flags)
        self.numbers.says = {}

    async def cut_off(self, command, opcode, cycles):
        """A command that a reset ends after some cycles, neighbours included."""
        self.commands.post({"data": entry(command, opcode)})
        await until(self.dut, high(self.dut.s_cmd_valid, self.dut.s_cmd_ready))
        await ClockCycles(self.dut.clk, cycles)
        self.commands.clear()
        await reset(self.dut)
        self.responses.beats.clear()
        await self.responses.none(3)
        if self.numbers:
            self.numbers.cancel()


async def cycles_of(dut, data, **neighbours):
    """Cycles from a command's handshake to its response, neighbours that response when
    requested."""
    drive(dut, s_cmd_valid=1, s_cmd_data=data, m_rsp_ready=0, **neighbours)
    await until(dut, high(dut.s_cmd_valid, dut.s_cmd_ready))
    drive(dut, s_cmd_valid=0, s_cmd_data=~data & (1 << 512) - 1)
    cycles = await until(dut, high(dut.m_rsp_valid))
    dut.m_rsp_ready.value = 1
    await RisingEdge(dut.clk)
    dut.m_rsp_ready.value = 0
    await RisingEdge(dut.clk)
    return cycles
