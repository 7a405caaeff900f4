"""What the number types share: finding a type by its name or by numpy's, and casts of callers' numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from aiozarr.metadata.data_type import JSON, DataType, FillValue, check_no_configuration, frozen


class Names:
    """A table of names and numpy types that is searched both ways."""

    def __init__(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self.dtypes = dtypes
        self._names = {_key(dtype): name for name, dtype in dtypes.items()}

    def find(self, dtype: np.dtype[Any]) -> str | None:
        """Return the name of a numpy type of any byte order."""
        return self._names.get(_key(dtype))


@dataclass(frozen=True)
class NumberType(DataType):
    """Numbers whose name says all: one class reads several names, each of which has one type of numpy's."""

    name: str
    _table: ClassVar[Names]

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
    """Return a caller's number as a read-only 0-d array of `dtype`: rounded to floats, exact for everything else.

    Raises:
        TypeError: `value` is no number.
        ValueError: the type has no such value.
    """
    given = np.asarray(value)
    if given.ndim == 0 and given.dtype != dtype and given.dtype.type.__module__ != "numpy":
        given = np.asarray(given.item())  # numpy knows no casts between the types of other packages
    if given.ndim or not (given.dtype.kind in "biufcO" or given.dtype == dtype):
        raise TypeError(f"a fill value of {name} is a number or bool, not {value!r}")
    if given.dtype == dtype:
        return frozen(given.copy())
    # Complex numbers have no order and floats no exact integers: only these casts keep their meaning.
    if given.dtype.kind == "O" or (is_complex(given.dtype) and not is_complex(dtype)):
        raise ValueError(f"{name} has no value {value!r}")
    with np.errstate(all="ignore"):
        cast = given.astype(dtype)
    return frozen(cast)


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is one of numpy's or of ml_dtypes' complex types."""
    return dtype.kind in "cW"


def _key(dtype: np.dtype[Any]) -> object:
    # numpy has several types for one width, such as C's long and long long. Types of other packages are of kind V or f.
    builtin = dtype.type.__module__ == "numpy"
    return (dtype.kind, dtype.itemsize) if builtin else dtype.type
