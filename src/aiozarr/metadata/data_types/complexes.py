"""Complex numbers: pairs of floating point numbers in JSON and in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import ml_dtypes
import numpy as np

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.fork_safe_cached_property import fork_safe_cached_property
from aiozarr.metadata.data_type import JSON, FillValue, frozen, register_data_type
from aiozarr.metadata.data_types._numbers import DTypeNames, NumberType, cast_number
from aiozarr.metadata.data_types.floats import FloatType

_PARTS = {"complex64": "float32", "complex128": "float64", "complex_float16": "float16", "complex_bfloat16": "bfloat16"}
_ALIASES = {"complex_float32": "complex64", "complex_float64": "complex128"}
_NAMES = DTypeNames(
    {
        "complex64": np.dtype("complex64"),
        "complex128": np.dtype("complex128"),
        # Only newer releases of ml_dtypes have these.
        **{
            name: np.dtype(getattr(ml_dtypes, theirs))
            for name, theirs in (("complex_float16", "complex32"), ("complex_bfloat16", "bcomplex32"))
            if hasattr(ml_dtypes, theirs)
        },
    }
)


@register_data_type
@dataclass(frozen=True)
class ComplexType(NumberType):
    """The complex numbers: `complex64`, `complex128`, `complex_float16`, `complex_bfloat16`.

    The registry has `complex_float32` and `complex_float64` as other names of the first two. numpy and ml_dtypes lack
    the complex numbers of small floats that the registry has, too.
    """

    names = (
        *_PARTS,
        *_ALIASES,
        *[f"complex_{name}" for name in FloatType.names if name.startswith(("float4", "float6", "float8"))],
    )
    _table = _NAMES

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        found = super().from_configuration(_ALIASES.get(name, name), configuration, member=member, strict=strict)
        if found.name not in _NAMES.dtypes:
            reason = f"numpy and the installed ml_dtypes have no {found.name}"
            raise UnsupportedMetadataError(reason, member=member, point="data_type", name=found.name)
        return found

    @fork_safe_cached_property
    def part(self) -> FloatType:
        """The type of the real and the imaginary part."""
        return FloatType(_PARTS[self.name])

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if not isinstance(value, list) or len(value) != 2:
            raise InvalidMetadataError(f"the fill value of {self.name} is a list of two parts", member=member)
        parts = [self.part.parse_fill_value(each, f"{member}[{i}]", strict=strict) for i, each in enumerate(value)]
        # Set both parts in memory: arithmetic such as re + 1j * im changes NaN payloads and the sign of zero.
        return frozen(np.frombuffer(b"".join([part.tobytes() for part in parts]), self.dtype).reshape(()))

    def render_fill_value(self, array: FillValue) -> JSON:
        parts = np.frombuffer(array.tobytes(), self.part.dtype)
        return [self.part.render_fill_value(parts[0, ...]), self.part.render_fill_value(parts[1, ...])]

    def make_fill_value(self, value: object) -> FillValue:
        return self.default_fill_value if value is None else cast_number(value, self.dtype, self.name)
