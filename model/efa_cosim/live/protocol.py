# SPDX-License-Identifier: Apache-2.0
"""Messages of the vfio-user protocol: their numbers, their fields, and the checks of a request.

Source: QEMU's documentation, docs/interop/vfio-user.rst. All numbers are little-endian, as on the
machines that run this server.
"""

from __future__ import annotations

import errno
import json
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from efa_cosim.live.guest_memory import MOST_RANGES

MAJOR, MINOR = 0, 0
PAGE_BYTES = 4096
MOST_DATA_BYTES = 1 << 20  # of one region access
MOST_FDS = 16  # of one message
HEADER = struct.Struct("<HHIII")
# A region write of MOST_DATA_BYTES with its own fields is the longest message.
MOST_MESSAGE_BYTES = HEADER.size + 16 + MOST_DATA_BYTES


# Flags are IntEnum, too: `&` and `|` of an IntFlag take a microsecond, those of an int do not.
class Command(IntEnum):
    """Commands of a client."""

    VERSION = 1
    DMA_MAP = 2
    DMA_UNMAP = 3
    GET_INFO = 4
    GET_REGION_INFO = 5
    GET_REGION_IO_FDS = 6
    GET_IRQ_INFO = 7
    SET_IRQS = 8
    REGION_READ = 9
    REGION_WRITE = 10
    DEVICE_RESET = 13
    REGION_WRITE_MULTI = 15


class Flags(IntEnum):
    """Flags of a header. The type is in the four lowest bits: 0 command, 1 reply."""

    REPLY = 1
    TYPE = 0xF
    NO_REPLY = 1 << 4
    ERROR = 1 << 5


class DmaFlags(IntEnum):
    """Access of the device to a range of memory."""

    READ = 1
    WRITE = 2


class RegionFlags(IntEnum):
    """Access of the client to a region."""

    READ = 1
    WRITE = 2
    MMAP = 4


class IrqFlags(IntEnum):
    """Data and action of SET_IRQS."""

    DATA_NONE = 1
    DATA_BOOL = 2
    DATA_EVENTFD = 4
    ACTION_MASK = 8
    ACTION_UNMASK = 16
    ACTION_TRIGGER = 32


class Region(IntEnum):
    """Regions of a PCI function; BARs are 0 to 5."""

    ROM = 6
    CONFIG = 7
    VGA = 8


REGIONS = 9
MSIX_IRQ, IRQS = 2, 5  # INTx, MSI, MSI-X, error, request
DEVICE_RESET_FLAG, DEVICE_PCI_FLAG = 1, 2
IRQ_EVENTFD_FLAG, IRQ_NORESIZE_FLAG = 1, 8

_VERSION = struct.Struct("<HH")
_DMA_MAP = struct.Struct("<IIQQQ")
_DMA_UNMAP = struct.Struct("<IIQQ")
_INFO = struct.Struct("<IIII")
_REGION_INFO = struct.Struct("<IIIIQQ")
_IRQ_INFO = struct.Struct("<IIII")
_IRQ_SET = struct.Struct("<IIIII")
_ACCESS = struct.Struct("<QII")
_COUNT = struct.Struct("<Q")
_MULTI = struct.Struct("<QII8s")


class ProtocolError(Exception):
    """The client broke the protocol; the connection must end. The text says what was received."""


class RequestRefused(Exception):
    """A request that is well formed and not possible; `number` is the errno of the reply."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class Header(NamedTuple):
    """Header of a message; `size` in bytes, with the header."""

    message: int
    command: int
    size: int
    flags: int
    error: int


class Access(NamedTuple):
    """A region access: byte offset, region, size in bytes, and the bytes of a write."""

    offset: int
    region: int
    size: int
    data: bytes


class DmaMap(NamedTuple):
    """A range of client memory: file offset, bus address and size in bytes."""

    flags: int
    offset: int
    address: int
    size: int


class IrqSet(NamedTuple):
    """Fields of SET_IRQS: the kind of interrupt, the first and the number; `data` holds the
    booleans."""

    flags: int
    kind: int
    start: int
    number: int
    data: bytes


def header(data: bytes | bytearray) -> Header:
    """Reads a header; raises ProtocolError unless a command of a possible size follows."""
    found = Header(*HEADER.unpack_from(data))
    if not HEADER.size <= found.size <= MOST_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {found.size} bytes; expected {HEADER.size} to "
                            f"{MOST_MESSAGE_BYTES}")
    if found.flags & Flags.TYPE:
        raise ProtocolError(f"message type {found.flags & Flags.TYPE}; expected a command (0)")
    return found


def reply(request: Header, payload: bytes = b"", error: int = 0) -> bytes:
    """Returns the reply to a request; with an error, the reply has no payload."""
    flags = Flags.REPLY | (Flags.ERROR if error else 0)
    payload = b"" if error else payload
    return HEADER.pack(
        request.message, request.command, HEADER.size + len(payload), flags, error) + payload


def _fields(form: struct.Struct, payload: bytes, name: str) -> tuple[Any, ...]:
    if len(payload) < form.size:
        raise ProtocolError(f"{name} of {len(payload)} bytes; expected at least {form.size}")
    return form.unpack_from(payload)


def version(payload: bytes) -> bytes:
    """Checks the version that a client proposes; returns the payload of the reply."""
    major, minor = _fields(_VERSION, payload, "VERSION")
    if major != MAJOR:
        raise ProtocolError(f"protocol version {major}.{minor}; expected {MAJOR}.x")
    text = payload[_VERSION.size :].partition(b"\0")[0]
    try:
        proposed = json.loads(text) if text else {}
        capabilities = proposed.get("capabilities", {})
        batches = bool(capabilities.get("write_multiple"))
    except (ValueError, AttributeError, RecursionError):
        raise ProtocolError(f"VERSION with data that is no JSON object: {text[:40]!r}") from None
    own: dict[str, Any] = {"max_msg_fds": MOST_FDS, "max_data_xfer_size": MOST_DATA_BYTES,
                           "max_dma_maps": MOST_RANGES, "pgsizes": PAGE_BYTES}
    if batches:
        own["write_multiple"] = True
    answer = json.dumps({"capabilities": own}).encode() + b"\0"
    return _VERSION.pack(MAJOR, min(minor, MINOR)) + answer


def dma_map(payload: bytes) -> DmaMap:
    """Reads DMA_MAP."""
    _, *fields = _fields(_DMA_MAP, payload, "DMA_MAP")
    return DmaMap(*fields)


def dma_unmap(payload: bytes) -> tuple[int, int]:
    """Reads DMA_UNMAP: address and size in bytes."""
    _, flags, address, size = _fields(_DMA_UNMAP, payload, "DMA_UNMAP")
    if flags:
        raise RequestRefused(errno.ENOTSUP, f"DMA_UNMAP with flags {flags:#x}")
    return address, size


def device_info() -> bytes:
    """Returns the payload of a reply to GET_INFO."""
    return _INFO.pack(_INFO.size, DEVICE_RESET_FLAG | DEVICE_PCI_FLAG, REGIONS, IRQS)


def region_index(payload: bytes) -> int:
    """Reads the region of GET_REGION_INFO."""
    index: int
    _, _, index, *_ = _fields(_REGION_INFO, payload, "GET_REGION_INFO")
    if index >= REGIONS:
        raise RequestRefused(errno.EINVAL, f"region {index}; expected 0 to {REGIONS - 1}")
    return index


def region_info(index: int, flags: int, size: int) -> bytes:
    """Returns the payload of a reply to GET_REGION_INFO; `size` in bytes."""
    return _REGION_INFO.pack(_REGION_INFO.size, flags, index, 0, size, 0)


def irq_index(payload: bytes) -> int:
    """Reads the kind of interrupts of GET_IRQ_INFO."""
    index: int
    _, _, index, *_ = _fields(_IRQ_INFO, payload, "GET_IRQ_INFO")
    if index >= IRQS:
        raise RequestRefused(errno.EINVAL, f"interrupt kind {index}; expected 0 to {IRQS - 1}")
    return index


def irq_info(index: int, count: int) -> bytes:
    """Returns the payload of a reply to GET_IRQ_INFO for `count` interrupts."""
    flags = IRQ_EVENTFD_FLAG | IRQ_NORESIZE_FLAG if count else 0
    return _IRQ_INFO.pack(_IRQ_INFO.size, flags, index, count)


def irq_set(payload: bytes) -> IrqSet:
    """Reads SET_IRQS."""
    _, flags, kind, start, number = _fields(_IRQ_SET, payload, "SET_IRQS")
    return IrqSet(flags, kind, start, number, payload[_IRQ_SET.size :])


def _checked(access: Access) -> Access:
    if access.size > MOST_DATA_BYTES:
        raise ProtocolError(f"an access of {access.size} bytes; expected at most "
                            f"{MOST_DATA_BYTES}")
    return access


def region_read(payload: bytes) -> Access:
    """Reads REGION_READ."""
    offset, region, size = _fields(_ACCESS, payload, "REGION_READ")
    return _checked(Access(offset, region, size, b""))


def region_write(payload: bytes) -> Access:
    """Reads REGION_WRITE; raises ProtocolError unless all its bytes are there."""
    offset, region, size = _fields(_ACCESS, payload, "REGION_WRITE")
    access = Access(offset, region, size, payload[_ACCESS.size :])
    if len(access.data) != access.size:
        raise ProtocolError(f"REGION_WRITE of {access.size} bytes with {len(access.data)} bytes "
                            "of data")
    return _checked(access)


def access_reply(access: Access, data: bytes = b"") -> bytes:
    """Returns the payload of a reply to a region access."""
    return _ACCESS.pack(access.offset, access.region, access.size) + data


def region_writes(payload: bytes) -> list[Access]:
    """Reads REGION_WRITE_MULTI: writes of up to 8 bytes."""
    (count,) = _fields(_COUNT, payload, "REGION_WRITE_MULTI")
    body = payload[_COUNT.size :]
    if len(body) != count * _MULTI.size:
        raise ProtocolError(f"REGION_WRITE_MULTI of {count} writes with {len(body)} bytes; "
                            f"expected {_MULTI.size} bytes each")
    writes = []
    for offset, region, size, data in _MULTI.iter_unpack(body):
        if size > len(data):
            raise ProtocolError(f"a write of {size} bytes in REGION_WRITE_MULTI; expected at most "
                                f"{len(data)}")
        writes.append(Access(offset, region, size, data[:size]))
    return writes


def write_count(count: int) -> bytes:
    """Returns the payload of a reply to REGION_WRITE_MULTI."""
    return _COUNT.pack(count)
