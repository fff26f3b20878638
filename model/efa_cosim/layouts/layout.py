# SPDX-License-Identifier: Apache-2.0
"""Base classes of the generated layouts: structs over a byte image, and bit fields in a number.

A struct holds the bytes; every attribute is a view of them. A union is two attributes on the same
bytes, so reading, writing and packing are always consistent.

numpy is imported when a type of arrays is needed for the first time. The simulators of unit benches
need none, and each of them would spend a fifth of its start on that import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import index as as_int
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

if TYPE_CHECKING:
    from enum import IntEnum

    import numpy as np

Bytes: TypeAlias = bytes | bytearray | memoryview

_Value = TypeVar("_Value")
_Struct = TypeVar("_Struct", bound="Struct")
_Fields = TypeVar("_Fields")


def checked(place: object, value: SupportsIndex, width: int) -> int:
    """The value as an int; raises ValueError with the field name if it is too wide."""
    number = as_int(value)
    if number < 0 or number >> width:
        raise ValueError(f"{place}: {number:#x} does not fit {width} bits")
    return number


def _named(enum: type[IntEnum] | None, value: int) -> int:
    """The enum member, or the plain number if there is none: hosts may send any value."""
    # The map of an IntEnum has int members; its declared type is that of any Enum.
    return enum._value2member_map_.get(value, value) if enum else value  # type: ignore[return-value]


class _Attribute:
    place: str | None
    name: str | None

    def __init__(self, offset: int, size: int) -> None:
        self.offset, self.size = offset, size
        self.place = self.name = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of this attribute in an array of structs."""
        raise NotImplementedError

    def __set_name__(self, owner: type[Struct], name: str) -> None:
        self.name, self.place = name, f"{owner.NAME}.{name}"

    def slice_of(self, image: memoryview) -> memoryview:
        return image[self.offset : self.offset + self.size]


class Number(_Attribute):
    """An unsigned integer of whole bytes."""

    def __init__(
        self,
        offset: int,
        size: int,
        enum: type[IntEnum] | None = None,
        order: Literal["little", "big"] = "little",
    ) -> None:
        super().__init__(offset, size)
        self.enum, self.order = enum, order

    @property
    def dtype(self) -> np.dtype[Any]:
        import numpy as np

        return np.dtype(f"{'<' if self.order == 'little' else '>'}u{self.size}")

    @overload
    def __get__(self, struct: None, owner: type[Struct] | None = None) -> Self: ...

    @overload
    def __get__(self, struct: Struct, owner: type[Struct] | None = None) -> int: ...

    def __get__(self, struct: Struct | None, owner: type[Struct] | None = None) -> Self | int:
        if struct is None:
            return self
        return _named(self.enum, int.from_bytes(self.slice_of(struct.image), self.order))

    def __set__(self, struct: Struct, value: SupportsIndex) -> None:
        number = checked(self.place, value, self.size * 8)
        struct.image[self.offset : self.offset + self.size] = number.to_bytes(self.size, self.order)


class BitField:
    """Bits inside a Number of the same struct."""

    name: str
    place: str

    def __init__(
        self, container: str, lsb: int, width: int, enum: type[IntEnum] | None = None
    ) -> None:
        self.container, self.lsb, self.width, self.enum = container, lsb, width, enum
        self.mask = (1 << width) - 1

    def __set_name__(self, owner: type[Struct], name: str) -> None:
        self.name, self.place = name, f"{owner.NAME}.{name}"

    @overload
    def __get__(self, struct: None, owner: type[Struct] | None = None) -> Self: ...

    @overload
    def __get__(self, struct: Struct, owner: type[Struct] | None = None) -> int: ...

    def __get__(self, struct: Struct | None, owner: type[Struct] | None = None) -> Self | int:
        if struct is None:
            return self
        return _named(self.enum, (getattr(struct, self.container) >> self.lsb) & self.mask)

    def __set__(self, struct: Struct, value: SupportsIndex) -> None:
        number = checked(self.place, value, self.width)
        rest = getattr(struct, self.container) & ~(self.mask << self.lsb)
        setattr(struct, self.container, rest | number << self.lsb)


class ByteString(_Attribute):
    """Bytes without a numeric meaning; a shorter value is padded with zeros."""

    @property
    def dtype(self) -> np.dtype[Any]:
        import numpy as np

        return np.dtype(("u1", (self.size,)))

    @overload
    def __get__(self, struct: None, owner: type[Struct] | None = None) -> Self: ...

    @overload
    def __get__(self, struct: Struct, owner: type[Struct] | None = None) -> bytes: ...

    def __get__(self, struct: Struct | None, owner: type[Struct] | None = None) -> Self | bytes:
        return self if struct is None else bytes(self.slice_of(struct.image))

    def __set__(self, struct: Struct, value: Bytes) -> None:
        data = bytes(value)
        if len(data) > self.size:
            raise ValueError(f"{self.place}: {len(data)} bytes do not fit {self.size}")
        struct.image[self.offset : self.offset + self.size] = data.ljust(self.size, b"\0")


class _Elements(Generic[_Value]):
    """A list-like view of the elements of an array."""

    def __init__(self, place: str | None, items: list[_Element]) -> None:
        self._place, self._items = place, items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, position: int) -> _Value: ...

    @overload
    def __getitem__(self, position: slice) -> list[_Value]: ...

    def __getitem__(self, position: int | slice) -> Any:
        if isinstance(position, slice):
            return [item.value for item in self._items[position]]
        return self._items[position].value

    if TYPE_CHECKING:  # Python iterates by __getitem__, mypy only by __iter__.

        def __iter__(self) -> Iterator[_Value]: ...

    def __setitem__(self, position: int, value: Any) -> None:
        self._items[position].value = value

    def __eq__(self, other: Any) -> bool:
        return list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    __hash__ = None  # type: ignore[assignment]  # no hash: equal by content, and writable


class _Array(_Attribute, Generic[_Value]):
    def __init__(self, element: Callable[[int], Number | Nested[Any]], count: int) -> None:
        super().__init__(element(0).offset, element(0).size * count)
        self.elements = [element(i) for i in range(count)]

    @property
    def dtype(self) -> np.dtype[Any]:
        import numpy as np

        return np.dtype((self.elements[0].dtype, (len(self.elements),)))

    def __set_name__(self, owner: type[Struct], name: str) -> None:
        super().__set_name__(owner, name)
        for position, element in enumerate(self.elements):
            element.name, element.place = f"{name}[{position}]", f"{self.place}[{position}]"

    @overload
    def __get__(self, struct: None, owner: type[Struct] | None = None) -> Self: ...

    @overload
    def __get__(
        self, struct: Struct, owner: type[Struct] | None = None
    ) -> _Elements[_Value]: ...

    def __get__(
        self, struct: Struct | None, owner: type[Struct] | None = None
    ) -> Self | _Elements[_Value]:
        if struct is None:
            return self
        return _Elements(self.place, [_Element(struct, element) for element in self.elements])

    def __set__(self, struct: Struct, values: Iterable[Any]) -> None:
        values = list(values)
        if len(values) > len(self.elements):
            raise ValueError(f"{self.place}: {len(values)} values for {len(self.elements)}")
        self.slice_of(struct.image)[:] = bytes(self.size)
        for element, value in zip(self.elements, values, strict=False):
            element.__set__(struct, value)


class _Element:
    def __init__(self, struct: Struct, attribute: Number | Nested[Any]) -> None:
        self._struct, self._attribute = struct, attribute

    @property
    def value(self) -> Any:
        return self._attribute.__get__(self._struct)

    @value.setter
    def value(self, value: Any) -> None:
        self._attribute.__set__(self._struct, value)


class NumberArray(_Array[int]):
    """An array of little-endian integers."""

    def __init__(self, offset: int, size: int, count: int) -> None:
        super().__init__(lambda i: Number(offset + i * size, size), count)


class Nested(_Attribute, Generic[_Struct]):
    """A struct inside a struct: a view of the bytes of the outer struct."""

    def __init__(self, offset: int, cls: type[_Struct]) -> None:
        super().__init__(offset, cls.SIZE)
        self.cls = cls

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.cls.DTYPE

    @overload
    def __get__(self, struct: None, owner: type[Struct] | None = None) -> Self: ...

    @overload
    def __get__(self, struct: Struct, owner: type[Struct] | None = None) -> _Struct: ...

    def __get__(self, struct: Struct | None, owner: type[Struct] | None = None) -> Self | _Struct:
        return self if struct is None else self.cls.over(self.slice_of(struct.image))

    def __set__(self, struct: Struct, value: _Struct | Mapping[str, Any]) -> None:
        if isinstance(value, Mapping):
            value = self.cls(**value)
        if not isinstance(value, self.cls):
            raise TypeError(f"{self.place}: {type(value).__name__} is not {self.cls.__name__}")
        struct.image[self.offset : self.offset + self.size] = value.pack()


class NestedArray(_Array[_Struct]):
    """An array of structs."""

    def __init__(self, offset: int, cls: type[_Struct], count: int) -> None:
        super().__init__(lambda i: Nested(offset + i * cls.SIZE, cls), count)


class _RecordType:
    """The type of an array of structs, made for each class of structs at its first use."""

    def __init__(self) -> None:
        self._made: dict[type[Struct], np.dtype[Any]] = {}

    def __get__(self, struct: Struct | None, owner: type[Struct]) -> np.dtype[Any]:
        if owner not in self._made:
            self._made[owner] = self._make(owner)
        return self._made[owner]

    def _make(self, owner: type[Struct]) -> np.dtype[Any]:
        import numpy as np

        whole = {n: a for n, a in owner.FIELDS.items() if isinstance(a, _Attribute)}
        return np.dtype(
            {
                "names": list(whole),
                "formats": [a.dtype for a in whole.values()],
                "offsets": [a.offset for a in whole.values()],
                "itemsize": owner.SIZE,
            }
        )


class Struct:
    """Base of the generated structs: built from keyword values, packed to and from bytes."""

    __slots__ = ("image",)
    image: memoryview
    NAME = "struct"
    SIZE = 0
    FIELDS: ClassVar[dict[str, Any]]  # _Attribute or BitField
    DTYPE = _RecordType()

    def __init_subclass__(cls) -> None:
        own = vars(cls)
        cls.FIELDS = {n: a for n, a in own.items() if isinstance(a, (_Attribute, BitField))}

    def __init__(self, **values: Any) -> None:
        self.image = memoryview(bytearray(self.SIZE))
        for name, value in values.items():
            if name not in self.FIELDS:
                raise TypeError(f"{self.NAME} has no field {name}")
            setattr(self, name, value)

    @classmethod
    def over(cls, image: bytearray | memoryview) -> Self:
        """A view of writable bytes: changes modify those bytes."""
        result = cls.__new__(cls)
        result.image = memoryview(image)[: cls.SIZE]
        if len(result.image) < cls.SIZE:
            raise ValueError(f"{cls.NAME}: {len(result.image)} bytes, needs {cls.SIZE}")
        return result

    @classmethod
    def unpack(cls, data: Bytes) -> Self:
        """A struct from the first SIZE bytes; padding after them is ignored."""
        return cls.over(bytearray(data))

    def pack(self, size: int | None = None) -> bytes:
        """The bytes, padded with zeros to size if given."""
        data = bytes(self.image)
        if size is not None and size < self.SIZE:
            raise ValueError(f"{self.NAME}: {self.SIZE} bytes do not fit {size}")
        return data if size is None else data.ljust(size, b"\0")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.image == other.image

    __hash__ = None  # type: ignore[assignment]  # no hash: equal by content, and writable

    def __repr__(self) -> str:
        shown = []
        split = {a.container for a in self.FIELDS.values() if isinstance(a, BitField)}
        for name, attribute in self.FIELDS.items():
            if name in split:
                continue
            value = getattr(self, name)
            if isinstance(attribute, _Attribute) and not any(attribute.slice_of(self.image)):
                continue
            if not isinstance(attribute, BitField) or value:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class BitLayout(Generic[_Fields]):
    """Bits packed in one number: (name, lsb, width) and optionally an enum."""

    fields: dict[str, tuple[int, int, type[IntEnum] | None]]

    def __init__(self, name: str, width: int, fields: Iterable[tuple[Any, ...]]) -> None:
        self.name, self.width = name, width
        self.fields = {f[0]: (f[1], f[2], f[3] if len(f) > 3 else None) for f in fields}
        # The map of an IntEnum has int members; its declared type is that of any Enum.
        self._read: list[tuple[str, int, int, dict[Any, Any]]] = [
            (name, lsb, (1 << width) - 1, enum._value2member_map_ if enum else {})
            for name, (lsb, width, enum) in self.fields.items()
        ]

    def pack(self, **values: SupportsIndex) -> int:
        """The number; fields not given are 0."""
        number = 0
        fields = self.fields
        for name, value in values.items():
            try:
                lsb, width, _ = fields[name]
            except KeyError:
                raise TypeError(f"{self.name} has no field {name}") from None
            part = value if type(value) is int else as_int(value)
            # No shift makes a negative number 0.
            if part >> width:
                checked(f"{self.name}.{name}", value, width)
            number |= part << lsb
        return number

    def unpack(self, number: int) -> _Fields:
        """The fields as attributes."""
        # The stub of the generated layouts declares the attributes of each one as _Fields.
        fields = SimpleNamespace()
        shown = fields.__dict__
        for name, lsb, mask, members in self._read:
            part = number >> lsb & mask
            shown[name] = members.get(part, part) if members else part
        return cast(_Fields, fields)


class Constants(Mapping[str, Any]):
    """Read-only nested values, accessible as attributes and as items."""

    _values: dict[str, Any]

    def __init__(self, tree: Mapping[str, Any]) -> None:
        values = {k: Constants(v) if isinstance(v, dict) else v for k, v in tree.items()}
        object.__setattr__(self, "_values", values)
        # An attribute of the object is found without a call; the methods of a mapping stay.
        self.__dict__.update({k: v for k, v in values.items() if not hasattr(Mapping, k)})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_values")[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} is a constant: edit spec/")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Constants({self._values!r})"


def layouts(*items: BitLayout[Any]) -> Constants:
    """Returns BitLayouts by name."""
    return Constants({item.name: item for item in items})
