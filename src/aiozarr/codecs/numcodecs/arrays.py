"""The array -> array codecs `numcodecs.delta`, `bitround`, `fixedscaleoffset`, `quantize`, `astype` and `packbits`.

They work as in zarr-python 3: a `dtype` that the configuration omits is the array's type, and the encoded array has the
filter's output type. Types are those of elements in memory, so their byte order is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from aiozarr.codecs.core.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, codec_errors
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numcodecs.filters import ARRAY_FILTERS, ArrayFilter
from aiozarr.errors import InvalidMetadataError

_ANY_FLOAT = np.dtype(np.float64)
_TYPE_MEMBERS = ("dtype", "astype", "encode_dtype", "decode_dtype")


@dataclass(frozen=True)
class _FilterCodec(ArrayArrayCodec):
    """A filter of numcodecs as a codec of v3 documents."""

    configuration: Mapping[str, JSON] = field(default_factory=dict)
    # The filter for each type of arrays: building it takes as long as decoding a small chunk.
    _built: dict[np.dtype[Any], ArrayFilter] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        # Checks that depend on the array's type follow in `resolve`.
        ARRAY_FILTERS[cls.name.removeprefix("numcodecs.")].from_json(configuration, _ANY_FLOAT)
        return cls(dict(configuration))

    def to_json(self) -> dict[str, JSON]:
        return dict(self.configuration)

    def __hash__(self) -> int:
        return hash((self.name, len(self.configuration)))

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if spec.is_variable:
            raise InvalidMetadataError(f"codec {self.name!r} encodes types of fixed size, not {spec.dtype}")
        filter_ = self._filter(spec)
        encoded = filter_.encoded_length(spec.size)
        shape = spec.shape if encoded == spec.size else (encoded,)
        if self.name == "numcodecs.packbits":
            shape, fill = (encoded,), np.zeros((), filter_.encoded_type)
        else:
            # One element encodes to one element, so the fill value can be encoded.
            fill = self._encode(filter_, spec.fill_value.reshape(1)).reshape(())
        return ArraySpec(shape, filter_.encoded_type, fill, spec.max_bytes)

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        filter_ = self._filter(spec)
        encoded = self._encode(filter_, np.ascontiguousarray(array).reshape(-1))
        is_flat = encoded.size != spec.size or self.name == "numcodecs.packbits"
        return encoded if is_flat else encoded.reshape(spec.shape)

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        filter_ = self._filter(spec)
        with codec_errors("decode", self.name, TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            flat: AnyArray = np.ascontiguousarray(array).reshape(-1)
            return filter_.decode(flat).view(spec.dtype).reshape(spec.shape)

    def _encode(self, filter_: ArrayFilter, flat: AnyArray) -> AnyArray:
        with codec_errors("encode", self.name, TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            return filter_.encode(flat.view(filter_.decoded_type))

    def _filter(self, spec: ArraySpec) -> ArrayFilter:
        built = self._built.get(spec.dtype)
        if built is None:
            built = self._built[spec.dtype] = self._build(spec)
        return built

    def _build(self, spec: ArraySpec) -> ArrayFilter:
        native = {
            key: np.dtype(value).newbyteorder("=").str if key in _TYPE_MEMBERS and isinstance(value, str) else value
            for key, value in self.configuration.items()
        }
        filter_ = ARRAY_FILTERS[self.name.removeprefix("numcodecs.")].from_json(native, spec.dtype)
        if filter_.decoded_type.itemsize != spec.dtype.itemsize:
            raise InvalidMetadataError(
                f"codec {self.name!r} encodes {filter_.decoded_type}, not {spec.dtype}", member="configuration"
            )
        return filter_


@register
class NumcodecsDeltaCodec(_FilterCodec):
    """The codec `numcodecs.delta`: differences of neighbours in C order."""

    name = "numcodecs.delta"


@register
class NumcodecsBitRoundCodec(_FilterCodec):
    """The codec `numcodecs.bitround`: mantissas rounded to `keepbits` bits."""

    name = "numcodecs.bitround"


@register
class NumcodecsFixedScaleOffsetCodec(_FilterCodec):
    """The codec `numcodecs.fixedscaleoffset`: (x - offset) * scale, rounded to whole numbers."""

    name = "numcodecs.fixedscaleoffset"


@register
class NumcodecsQuantizeCodec(_FilterCodec):
    """The codec `numcodecs.quantize`: rounding to `digits` decimal digits."""

    name = "numcodecs.quantize"


@register
class NumcodecsAsTypeCodec(_FilterCodec):
    """The codec `numcodecs.astype`: elements converted to `encode_dtype`."""

    name = "numcodecs.astype"


@register
class NumcodecsPackBitsCodec(_FilterCodec):
    """The codec `numcodecs.packbits`: booleans as bits, in one dimension of bytes."""

    name = "numcodecs.packbits"

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if spec.dtype != np.dtype(np.bool_):
            raise InvalidMetadataError(f"codec {self.name!r} encodes booleans, not {spec.dtype}")
        return super().resolve(spec)
