"""Raw bytes without interpretation: `r*` of the core specification, and `raw_bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import (
    JSON,
    MAX_ITEM_SIZE,
    DataType,
    FillValue,
    check_item_size,
    check_no_configuration,
    frozen,
    register_data_type,
)
from aiozarr.metadata.data_types._bytes import bytes_of, parse_base64, parse_byte_list, parse_length, render_base64


@register_data_type
@dataclass(frozen=True)
class RawType(DataType):
    """`r8`, `r16`, … (v3 core specification), and `raw_bytes` of zarr-python. They differ in JSON only.

    Attributes:
        length_bytes: bytes of one element.
        name: `r*` with the number of bits, or `raw_bytes`.
    """

    names = ("r*", "raw_bytes")
    length_bytes: int
    name: str

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        if name == "raw_bytes":
            return cls(parse_length(name, configuration, member), name)
        check_no_configuration(name, configuration, member)
        # int() converts a limited number of digits. Ten digits exceed the maximum size.
        bits = int(name[1:]) if len(name) <= 11 else 8 * MAX_ITEM_SIZE + 8
        if bits == 0 or bits % 8:
            raise InvalidMetadataError(f"{name!r} is not a positive multiple of 8 bits", member=member)
        check_item_size(bits // 8, name, member)
        return cls(bits // 8, name)

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        # Types of other packages such as bfloat16, records and subarrays have kind V, too.
        plain = dtype.type is np.void and dtype.names is None and dtype.subdtype is None
        # zarr-python reads `raw_bytes`, and not the `r*` of the core specification.
        return cls(dtype.itemsize, "raw_bytes") if plain and 0 < dtype.itemsize <= MAX_ITEM_SIZE else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype((np.void, self.length_bytes))

    @property
    def configuration(self) -> Mapping[str, JSON]:
        return {"length_bytes": self.length_bytes} if self.name == "raw_bytes" else {}

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        # The specification of r* has "length equal to <N>" with N in bits. A list of bytes has N / 8 items.
        if isinstance(value, list) and len(value) == self.length_bytes:
            return self._array(parse_byte_list(value, member))
        if isinstance(value, str) and self.name == "raw_bytes":
            data = parse_base64(value, member)
            if len(data) == self.length_bytes:
                return self._array(data)
        form = "the base64 text" if self.name == "raw_bytes" else "a list"
        raise InvalidMetadataError(
            f"the fill value of {self.name} is {form} of {self.length_bytes} bytes", member=member
        )

    def render_fill_value(self, array: FillValue) -> JSON:
        data = array.tobytes()
        return render_base64(data) if self.name == "raw_bytes" else list(data)

    def make_fill_value(self, value: object) -> FillValue:
        """Convert bytes; zeros are added to fewer bytes than an element has, as numpy's assignment does."""
        if value is None:
            return self.default_fill_value
        data = None if isinstance(value, str) else bytes_of(value)
        if data is None or len(data) > self.length_bytes:
            raise ValueError(f"fill_value is {value!r}, and elements of {self.name} have {self.length_bytes} bytes")
        return self._array(data.ljust(self.length_bytes, b"\0"))

    def _array(self, data: bytes) -> FillValue:
        return frozen(np.frombuffer(data, self.dtype).reshape(()))
