"""Times and durations: integer counts of time units, with one integer for NaT ("not a time")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import JSON, DataType, FillValue, frozen, register_data_type

_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
_MICROSECONDS = ("\N{GREEK SMALL LETTER MU}s", "\N{MICRO SIGN}s")
_KINDS = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
_NAT = -(1 << 63)


@register_data_type
@dataclass(frozen=True)
class TimeType(DataType):
    """`numpy.datetime64` and `numpy.timedelta64` (registry of extensions): 64-bit counts of `scale_factor` units.

    Attributes:
        name: `numpy.datetime64` or `numpy.timedelta64`.
        unit: a unit of numpy such as `ms`; `generic` for none.
        scale_factor: number of units per step.
    """

    names = tuple(_KINDS)
    name: str
    unit: str
    scale_factor: int = 1

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        member = f"{member}.configuration"
        for key in configuration:
            if key not in ("unit", "scale_factor"):
                raise InvalidMetadataError(f"unknown parameter of {name!r}", member=f"{member}.{key}"[:200])
        unit, scale = configuration.get("unit"), configuration.get("scale_factor")
        unit = "us" if unit in _MICROSECONDS else unit
        if unit not in _UNITS:
            raise InvalidMetadataError(f"a unit is one of {', '.join(_UNITS)}", member=f"{member}.unit")
        if type(scale) is not int or not 1 <= scale < 1 << 31:
            reason = "a scale factor is an integer from 1 to 2147483647"
            raise InvalidMetadataError(reason, member=f"{member}.scale_factor")
        return cls(name, unit, scale)

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        if dtype.kind not in "Mm":
            return None
        unit, scale = np.datetime_data(dtype)
        return cls("numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64", unit, max(scale, 1))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @fork_safe_cached_property
    def _dtype(self) -> np.dtype[Any]:
        kind = _KINDS[self.name]
        return np.dtype(f"{kind}[{self.scale_factor}{self.unit}]")

    @property
    def configuration(self) -> Mapping[str, JSON]:
        return {"unit": self.unit, "scale_factor": self.scale_factor}

    @property
    def default_fill_value(self) -> FillValue:
        """NaT, because zero is a time like any other."""
        return self._array(_NAT)

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if value == "NaT":
            return self._array(_NAT)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise InvalidMetadataError(
                f"the fill value of {self.name} must be a 64-bit integer or 'NaT'", member=member
            )
        return self._array(value)

    def render_fill_value(self, array: FillValue) -> JSON:
        count = int(array.view("i8"))
        return "NaT" if count == _NAT else count

    def make_fill_value(self, value: object) -> FillValue:
        """Convert integers, which count steps of this type, and text, dates and numpy times that convert exactly."""
        if value is None:
            return self.default_fill_value
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            value = value.item()
        # numpy counts timedelta64 as integer, and Python counts bool as int.
        if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
            if not -(1 << 63) <= int(value) < 1 << 63:
                raise ValueError(f"{value!r} is not a value of {self.name}")
            return self._array(int(value))
        try:
            given = np.asarray(value)
            natural = given if given.dtype.kind in "Mm" else parse_times(given, self.dtype)
            cast = natural.astype(self.dtype, casting="same_kind")
        except TypeError:
            raise TypeError(f"a fill value of {self.name} must be a time or an integer, not {value!r}") from None
        except OverflowError:  # numpy 2.5
            raise ValueError(f"{value!r} is not a value of {self.dtype}") from None
        if cast.ndim:
            raise TypeError(f"a fill value of {self.name} must be a single value, not {value!r}")
        # Compared in its own unit: numpy before 2.5 wraps around where a finer one does not reach.
        if not np.isnat(natural) and cast.astype(natural.dtype).view("i8") != natural.view("i8"):
            raise ValueError(f"{value!r} is not a value of {self.dtype}")
        return frozen(cast)

    def _array(self, count: int) -> FillValue:
        return frozen(np.array(count, "i8").view(self.dtype))


def parse_times(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return text, dates and None as numpy times of the kind of `dtype`, in the unit that numpy infers.

    The unit is that of `dtype` if all values are NaT: numpy infers none, and deprecates times without a unit.

    Raises:
        TypeError: a value is of another type.
        ValueError: a text is not a time.
    """
    items = values.astype(object).reshape(-1)
    known = np.array([not _is_nat(item) for item in items], bool)
    found = np.array(items[known].tolist(), dtype.kind + "8") if known.any() else np.empty(0, dtype)
    times = np.full(items.shape, _NAT, np.int64).view(found.dtype)
    times[known] = found
    return times.reshape(values.shape)


def _is_nat(item: object) -> bool:
    if isinstance(item, np.datetime64 | np.timedelta64):
        return bool(np.isnat(item))
    return item is None or (isinstance(item, str) and item.strip().lower() in ("", "nat"))
