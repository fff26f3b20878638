# SPDX-License-Identifier: Apache-2.0
"""Checks arguments of the verbs: a wrong type or range is a VerbsError that says what is expected.
"""

from collections.abc import Collection, Sequence
from typing import Any

from efa_cosim.host.completion_queue import VerbsError
from efa_cosim.host.driver_objects import Access
from efa_cosim.layouts import defs

GID_BYTES = len(defs.AdminCreateAhCmd().dest_addr)


def whole(name: str, value: Any, bits: int) -> int:
    """Returns value if it is a whole number of at most so many bits."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise VerbsError(f"{name} is {value!r}: expected a whole number")
    if not 0 <= value < 1 << bits:
        raise VerbsError(f"{name} is {value}: expected 0 to {(1 << bits) - 1:#x}")
    return int(value)


def gid(value: Any) -> bytes:
    """Returns value if it is a GID: 16 bytes."""
    if not isinstance(value, bytes | bytearray) or len(value) != GID_BYTES:
        raise VerbsError(f"the GID is {value!r}: expected {GID_BYTES} bytes, as gid_of(node_id) "
                         "returns them")
    return bytes(value)


def handle(value: Any) -> int:
    """Returns the number of an address handle, given as the handle or as its number."""
    if isinstance(value, str | bytes):
        raise VerbsError(f"the address handle is {value!r}: expected the result of pd.create_ah() "
                         "or its number")
    return whole("the address handle", getattr(value, "number", value), 16)


def content(name: str, value: Any) -> bytes:
    """Returns value if it is bytes."""
    if not isinstance(value, bytes | bytearray | memoryview):
        kind = type(value).__name__
        raise VerbsError(f"{name} is of type {kind}: expected bytes, for a text text.encode()")
    return bytes(value)


def ranges(value: Any) -> Sequence[Any]:
    """Returns value if it is a list of ranges of registered memory."""
    if not isinstance(value, list | tuple):
        raise VerbsError(f"the memory ranges are {value!r}: expected a list of Sge, also for one")
    for one in value:
        if not hasattr(one, "l_key"):
            raise VerbsError(f"a memory range is {one!r}: expected an Sge, for example "
                             "Sge(memory.addr, 64, memory.l_key)")
    return value


def request(value: Any, kind: type) -> None:
    """Checks that value is a work request of this class."""
    if not isinstance(value, kind):
        raise VerbsError(f"the work request is {value!r}: expected {kind.__name__}(...), one "
                         "argument for each")


def queue(name: str, value: Any) -> None:
    """Checks that value is a completion queue."""
    if not hasattr(value, "number"):
        raise VerbsError(f"{name} is {value!r}: expected the result of context.create_cq()")


def entry_bytes(value: Any, known: Collection[int]) -> None:
    """Checks that value is a known size of a CQE."""
    if value not in known:
        sizes = " or ".join(map(str, sorted(known)))
        raise VerbsError(f"entry_bytes is {value!r}: expected {sizes}")


def access(value: Any) -> Access:
    """Returns value if it is the access to a memory region."""
    if not isinstance(value, Access):
        raise VerbsError(f"access is {value!r}: expected an Access, for example "
                         "Access(local_write=True)")
    return value


def kind(value: Any) -> defs.AdminQpType:
    """Returns value as a type of queue pair."""
    try:
        return defs.AdminQpType(value)
    except ValueError:
        names = " or ".join(f"AdminQpType.{one.name}" for one in defs.AdminQpType)
        raise VerbsError(f"the type of the queue pair is {value!r}: expected {names}") from None
