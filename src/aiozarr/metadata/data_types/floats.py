"""Floating point numbers of the core and the small formats of the registry: numbers, names and bits in JSON."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from aiozarr.errors import InvalidMetadataError
from aiozarr.fork_safe_cached_property import fork_safe_cached_property
from aiozarr.metadata.data_type import JSON, FillValue, frozen, register_data_type
from aiozarr.metadata.data_types._numbers import DTypeNames, NumberType, cast_number

_CORE = ("float16", "float32", "float64")
_SMALL = (
    *("bfloat16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
_NAMES = DTypeNames(
    {
        **{name: np.dtype(name) for name in _CORE},
        **{name: np.dtype(getattr(ml_dtypes, name)) for name in _SMALL},
    }
)
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_BITS = re.compile(r"b?float([0-9]+)")


@register_data_type
@dataclass(frozen=True)
class FloatType(NumberType):
    """The floating point numbers: `float16`, `float32`, `float64`, `bfloat16`, and the formats of 4, 6 and 8 bits."""

    names = (*_CORE, *_SMALL)
    _table = _NAMES

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if isinstance(value, str):
            return self._parse_text(value, member)
        if type(value) is not float and type(value) is not int:
            raise InvalidMetadataError(f"the fill value of {self.name} is a number or a string", member=member)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            # Infinity is a string in JSON. A number such as 1e999 is more likely a mistake than a rounding.
            raise InvalidMetadataError(f"the number is beyond the range of {self.name}", member=member)
        if number == 0 and self.name == "float8_e8m0fnu" and not strict:
            # The type has no zero. TensorStore writes 0.0 for the smallest number, which has no bits set.
            return self.default_fill_value
        if not self._holds(number):
            raise InvalidMetadataError(f"{self.name} has no such number", member=member)
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
            raise ValueError(f"{self.name} has no value {value!r}")
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
                f"the fill value of {self.name} is a number, {names}{' or ' if names else ''}'0x' and "
                f"{2 * size} hexadecimal digits",
                member=member,
            )
        bits, match = int(text, 16), _BITS.match(self.name)
        if match is None or bits >> int(match[1]):
            raise InvalidMetadataError(f"{self.name} has fewer bits", member=member)
        return frozen(np.array(bits, f"u{size}").view(self.dtype))


def _greatest_of(dtype: np.dtype[Any]) -> float:
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def _bits(array: FillValue) -> int:
    return int(array.copy().view(f"u{array.dtype.itemsize}"))
