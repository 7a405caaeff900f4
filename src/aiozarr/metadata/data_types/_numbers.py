"""Base of number types: lookup by name or numpy type, and casts of fill values from callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from aiozarr.metadata.data_type import JSON, DataType, FillValue, check_no_configuration, frozen


class DTypeNames:
    """A two-way mapping of names and numpy types."""

    def __init__(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self.dtypes = dtypes
        self._names = {_key(dtype): name for name, dtype in dtypes.items()}

    def find(self, dtype: np.dtype[Any]) -> str | None:
        """Return the name of a numpy type of any byte order, or None if it has none."""
        return self._names.get(_key(dtype))


@dataclass(frozen=True)
class NumberType(DataType):
    """Numbers without configuration: one class for several names, each with one numpy type."""

    name: str
    _table: ClassVar[DTypeNames]

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        check_no_configuration(name, configuration, member)
        return cls(name)

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        name = cls._table.find(dtype)
        return None if name is None else cls(name)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._table.dtypes[self.name]


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
        raise TypeError(f"a fill value of {name} is a number or bool, not {value!r}")
    if given.dtype == dtype:
        return frozen(given.copy())
    # Complex numbers have no order and floats no exact integers, so only these casts are allowed.
    if given.dtype.kind == "O" or (is_complex(given.dtype) and not is_complex(dtype)):
        raise ValueError(f"{name} has no value {value!r}")
    with np.errstate(all="ignore"):
        cast = given.astype(dtype)
    return frozen(cast)


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is a complex type of numpy or ml_dtypes."""
    return dtype.kind in "cW"


def _key(dtype: np.dtype[Any]) -> object:
    # numpy has several types of one width, such as long and long long of C. Types of other packages have kind V or f.
    builtin = dtype.type.__module__ == "numpy"
    return (dtype.kind, dtype.itemsize) if builtin else dtype.type
