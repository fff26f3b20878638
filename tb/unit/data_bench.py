# SPDX-License-Identifier: Apache-2.0
"""Shares models of the rtl/data and rtl/transport benches: moments, memory regions."""

import cocotb
from cocotb.triggers import RisingEdge

from efa_cosim.layouts.defs import INTERNAL, LIMITS
from tb.lib.stream import StreamMonitor
from tb.lib.timing import timing
from tb.lib.waits import pulse, until

TOP = 1 << 64


async def consumed(driver, cycles=50000):
    """Waits until the last beat of a driver is accepted; fails after `cycles`."""
    await until(driver.dut, lambda: not driver.waiting, f"{driver.prefix} accepted", cycles)


class RawMonitor(StreamMonitor):
    """Captures payload as bit strings, because don't-care parts of a beat may be unknown."""

    def _read(self):
        return {name: str(signal.value) for name, signal in self.payload.items()}


class Raw:
    """Reads fields of a bundle given as a bit string; a known field is an integer."""

    def __init__(self, layout, bits):
        self._layout, self._bits = layout, bits

    def raw(self, name):
        """Returns the bit string of a field."""
        lsb, width, _ = self._layout.fields[name]
        end = len(self._bits) - lsb
        return self._bits[end - width : end]

    def __getattr__(self, name):
        return int(self.raw(name), 2)


class Moments:
    """Records the cycles of stream handshakes and of signals that are 1.

    Moments(dut, "s_item", "done"): a name with a _valid port is a stream, with or without _ready.
    """

    def __init__(self, dut, *names):
        self.seen = {name: [] for name in names}
        self._watched = [
            (name, [getattr(dut, part) for part in self._parts(dut, name)]) for name in names
        ]
        self._clk, self._cycle = dut.clk, 0
        cocotb.start_soon(self._watch())

    @staticmethod
    def _parts(dut, name):
        if not hasattr(dut, name + "_valid"):
            return [name]
        ready = [name + "_ready"] if hasattr(dut, name + "_ready") else []
        return [name + "_valid", *ready]

    async def _watch(self):
        while True:
            await RisingEdge(self._clk)
            self._cycle += 1
            for name, signals in self._watched:
                if all(signal.value == 1 for signal in signals):
                    self.seen[name].append(self._cycle)

    def __getitem__(self, name):
        return self.seen[name]

    def clear(self):
        """Clears the recorded cycles."""
        for cycles in self.seen.values():
            cycles.clear()

    def latency(self, begin, end):
        """Returns the cycles from the first handshake of `begin` to the first of `end`."""
        return self.seen[end][0] - self.seen[begin][0]

    def intervals(self, name):
        """Returns the set of distances between consecutive handshakes."""
        seen = self.seen[name]
        return {after - before for before, after in zip(seen, seen[1:], strict=False)}

    def hold(self, module, path, begin, end):
        """Checks latency and interval against spec/timing.yaml: each interval, or the mean if
        the interval is not an integer."""
        promised = timing(module, path)
        assert self.latency(begin, end) == promised.latency, self.seen
        if isinstance(promised.interval, float):
            seen = self.seen[end]
            assert (seen[-1] - seen[0]) / (len(seen) - 1) == promised.interval, self.seen
        elif promised.interval is not None:
            assert self.intervals(end) == {promised.interval}, self.seen


class Regions:
    """Models memory regions as reported to efa_mr_check and efa_mr_translate, and their
    permissions."""

    def __init__(self, rng):
        self.rng, self.table, self.pages = rng, {}, {}

    def make(self, index, pd, size, **fields):
        """Creates a region of `size` bytes at a random address with its pages; returns its
        fields."""
        rng = self.rng
        phys = fields.get("phys", 0)
        shift = fields.get("shift", 12)
        iova = rng.randrange((TOP - size) >> 4) << 4
        count = 0 if phys else ((iova % (1 << shift)) + size + (1 << shift) - 1) >> shift
        # The pages of small regions are spread over the MTT and do not overlap.
        first = 37 * len(self.table) % 64 * 128 + rng.randrange(90)
        region = {"live": 1, "key": rng.randrange(1, 1 << 12) << LIMITS.mr_w | index, "pd": pd,
                  "local_write": 1, "phys": phys, "shift": shift, "mtt": first,
                  "iova": iova, "length": size, **fields}  # fmt: skip
        for number in range(count):
            self.pages[first + number] = rng.getrandbits(51 - shift) << shift
        self.table[index] = region
        return region

    async def report(self, dut, index=None, pages=True):
        """Reports the regions over mr_* and, if `pages` is set, their pages over mtt_*."""
        for at in [index] if index is not None else list(self.table):
            region = INTERNAL.mrc.pack(**self.table[at])
            await pulse(dut, "s_mr_valid", s_mr_index=at, s_mr_data=region)
            # The data is don't-care without valid.
            dut.s_mr_data.value = self.rng.getrandbits(len(dut.s_mr_data))
        if pages:
            await self.report_pages(dut)

    async def report_pages(self, dut):
        """Reports all pages over mtt_*."""
        for index, address in self.pages.items():
            await pulse(dut, "s_mtt_valid", s_mtt_index=index, s_mtt_data=address >> 12)
            dut.s_mtt_data.value = self.rng.getrandbits(52)

    def allows(self, key, pd, addr, size, write=False):
        """Returns the check result by decision 0001: key, domain, range, local write; length 0
        passes."""
        if size == 0:
            return True
        region = self.table.get(key % (1 << LIMITS.mr_w))
        if region is None or not region["live"] or region["key"] != key or region["pd"] != pd:
            return False
        inside = addr - region["iova"]
        return 0 <= inside and inside + size <= region["length"] and (
            not write or bool(region["local_write"]))  # fmt: skip

    def loc(self, key, addr):
        """Returns the fields of INTERNAL.mr_loc for a byte of a region."""
        region = self.table[key % (1 << LIMITS.mr_w)]
        page = region["iova"] >> region["shift"] << region["shift"]
        start = addr if region["phys"] else (addr - page) % TOP
        return {name: region[name] for name in ("phys", "shift", "mtt")} | {"start": start}

    def host(self, loc, at):
        """Returns the host address of byte `at` after a location."""
        where = loc["start"] + at
        if loc["phys"]:
            return where
        return self.pages[loc["mtt"] + (where >> loc["shift"])] + where % (1 << loc["shift"])


def pieces(host, size, log):
    """Returns (host address, length) of the accesses that cover `size` bytes. host(at) is the
    address of byte `at`; no access crosses a block of 1 << log bytes."""
    found, at = [], 0
    while at < size:
        start = host(at)
        length = min(size - at, (1 << log) - start % (1 << log))
        found.append((start, length))
        at += length
    return found
