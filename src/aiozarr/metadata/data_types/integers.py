"""Bools and integers of the core, and integers of 2 and 4 bits: literals and integers in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import ml_dtypes
import numpy as np

from aiozarr.errors import InvalidMetadataError
from aiozarr.fork_safe_cached_property import fork_safe_cached_property
from aiozarr.metadata.data_type import JSON, DataType, FillValue, check_no_configuration, frozen, register_data_type
from aiozarr.metadata.data_types._numbers import DTypeNames, NumberType, cast_number

_CORE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NARROW = ("int2", "int4", "uint2", "uint4")
_NAMES = DTypeNames(
    {
        **{name: np.dtype(name) for name in _CORE},
        # An element is one byte in memory. Its upper bits are ignored.
        **{name: np.dtype(getattr(ml_dtypes, name)) for name in _NARROW},
    }
)


@register_data_type
@dataclass(frozen=True)
class BoolType(DataType):
    """The data type `bool`."""

    names = ("bool",)
    name: str = "bool"

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        check_no_configuration(name, configuration, member)
        return cls()

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls() if dtype.kind == "b" else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if not isinstance(value, bool):
            raise InvalidMetadataError("the fill value of bool is true or false", member=member)
        return frozen(np.array(value))

    def render_fill_value(self, array: FillValue) -> JSON:
        return bool(array)

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        cast = cast_number(value, self.dtype, self.name)
        if cast.item() != np.asarray(value).item():
            raise ValueError(f"bool has no value {value!r}")
        return cast


@register_data_type
@dataclass(frozen=True)
class IntegerType(NumberType):
    """The integers: `int8` … `uint64` of the core, and `int2`, `int4`, `uint2`, `uint4` of the registry."""

    names = (*_CORE, *_NARROW)
    _table = _NAMES

    @fork_safe_cached_property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        bits = int(self.name.lstrip("uint"))
        return (0, (1 << bits) - 1) if self.name[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        # Python counts bool as int, and 1.0 is not an integer in JSON.
        if type(value) is not int:
            raise InvalidMetadataError(f"the fill value of {self.name} is an integer", member=member)
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
            raise ValueError(f"{self.name} has no value {value!r}")
        if given.ndim == 0 and given.dtype.kind in "iuO" and self._holds(int(given.item())):
            return frozen(np.array(int(given.item()), self.dtype))
        cast = cast_number(value, self.dtype, self.name)
        if int(cast) != given.item():
            raise ValueError(f"{self.name} has no value {value!r}")
        return cast

    def _holds(self, value: int) -> bool:
        least, greatest = self.limits
        return least <= value <= greatest
