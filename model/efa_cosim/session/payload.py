# SPDX-License-Identifier: Apache-2.0
"""Compares payload writes of the device with the expected payload, byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from efa_cosim.session.result import Difference

if TYPE_CHECKING:
    from efa_cosim.session.expectation import Payload


class PayloadWrite(NamedTuple):
    """A write of the device outside rings."""

    address: int
    data: bytes


class _Target(NamedTuple):
    """A payload of the recording, 1 for each of its bytes that has come, and an offset in it."""

    payload: Payload
    done: bytearray
    start: int


def compare_payload(
    expected: list[Payload], writes: list[PayloadWrite], line: int, header_bytes: int = 0
) -> None:
    """Raises Difference unless each expected byte arrived once and equal, and all other bytes are
    those of datagram headers.

    Several messages of a step may have the same buffer: a write belongs to the first message
    that lacks these bytes, at best to one with the same data.

    - `line`: of the session, for bytes outside the expected payload
    - `header_bytes`: number of bytes of the datagram headers
    """
    beyond = 0
    come = [bytearray(len(target.data)) for target in expected]
    for address, data in writes:
        at = 0
        while at < len(data):
            targets = [
                _Target(target, done, address + at - target.address)
                for target, done in zip(expected, come, strict=True)
                if target.address <= address + at < target.address + len(target.data)
            ]
            if not targets:
                beyond += 1
                at += 1
                continue
            at += _match(targets, address + at, data[at:])
    for target, done in zip(expected, come, strict=True):
        if missing := done.count(0):
            raise Difference(target.line, f"payload at {target.address:#x}: {missing} of "
                             f"{len(target.data)} bytes are missing")
    if beyond != header_bytes:
        raise Difference(line, f"{beyond} bytes were written outside rings and payload, "
                         f"{header_bytes} of datagram headers were expected")


def _match(targets: list[_Target], address: int, data: bytes) -> int:
    """Marks bytes at the begin of a write as come in one of the targets; returns their number."""
    first: tuple[Payload, bytearray, int, bytes] | None = None
    for target, done, start in targets:
        if done[start]:
            continue
        end = done.find(1, start)
        part = target.data[start : len(done) if end < 0 else end][: len(data)]
        if first is None or data.startswith(part):
            first = target, done, start, part
        if data.startswith(part):
            break
    if first is None:
        target = targets[0].payload
        raise Difference(target.line, f"payload at {target.address:#x}: the byte at "
                         f"{address:#x} was written more often than expected")
    target, done, start, part = first
    for offset, (expected, came) in enumerate(zip(part, data, strict=False)):
        if expected != came:
            raise Difference(
                target.line, f"payload at {target.address:#x}, byte {start + offset} of "
                f"{len(target.data)}, address {address + offset:#x}: expected "
                f"{expected:#04x}, got {came:#04x}")
    done[start : start + len(part)] = b"\1" * len(part)
    return len(part)
