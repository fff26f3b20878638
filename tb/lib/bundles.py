# SPDX-License-Identifier: Apache-2.0
"""Presents the fields of bundles and the lanes of arrays of a design as ports of their own.

    pins = Bundles(dut, m_wr_rx=INTERNAL.dma_wr)            # m_wr_rx_data as m_wr_rx_addr, ..._len
    pins.lanes("s_rd", ("adm", "rq"), INTERNAL.dma_rd)      # s_rd_rq_valid, _ready, _addr, _len
    pins.s_rd_rq_len.value = 64                             # the other bits of s_rd_data stay
    src = StreamDriver(pins, "s_rd_rq")
    pins.events("rx")                                       # ev_rx_first_valid, ..._data
    pins.tables("s_table")                                  # mr_valid, mr_index, mr_data; ...
    pins.bundle("m_job_check", "m_job", INTERNAL.rx_check)  # a port beside m_job_data

A port of which no bit was driven yet gets 0 in its other bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, SupportsInt

from efa_cosim.layouts.defs import EV_ENGINES, INTERNAL, Table
from tb.lib.fast_values import bits_of, reader

if TYPE_CHECKING:
    from cocotb.types import Logic, LogicArray

    from efa_cosim.layouts.layout import BitLayout

# Driven value of each port, by path: objects of this module that share a port share its bits.
_driven: dict[str, int] = {}


class Slice:
    """Presents `width` bits of a port from bit `lsb` on, with the interface of a handle."""

    def __init__(self, port: Any, name: str, lsb: int, width: int) -> None:
        self._port, self._name, self._lsb, self._width = port, name, lsb, width
        end = len(port) - lsb
        self._text, self._bits = reader(port), slice(end - width, end)
        self._path, self._others = port._path, ~((1 << width) - 1 << lsb)

    def __len__(self) -> int:
        return self._width

    @property
    def place(self) -> tuple[Any, int, int]:
        """Returns the port and the first and last bit of this slice in it."""
        return self._port, self._lsb, self._lsb + self._width - 1

    def text(self) -> str:
        """Returns the bits as text."""
        return self._text()[self._bits]

    @property
    def value(self) -> Logic | LogicArray:
        return bits_of(self._text()[self._bits])

    @value.setter
    def value(self, value: SupportsInt) -> None:
        self._port.value = self.driven(int(value))

    def driven(self, value: int) -> int:
        """Returns the value of the port with this value in the bits of the slice."""
        assert 0 <= value < 1 << self._width, f"{self._name}: {value} has over {self._width} bits"
        path = self._path
        _driven[path] = whole = _driven.get(path, 0) & self._others | value << self._lsb
        return whole


def drive(slices: Iterable[tuple[Slice, int]]) -> None:
    """Sets slices to values; a port of several slices is written once."""
    ports: dict[str, tuple[Any, int]] = {}
    for one, value in slices:
        ports[one._path] = one._port, one.driven(value)
    for port, whole in ports.values():
        port.value = whole


class Bundles:
    """Presents a design with additional ports; all other names are those of the design."""

    def __init__(self, dut: Any, **layouts: BitLayout) -> None:
        self._slices: dict[str, Slice]
        self._dut, self._slices = dut, {}
        self._replaced: set[str] = set()
        for prefix, layout in layouts.items():
            self._fields(f"{prefix}_data", prefix, layout)

    def _fields(self, port: str, prefix: str, layout: BitLayout, lane: int = 0) -> None:
        """Adds a bundle at a lane of a port."""
        self._replaced.add(port)
        handle = getattr(self._dut, port)
        for name, (lsb, width, _) in layout.fields.items():
            self._add(handle, f"{prefix}_{name}", layout.width * lane + lsb, width)

    def _add(self, handle: Any, name: str, lsb: int, width: int) -> None:
        self._slices[name] = Slice(handle, name, lsb, width)
        self.__dict__.pop(name, None)

    def bundle(self, port: str, prefix: str, layout: BitLayout) -> Self:
        """Adds the fields of a port that is not called <prefix>_data."""
        self._fields(port, prefix, layout)
        return self

    def lanes(
        self,
        array: str,
        names: Iterable[str],
        layout: BitLayout | None = None,
        *,
        shared: BitLayout | None = None,
        valid_only: bool = False,
        **fields: int,
    ) -> Self:
        """Adds the lanes of an array of streams: with a bundle each, with a shared bundle, or with
        fields of a width."""
        for lane, name in enumerate(names):
            prefix = f"{array}_{name}"
            for signal in ("valid",) if valid_only else ("valid", "ready"):
                self._add(getattr(self._dut, f"{array}_{signal}"), f"{prefix}_{signal}", lane, 1)
            if layout is not None:
                self._fields(f"{array}_data", prefix, layout, lane)
            if shared is not None:
                self._fields(f"{array}_data", prefix, shared)
            for field, width in fields.items():
                port = getattr(self._dut, f"{array}_{field}")
                self._add(port, f"{prefix}_{field}", width * lane, width)
        return self

    def events(self, engine: str) -> Self:
        """Adds the events that an engine of spec/events.yaml drives: ev_<name>_valid, _data."""
        for lane, kind in enumerate(EV_ENGINES[engine]):
            for signal, width in (("valid", 1), ("data", 64)):
                name = f"ev_{kind.name.lower()}_{signal}"
                self._add(getattr(self._dut, f"ev_{signal}"), name, width * lane, width)
        return self

    def tables(self, array: str) -> Self:
        """Adds the tables of efa_table: mr_valid, mr_index, mr_data and so on."""
        for table in Table:
            if table is not Table.COUNT:
                valid = getattr(self._dut, f"{array}_valid")
                self._add(valid, f"{table.name.lower()}_valid", table, 1)
        for name, (lsb, width, _) in INTERNAL.table_wr.fields.items():
            self._add(getattr(self._dut, f"{array}_data"), name, lsb, width)
        return self

    def __getattr__(self, name: str) -> Any:
        found = self._slices[name] if name in self._slices else getattr(self._dut, name)
        # Later reads find the port without a call.
        self.__dict__[name] = found
        return found

    def __iter__(self) -> Iterator[Any]:
        yield from (handle for handle in self._dut if handle._name not in self._replaced)
        yield from self._slices.values()
