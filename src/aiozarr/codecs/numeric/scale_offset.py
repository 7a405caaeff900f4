"""The codec `scale_offset`: subtracts an offset and multiplies, in the arithmetic of the array's type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from aiozarr.codecs.core.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, Region
from aiozarr.codecs.core.configuration import check_members, invalid, unsupported
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numeric.scalars import is_integral, is_real, limits, parse_real
from aiozarr.errors import CodecError


@register
@dataclass(frozen=True)
class ScaleOffsetCodec(ArrayArrayCodec):
    """The codec `scale_offset` (registry of extensions): `(x - offset) * scale`, and back `x / scale + offset`.

    Integers that leave their range raise an error, and so do encoded integers that are not multiples of `scale`. The
    fill value is encoded like an element.

    Attributes:
        offset: the subtrahend as in the configuration: a number, or a string such as "NaN"; 0 by default.
        scale: the factor in the same form; 1 by default.
    """

    name = "scale_offset"
    offset: JSON = 0
    scale: JSON = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("offset", "scale"), name=cls.name)
        values = {"offset": 0, "scale": 1, **configuration}
        for key in ("offset", "scale"):
            if isinstance(values[key], bool) or not isinstance(values[key], (int, float, str)):
                raise invalid(key, "it must be a number, or a string of a number")
        return cls(values["offset"], values["scale"])

    def to_json(self) -> dict[str, JSON]:
        return {"offset": self.offset, "scale": self.scale}

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if not is_real(spec.dtype):
            raise unsupported(f"codec 'scale_offset' scales real numbers, not {spec.dtype}", self.name)
        if float(self._parameters(spec)[1]) == 0:
            raise invalid("scale", "it must not be 0")
        try:
            return replace(spec, fill_value=self.encode(spec.fill_value, spec))
        except CodecError as error:
            raise invalid("scale", f"the fill value cannot be encoded: {error}") from error

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        offset, scale = self._parameters(spec)
        if not is_integral(spec.dtype):
            with np.errstate(all="ignore"):
                return np.asarray((array - offset) * scale, spec.dtype)
        wide = _wide(spec.dtype, offset, scale)
        return self._narrow((array.astype(wide) - _scalar(offset, wide)) * _scalar(scale, wide), spec)

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        offset, scale = self._parameters(spec)
        if not is_integral(spec.dtype):
            with np.errstate(all="ignore"):
                return np.asarray(array / scale + offset, spec.dtype)
        wide = _wide(spec.dtype, offset, scale)
        divisor = _scalar(scale, wide)
        values = array.astype(wide)
        if np.any(values % divisor):
            raise CodecError(
                f"there are elements that are not multiples of {int(scale)}, with a non-zero remainder", codec=self.name
            )
        return self._narrow(values // divisor + _scalar(offset, wide), spec)

    def encode_region(self, region: Region, spec: ArraySpec) -> Region:
        return region

    def _parameters(self, spec: ArraySpec) -> tuple[AnyArray, AnyArray]:
        return parse_real(self.offset, spec.dtype, "offset"), parse_real(self.scale, spec.dtype, "scale")

    def _narrow(self, values: Any, spec: ArraySpec) -> AnyArray:
        found: AnyArray = np.asarray(values)
        least, most = limits(spec.dtype)
        if found.size and (int(found.min()) < least or int(found.max()) > most):
            raise CodecError(f"there are elements outside the range of dtype {spec.dtype}", codec=self.name)
        return found.astype(spec.dtype)


def _wide(dtype: np.dtype[Any], offset: AnyArray, scale: AnyArray) -> np.dtype[Any]:
    """Return a type in which no step overflows: 64 bits if they suffice, otherwise Python's integers."""
    bound = max(map(abs, limits(dtype)))
    largest = (bound + abs(int(offset))) * max(1, abs(int(scale)))
    return np.dtype(np.int64) if largest < 1 << 63 else np.dtype(object)


def _scalar(value: AnyArray, wide: np.dtype[Any]) -> Any:
    return int(value) if wide.hasobject else np.int64(int(value))
