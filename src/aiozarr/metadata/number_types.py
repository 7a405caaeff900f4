"""Bools, integers, floating point and complex numbers of the core, and the small types of the registry.

Integers are literals in JSON, floating point numbers are numbers, names or bits. Complex ones are pairs of these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.data_type import JSON, SMALL_FLOATS, FillValue, UnconfiguredType, frozen, register_data_type
from aiozarr.metadata.document import integral, respelled_number


class DTypeNames:
    """A two-way mapping of names and numpy types.

    Args:
        core: the names that are also numpy's.
        others: the names of further types, each with its name in ml_dtypes, which is imported for the first of them.
    """

    def __init__(self, core: Iterable[str], others: Mapping[str, str]) -> None:
        self._core = {name: np.dtype(name) for name in core}
        # numpy has several types of one width, such as long and long long of C.
        self._names = {(dtype.kind, dtype.itemsize): name for name, dtype in self._core.items()}
        self._others = others

    def dtype(self, name: str) -> np.dtype[Any] | None:
        """Return the type of a name, or None if the installed ml_dtypes lacks it."""
        found = self._core.get(name)
        if found is None and name in self._others:
            import ml_dtypes

            kind = getattr(ml_dtypes, self._others[name], None)
            found = None if kind is None else np.dtype(kind)
        return found

    def find(self, dtype: np.dtype[Any]) -> str | None:
        """Return the name of a numpy type of any byte order, or None if it has none."""
        if dtype.type.__module__ == "numpy":
            return self._names.get((dtype.kind, dtype.itemsize))
        names = [name for name, theirs in self._others.items() if theirs == dtype.type.__name__]
        return next((name for name in names if (found := self.dtype(name)) and found.type is dtype.type), None)


class NumberType(UnconfiguredType):
    """Numbers: one class for several names, each with one numpy type."""

    _table: ClassVar[DTypeNames]

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        name = cls._table.find(dtype)
        return None if name is None else cls(name)

    @property
    def dtype(self) -> np.dtype[Any]:
        found = self._table.dtype(self.name)
        assert found is not None
        return found


def cast_number(value: object, dtype: np.dtype[Any], name: str) -> FillValue:
    """Return a number as a read-only 0-d array of `dtype`, rounded for floats and exact for other types.

    Raises:
        TypeError: `value` is not a number.
        ValueError: the type has no such value.
    """
    given = np.asarray(value)
    if given.ndim == 0 and given.dtype != dtype and given.dtype.type.__module__ != "numpy":
        given = np.asarray(given.item())  # numpy has no casts between types of other packages
    if given.ndim or not (given.dtype.kind in "biufcO" or given.dtype == dtype):
        raise TypeError(f"a fill value of {name} must be a number or a bool, not {value!r}")
    if given.dtype == dtype:
        return frozen(given.copy())
    # Complex numbers have no order and floats no exact integers, so only these casts are allowed.
    if given.dtype.kind == "O" or (is_complex(given.dtype) and not is_complex(dtype)):
        raise ValueError(f"{value!r} is not a value of {name}")
    with np.errstate(all="ignore"):
        cast = given.astype(dtype)
        lost = np.isfinite(given) and not np.isfinite(cast.astype(complex))
    if lost:
        raise ValueError(f"{value!r} is not a value of {name}")
    return frozen(cast)


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is a complex type of numpy or ml_dtypes."""
    return dtype.kind in "cW"


_CORE_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NARROW = ("int2", "int4", "uint2", "uint4")
# An element of a narrow type is one byte in memory. Its upper bits are ignored.
_INTEGER_NAMES = DTypeNames(_CORE_INTEGERS, dict(zip(_NARROW, _NARROW, strict=True)))


@register_data_type
class BoolType(UnconfiguredType):
    """The data type `bool`."""

    names = ("bool",)

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls("bool") if dtype.kind == "b" else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if not isinstance(value, bool) and (strict or type(value) not in (int, float) or value not in (0, 1)):
            raise InvalidMetadataError("the fill value of bool must be true or false", member=member)
        return frozen(np.array(bool(value)))

    def render_fill_value(self, array: FillValue) -> JSON:
        return bool(array)

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        cast = cast_number(value, self.dtype, self.name)
        if cast.item() != np.asarray(value).item():
            raise ValueError(f"{value!r} is not a bool")
        return frozen(np.array(bool(cast)))  # numpy's bool may be a byte other than 0 and 1


@register_data_type
class IntegerType(NumberType):
    """The integers: `int8` … `uint64` of the core, and `int2`, `int4`, `uint2`, `uint4` of the registry."""

    names = (*_CORE_INTEGERS, *_NARROW)
    _table = _INTEGER_NAMES

    @fork_safe_cached_property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        bits = int(self.name.lstrip("uint"))
        return (0, (1 << bits) - 1) if self.name[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if not strict and type(value) is not int:
            value = integral(respelled_number(value))
        # Python counts bool as int, and 1.0 is not an integer in JSON.
        if type(value) is not int:
            raise InvalidMetadataError(f"the fill value of {self.name} must be an integer", member=member)
        if not self._holds(value):
            raise InvalidMetadataError(f"the fill value is out of the range of {self.name}", member=member)
        return frozen(np.array(value, self.dtype))

    def render_fill_value(self, array: FillValue) -> JSON:
        return int(array)

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        given = np.asarray(value)
        if given.ndim == 0 and given.dtype.kind == "O" and not isinstance(given.item(), int):
            raise ValueError(f"{value!r} is not a value of {self.name}")
        if given.ndim == 0 and given.dtype.kind in "iuO" and self._holds(int(given.item())):
            return frozen(np.array(int(given.item()), self.dtype))
        cast = cast_number(value, self.dtype, self.name)
        if int(cast) != given.item():
            raise ValueError(f"{value!r} is not a value of {self.name}")
        return cast

    def _holds(self, value: int) -> bool:
        least, greatest = self.limits
        return least <= value <= greatest


_CORE_FLOATS = ("float16", "float32", "float64")
_SMALL = ("bfloat16", *SMALL_FLOATS.split())
_FLOAT_NAMES = DTypeNames(_CORE_FLOATS, dict(zip(_SMALL, _SMALL, strict=True)))
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_BITS = re.compile(r"b?float([0-9]+)")


@register_data_type
class FloatType(NumberType):
    """The floating point numbers: `float16`, `float32`, `float64`, `bfloat16`, and the formats of 4, 6 and 8 bits."""

    names = (*_CORE_FLOATS, *_SMALL)
    _table = _FLOAT_NAMES

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if not strict and not (isinstance(value, str) and value in _NAMED):
            value = respelled_number(value)
        if isinstance(value, str):
            return self._parse_text(value, member)
        if type(value) is not float and type(value) is not int:
            raise InvalidMetadataError(f"the fill value of {self.name} must be a number or a string", member=member)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) and (strict or type(value) is int):
            # Infinity is a string in JSON. A number such as 1e999 is more likely a mistake than a rounding.
            raise InvalidMetadataError(f"the number is out of the range of {self.name}", member=member)
        if number == 0 and self.name == "float8_e8m0fnu" and not strict:
            # The type has no zero. TensorStore writes 0.0 for the smallest number, which has no bits set.
            return self.default_fill_value
        if not self._holds(number):
            raise InvalidMetadataError(f"{self.name} cannot represent this number", member=member)
        return frozen(self._cast(number))

    def render_fill_value(self, array: FillValue) -> JSON:
        number = float(array)
        if math.isfinite(number):
            return number
        if math.isinf(number):
            return "Infinity" if number > 0 else "-Infinity"
        bits, canonical = _bits(array), _bits(self._cast(math.nan))
        return "NaN" if bits == canonical else f"0x{bits:0{2 * array.dtype.itemsize}x}"

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        cast = cast_number(value, self.dtype, self.name)
        if np.asarray(value).dtype != self.dtype and not self._holds(float(np.asarray(value).item())):
            raise ValueError(f"{value!r} is not a value of {self.name}")
        return cast

    @fork_safe_cached_property
    def _greatest(self) -> float:
        """The largest number of types without infinity."""
        return math.inf if math.isinf(float(self._cast(math.inf))) else _greatest_of(self.dtype)

    def _holds(self, number: float) -> bool:
        """Return whether the type has `number`: small formats lack NaN, infinities, zero or the sign."""
        if math.isnan(number):
            return math.isnan(float(self._cast(number)))
        return abs(number) <= self._greatest and not math.isnan(float(self._cast(number)))

    def _cast(self, number: float) -> FillValue:
        with np.errstate(all="ignore"):
            return np.array(number).astype(self.dtype)

    def _parse_text(self, text: str, member: str) -> FillValue:
        size = self.dtype.itemsize
        if text in _NAMED and self._holds(_NAMED[text]):
            return frozen(self._cast(_NAMED[text]))
        if _HEX.fullmatch(text) is None or len(text) != 2 + 2 * size:
            names = ", ".join([f"'{name}'" for name, number in _NAMED.items() if self._holds(number)])
            raise InvalidMetadataError(
                f"the fill value of {self.name} must be a number, {names}{' or ' if names else ''}'0x' and "
                f"{2 * size} hexadecimal digits",
                member=member,
            )
        bits, match = int(text, 16), _BITS.match(self.name)
        if match is None or bits >> int(match[1]):
            raise InvalidMetadataError(f"too many bits for {self.name}", member=member)
        return frozen(np.array(bits, f"u{size}").view(self.dtype))


def _greatest_of(dtype: np.dtype[Any]) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def _bits(array: FillValue) -> int:
    return int(array.copy().view(f"u{array.dtype.itemsize}"))


_PARTS = {"complex64": "float32", "complex128": "float64", "complex_float16": "float16", "complex_bfloat16": "bfloat16"}
_ALIASES = {"complex_float32": "complex64", "complex_float64": "complex128"}
# Only newer releases of ml_dtypes have the types of the other two.
_COMPLEX_NAMES = DTypeNames(
    ("complex64", "complex128"), {"complex_float16": "complex32", "complex_bfloat16": "bcomplex32"}
)


@register_data_type
class ComplexType(NumberType):
    """The complex numbers: `complex64`, `complex128`, `complex_float16`, `complex_bfloat16`.

    The registry has `complex_float32` and `complex_float64` as other names of the first two. numpy and ml_dtypes lack
    the complex numbers of small floats that the registry has, too.
    """

    names = (
        *_PARTS,
        *_ALIASES,
        *[f"complex_{name}" for name in SMALL_FLOATS.split()],
    )
    _table = _COMPLEX_NAMES

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        found = super().from_configuration(_ALIASES.get(name, name), configuration, member=member, strict=strict)
        if _COMPLEX_NAMES.dtype(found.name) is None:
            reason = f"numpy and the installed ml_dtypes have no {found.name}"
            raise UnsupportedMetadataError(reason, member=member, point="data_type", name=found.name)
        return found

    @fork_safe_cached_property
    def part(self) -> FloatType:
        """The type of the real and the imaginary part."""
        return FloatType(_PARTS[self.name])

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if not isinstance(value, list) or len(value) != 2:
            raise InvalidMetadataError(f"the fill value of {self.name} must be a list of two numbers", member=member)
        parts = [self.part.parse_fill_value(each, f"{member}[{i}]", strict=strict) for i, each in enumerate(value)]
        # Set both parts in memory: arithmetic such as re + 1j * im changes NaN payloads and the sign of zero.
        return frozen(np.frombuffer(b"".join([part.tobytes() for part in parts]), self.dtype).reshape(()))

    def render_fill_value(self, array: FillValue) -> JSON:
        parts = np.frombuffer(array.tobytes(), self.part.dtype)
        return [self.part.render_fill_value(parts[0, ...]), self.part.render_fill_value(parts[1, ...])]

    def make_fill_value(self, value: object) -> FillValue:
        return self.default_fill_value if value is None else cast_number(value, self.dtype, self.name)
