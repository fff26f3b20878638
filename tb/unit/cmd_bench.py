# SPDX-License-Identifier: Apache-2.0
"""Models the neighbours of the command units: the owner of object numbers and host memory lines.

    unit = Unit(dut, slow=True); await unit.start()
    status, response = await unit.run(AdminAllocPdCmd(), AdminAqOpcode.ALLOC_PD, AdminAllocPdResp)
    assert unit.numbers.reported == [(Op.FIND, Kind.PD, 0), (Op.TAKE, Kind.PD, 0)]

`Numbers` responds like efa_obj_table: lowest free number, references, busy while referenced.
"""

from enum import IntEnum

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import AdminAcqEntry, AdminAqCompletionStatus
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.waits import drive, high, until

Op = IntEnum("Op", "FIND TAKE FREE REF REF_OF_UAR UNREF CHECK", start=0)
Kind = IntEnum("Kind", "PD UAR AH MR EQ CQ QP LLQ", start=0)
OK, ABSENT, BUSY, NONE = range(4)
STATUS = {ABSENT: AdminAqCompletionStatus.ILLEGAL_PARAMETER,
          BUSY: AdminAqCompletionStatus.RESOURCE_BUSY,
          NONE: AdminAqCompletionStatus.RESOURCE_ALLOCATION_FAILURE}  # fmt: skip


class Lines:
    """Models host memory behind m_line. Reads of `memory` (bytes by address) complete in order;
    a read that contains the address `failed` ends with an error. Bits beyond the length of a
    read are random."""

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
    """Models efa_obj_table; the state is {(kind, number): references}."""

    def __init__(self, dut, slow):
        self.dut, self.rng, self.slow = dut, rng_for("numbers"), slow
        self.consumed, self.uar_of, self.gens, self.reported = {}, {}, {}, []
        self.full = set()  # kinds without a free number
        self.first = {}  # lowest number considered by a search, by kind
        self.says = {}  # code that overrides the response, by operation and kind
        drive(dut, m_obj_ready=0, s_obj_rsp_code=0)

    def give(self, kind, *numbers, uar=0):
        """Allocates numbers before the test."""
        for number in numbers:
            self.consumed[kind, number], self.uar_of[kind, number] = 0, uar

    def cancel(self):
        """Clears the state as a reset does."""
        self.consumed.clear()
        self.uar_of.clear()
        self.gens.clear()
        self.reported.clear()

    def check(self, op, kind, index, uar, log):
        """Returns the response (code, number found) to one request and applies the request."""
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
        assert op != Op.UNREF or key in self.consumed, (key, "released an absent object")
        if key not in self.consumed or op == Op.REF_OF_UAR and self.uar_of[key] != uar:
            return ABSENT, 0
        if op == Op.FREE:
            if self.consumed[key]:
                return BUSY, 0
            for number in range(index, index + (1 << log)):
                assert kind != Kind.LLQ or self.uar_of[kind, number] == uar, (
                    "freed page belongs to another UAR"
                )
                del self.consumed[kind, number]
        elif op in (Op.REF, Op.REF_OF_UAR):
            self.consumed[key] += 1
        elif op == Op.UNREF:
            assert self.consumed[key], (key, "more references released than held")
            self.consumed[key] -= 1
        return OK, 0

    def requested(self):
        """Returns operation, kind, number, UAR and size of the request; ignored fields are 0."""

        def port(name):
            return int(getattr(self.dut, "m_obj_" + name).value)

        op = port("op")
        index = 0 if op == Op.FIND else port("index")
        kind = port("kind")
        by_uar = op in (Op.FIND, Op.TAKE, Op.REF_OF_UAR) or kind == Kind.LLQ
        return [op, kind, index, port("uar") if by_uar else 0, port("log")]

    async def run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.m_obj_valid.value != 1:
                continue
            request = self.requested()
            if self.slow:
                await ClockCycles(dut.clk, self.rng.randrange(8))
            if dut.m_obj_valid.value != 1:
                continue  # a reset cancelled the request
            assert self.requested() == request, "a pending request changed"
            op, kind, index, uar, log = request
            key = (Kind(kind), index)
            code, found = self.check(Op(op), Kind(kind), index, uar, log)
            self.reported.append((Op(op), Kind(kind), found if op == Op.FIND else index))
            rsp = {"code": code, "index": found, "gen": self.gens.get(key, 0),
                      "uar": self.uar_of.get(key, 0),
                      "referenced": int(self.consumed.get(key, 0) > 0)}  # fmt: skip
            ports = [(getattr(dut, "s_obj_rsp_" + name, None), name) for name in rsp]
            ports = [(port, name) for port, name in ports if port is not None]
            for port, name in ports:
                port.value = rsp[name]
            dut.m_obj_ready.value = 1
            await RisingEdge(dut.clk)
            dut.m_obj_ready.value = 0
            # The response ports are random while there is no response.
            for port, _ in ports:
                port.value = self.rng.getrandbits(len(port))


def entry(command, opcode, number=0, **flags):
    """Returns an AQE as an integer."""
    header = command.aq_common
    header.opcode, header.command_id__command_id = opcode, number
    for name, value in flags.items():
        setattr(header, name, value)
    return int.from_bytes(command.pack(64), "little")


class Unit:
    """Connects a command unit to its neighbours and runs one command at a time."""

    def __init__(self, dut, slow=False):
        self.dut, self.slow, self.rng = dut, slow, rng_for("unit")
        self.numbers = Numbers(dut, slow) if hasattr(dut, "m_obj_valid") else None
        self.commands = StreamDriver(dut, "s_cmd", 0.5 if slow else 0.0, ["data"])
        # The body of a refusal is don't-care, so the body is captured together with the status.
        self.responses = StreamMonitor(
            dut, "m_rsp", 0.7 if slow else 0.0, ["id", "status"], self.with_body
        )
        if hasattr(dut, "s_cfg_profile"):
            dut.s_cfg_profile.value = 0

    async def start(self):
        """Resets the unit, then starts the neighbours; port values before the start are
        don't-care."""
        await clock_and_reset(self.dut)
        if self.numbers:
            cocotb.start_soon(self.numbers.run())

    def with_body(self, beat):
        beat["body"] = 0 if beat["status"] else int(self.dut.m_rsp_body.value)

    async def run(self, command, opcode, response=None, **flags):
        """Runs one command; returns its status and response. Without a response type the body
        must be 0."""
        number = self.rng.randrange(4096)
        self.fill_reserved(command)
        data, size = entry(command, opcode, number, **flags), len(command.pack())
        # Bytes after the command are don't-care.
        data |= int.from_bytes(self.rng.randbytes(64 - size), "little") << 8 * size
        self.commands.post({"data": data})
        await self.commands.idle()
        # The data is don't-care without valid.
        self.dut.s_cmd_data.value = self.rng.getrandbits(512)
        beat = (await self.responses.take())[0]
        assert beat["id"] == number
        assert response or not beat["body"], "the body must be 0 for a command without a response"
        body = beat["body"].to_bytes(56, "little")
        return beat["status"], (response or AdminAcqEntry).unpack(bytes(8) + body)

    def fill_reserved(self, command):
        """Sets random bits in the reserved fields of the command."""
        for part in (command, command.aq_common):
            for name, field in type(part).FIELDS.items():
                if name.startswith("reserved") and hasattr(field, "width"):
                    setattr(part, name, self.rng.getrandbits(field.width))
                elif name.startswith("reserved"):
                    field.slice_of(part.image)[:] = self.rng.randbytes(field.size)

    async def refused(self, command, opcode, status, **flags):
        """Checks that the command is refused with `status` and changes no reference count."""
        before = dict(self.numbers.consumed) if self.numbers else None
        assert (await self.run(command, opcode, **flags))[0] == status
        assert before is None or self.numbers.consumed == before

    async def every_response(self, command, opcode, *requests, **flags):
        """Checks that each error code of efa_obj_table for one of these requests becomes the
        status and leaves no reference."""
        for request in requests:
            for code, status in STATUS.items():
                self.numbers.says = {request: code}
                await self.refused(command, opcode, status, **flags)
        self.numbers.says = {}

    async def cut_off(self, command, opcode, cycles):
        """Interrupts a command by a reset after `cycles` and clears the neighbours."""
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
    """Returns the cycles from the handshake of a command to its response; neighbours respond
    immediately."""
    drive(dut, s_cmd_valid=1, s_cmd_data=data, m_rsp_ready=0, **neighbours)
    await until(dut, high(dut.s_cmd_valid, dut.s_cmd_ready))
    drive(dut, s_cmd_valid=0, s_cmd_data=~data & (1 << 512) - 1)
    cycles = await until(dut, high(dut.m_rsp_valid))
    dut.m_rsp_ready.value = 1
    await RisingEdge(dut.clk)
    dut.m_rsp_ready.value = 0
    await RisingEdge(dut.clk)
    return cycles
