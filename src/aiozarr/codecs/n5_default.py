"""The codec `n5_default`: blocks of N5, each with its shape in a header."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.bytes import BytesCodec
from aiozarr.codecs.chain import CodecChain, parse_chain
from aiozarr.codecs.codec import JSON, AnyArray, ArrayBytesCodec, ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.dimensions import TransposeCodec
from aiozarr.codecs.registry import check_members, invalid, register_codec, required
from aiozarr.errors import CodecError, InvalidMetadataError

_TYPES = frozenset(np.dtype(name) for name in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"))
_MAX_DIMENSION = 2**32 - 1
_DEFAULT_MODE = 0


@register_codec
@dataclass(frozen=True)
class N5DefaultCodec(ArrayBytesCodec):
    """The codec `n5_default` (registry of extensions), for blocks in N5's default mode.

    Written blocks have the shape of the chunk. Blocks that are read may be smaller, as at the edges of many N5
    datasets, and are padded with the fill value. Elements outside of the chunk are dropped.

    Attributes:
        chain: a full transposition, big-endian bytes, and at most one compressor.
    """

    name = "n5_default"
    chain: CodecChain
    # The pipeline of the latest spec, by identity: a pipeline always passes the same spec.
    _last: list[tuple[ArraySpec, CodecPipeline]] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("codecs",), name=cls.name)
        chain = parse_chain(required(configuration, "codecs"), member="configuration.codecs")
        transposes = [isinstance(codec, TransposeCodec) for codec in chain.array_array]
        if transposes != [True]:
            raise invalid("codecs", "the first codec must be 'transpose', followed by 'bytes'")
        if not isinstance(chain.array_bytes, BytesCodec):
            raise invalid("codecs", "the second codec must be 'bytes'")
        if chain.array_bytes.endian == "little":
            raise invalid("codecs", "N5 stores big-endian bytes")
        if len(chain.bytes_bytes) > 1:
            raise invalid("codecs", "at most one codec may follow 'bytes'")
        return cls(chain)

    def to_json(self) -> dict[str, JSON]:
        return {"codecs": self.chain.to_json()}

    def resolve(self, spec: ArraySpec) -> None:
        if spec.dtype not in _TYPES:
            raise InvalidMetadataError(f"N5 has no data type for {spec.dtype}")
        if any(length > _MAX_DIMENSION for length in spec.shape):
            raise InvalidMetadataError(f"a dimension of a block has at most {_MAX_DIMENSION} elements")
        order = [codec.order for codec in self.chain.array_array if isinstance(codec, TransposeCodec)]
        if order != [tuple(range(len(spec.shape)))[::-1]]:
            raise invalid("codecs", "the transposition must reverse all dimensions")
        self._pipeline(spec)

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        header = struct.pack(f">HH{array.ndim}I", _DEFAULT_MODE, array.ndim, *array.shape)
        return b"".join([header, self._pipeline(spec).encode(array)])

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        view = memoryview(data).cast("B")
        shape = self._parse_header(view, spec)
        content = view[_header_size(spec) :]
        if shape == spec.shape:
            return self._pipeline(spec).decode(content)
        block = CodecPipeline(self.chain, replace(spec, shape=shape)).decode(content)
        result: AnyArray = np.full(spec.shape, spec.fill_value, spec.dtype)
        common = tuple(slice(min(lengths)) for lengths in zip(shape, spec.shape, strict=True))
        result[common] = block[common]
        return result

    def _is_bounded(self, spec: ArraySpec) -> bool:
        return False  # a stored block may have another shape than its chunk

    def max_encoded_size(self, spec: ArraySpec) -> int:
        return _header_size(spec) + self._pipeline(spec).max_encoded_size

    def _pipeline(self, spec: ArraySpec) -> CodecPipeline:
        for seen, pipeline in self._last:
            if seen is spec:
                return pipeline
        pipeline = CodecPipeline(self.chain, spec, member="configuration.codecs")
        self._last[:] = [(spec, pipeline)]
        return pipeline

    def _parse_header(self, view: memoryview, spec: ArraySpec) -> tuple[int, ...]:
        rank = len(spec.shape)
        if len(view) < _header_size(spec):
            raise CodecError(f"{len(view)} bytes are too few for the header of a block", codec=self.name)
        mode, dimensions = struct.unpack_from(">HH", view)
        if mode != _DEFAULT_MODE:
            raise CodecError(f"the block is of mode {mode}; only the default mode, 0, is read", codec=self.name)
        if dimensions != rank:
            raise CodecError(f"the block has {dimensions} dimensions, the array {rank}", codec=self.name)
        shape: tuple[int, ...] = struct.unpack_from(f">{rank}I", view, 4)
        size = replace(spec, shape=shape).nbytes
        if 0 in shape or size > max(spec.nbytes, spec.max_bytes):
            raise CodecError(f"the block claims the shape {list(shape)}", codec=self.name)
        return shape


def _header_size(spec: ArraySpec) -> int:
    return 4 + 4 * len(spec.shape)
