"""A data type is a name in a document and the numpy type its elements have (v3 core specification, "Data types")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.document import clip

MAX_ITEM_SIZE = 1 << 20
"""Bytes of one `r*` element. One element is held as the fill value: a name must not be able to ask for gigabytes."""

_CORE: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
# By kind and size: numpy has several types for one width, such as C's long and long long.
_NAMES = {(dtype.kind, dtype.itemsize): name for name, dtype in _CORE.items()}
_RAW = re.compile(r"r(0|[1-9][0-9]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class DataType:
    """One data type of the v3 core specification.

    Attributes:
        name: its identifier, such as `float64` or `r24`.
        dtype: the numpy type of elements in memory, in native byte order; stored order is the `bytes` codec's matter.
    """

    name: str
    dtype: np.dtype[Any]

    @classmethod
    def from_json(cls, value: object, *, member: str = "data_type") -> DataType:
        """Return the type that the `data_type` member names: a string, or an object with nothing but a `name`.

        Raises:
            InvalidMetadataError: no name, or an `r*` whose number of bits is 0 or no multiple of 8.
            UnsupportedMetadataError: a type that is not in the core specification.
        """
        name = _name_of(value, member)
        dtype = _CORE.get(name)
        return cls(name, _raw_dtype(name, member) if dtype is None else dtype)

    @classmethod
    def from_numpy(cls, dtype: DTypeLike) -> DataType:
        """Return the type that stores elements of `dtype`, whatever its byte order.

        Raises:
            TypeError: `dtype` is no numpy type.
            UnsupportedMetadataError: v3's core has no such type.
        """
        if dtype is None:
            raise TypeError("a data type is wanted; numpy would take None as float64")
        wanted = np.dtype(dtype)
        name = _NAMES.get((wanted.kind, wanted.itemsize))
        if name is not None:
            return cls(name, _CORE[name])
        # Types of other packages, such as bfloat16, are of kind V too, and so are records and subarrays.
        plain = wanted.type is np.void and wanted.names is None and wanted.subdtype is None
        if plain and 0 < wanted.itemsize <= MAX_ITEM_SIZE:
            return cls(f"r{8 * wanted.itemsize}", np.dtype((np.void, wanted.itemsize)))
        raise UnsupportedMetadataError(
            f"Zarr v3 has no core data type for {wanted}", member="data_type", point="data_type", name=str(wanted)
        )

    def to_json(self) -> str:
        """Return the `data_type` member."""
        return self.name

    @property
    def default_fill_value(self) -> NDArray[Any]:
        """The fill value where none was given: zero, false, or zero bytes, as a read-only 0-d array."""
        value = np.zeros((), self.dtype)
        value.setflags(write=False)
        return value


def _name_of(value: object, member: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise InvalidMetadataError("a data type is a string or an object", member=member)
    name = value.get("name")
    if not isinstance(name, str):
        raise InvalidMetadataError("a data type has a name, which is a string", member=f"{member}.name")
    if name not in _CORE and _RAW.fullmatch(name) is None:
        return name  # not known here, and neither are its members
    # No core type has parameters: an empty configuration says nothing, and any other one is not understood.
    for key, part in value.items():
        if key != "name" and (key, part) not in (("configuration", {}), ("must_understand", True)):
            raise InvalidMetadataError(f"the data type {name!r} has no such member", member=clip(f"{member}.{key}"))
    return name


def _raw_dtype(name: str, member: str) -> np.dtype[Any]:
    match = _RAW.fullmatch(name)
    if match is None:
        raise UnsupportedMetadataError(
            f"the data type {clip(name)!r} is not known", member=member, point="data_type", name=clip(name)
        )
    # The number may have more digits than int() converts; ten are more than the bound.
    bits = int(match[1]) if len(match[1]) <= 10 else 8 * MAX_ITEM_SIZE + 8
    if bits == 0 or bits % 8:
        raise InvalidMetadataError(f"{name!r} is not a positive multiple of 8 bits", member=member)
    if bits > 8 * MAX_ITEM_SIZE:
        raise UnsupportedMetadataError(
            f"elements have at most {MAX_ITEM_SIZE} bytes", member=member, point="data_type", name=clip(name)
        )
    return np.dtype((np.void, bits // 8))
