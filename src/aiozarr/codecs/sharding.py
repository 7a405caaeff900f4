"""The codec `sharding_indexed`: separately encoded inner chunks, and an index of their positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Literal, Self

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.chain import CodecChain, parse_chain
from aiozarr.codecs.chunk_layouts import EMPTY, NAME, ShardedArrayBytesCodec, ShardLayout
from aiozarr.codecs.codec import JSON, AnyArray, ArraySpec, Region, view_region
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.registry import check_members, integers, invalid, one_of, register_codec, required
from aiozarr.model import Range, Suffix, resolve_range

_MAX_EDGE = 2**63 - 1


@register_codec
@dataclass(frozen=True)
class ShardingCodec(ShardedArrayBytesCodec):
    """The codec `sharding_indexed` (codec specification "sharding-indexed").

    The engine reads shards by ranges, through `shard_layout`. The methods of this class encode and decode whole shards:
    shards inside of shards, and shards after other codecs.

    Attributes:
        chunk_shape: shape of an inner chunk in elements.
        chain: the codecs of an inner chunk.
        index_chain: the codecs of the index, of fixed encoded size.
        index_location: the end of the shard that holds the index.
    """

    name = NAME
    chunk_shape: tuple[int, ...]
    chain: CodecChain
    index_chain: CodecChain
    index_location: Literal["start", "end"] = "end"
    # The layout of the latest spec, by identity: a pipeline always passes the same spec.
    _last: list[tuple[ArraySpec, ShardLayout]] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        known = ("chunk_shape", "codecs", "index_codecs", "index_location")
        check_members(configuration, known, name=cls.name)
        chunk_shape = integers(configuration, "chunk_shape", 1, _MAX_EDGE)
        chain = parse_chain(required(configuration, "codecs"), member="configuration.codecs")
        index_chain = parse_chain(required(configuration, "index_codecs"), member="configuration.index_codecs")
        if index_chain.array_bytes.name == cls.name:
            raise invalid("index_codecs", "an index cannot be sharded itself")
        location: Literal["start", "end"] = one_of(configuration, "index_location", ("start", "end"), "end")
        return cls(chunk_shape, chain, index_chain, location)

    def to_json(self) -> dict[str, JSON]:
        return {
            "chunk_shape": list(self.chunk_shape),
            "codecs": self.chain.to_json(),
            "index_codecs": self.index_chain.to_json(),
            "index_location": self.index_location,
        }

    def resolve(self, spec: ArraySpec) -> None:
        self.shard_layout(spec)

    def shard_layout(self, spec: ArraySpec) -> ShardLayout:
        last = self._last
        for seen, layout in last:
            if seen is spec:
                return layout
        layout = self._lay_out(spec)
        last[:] = [(spec, layout)]
        return layout

    def _lay_out(self, spec: ArraySpec) -> ShardLayout:
        if len(self.chunk_shape) != len(spec.shape):
            raise invalid("chunk_shape", f"it has {len(self.chunk_shape)} dimensions, the shard has {len(spec.shape)}")
        if any(outer % inner for outer, inner in zip(spec.shape, self.chunk_shape, strict=True)):
            raise invalid("chunk_shape", f"{list(self.chunk_shape)} does not divide the shard's {list(spec.shape)}")
        grid_shape = tuple(outer // inner for outer, inner in zip(spec.shape, self.chunk_shape, strict=True))
        inner_spec = replace(spec, shape=self.chunk_shape)
        index_spec = ArraySpec((*grid_shape, 2), np.dtype(np.uint64), np.array(EMPTY, np.uint64))
        index = CodecPipeline(self.index_chain, index_spec, member="configuration.index_codecs")
        if index.encoded_size is None:
            raise invalid("index_codecs", "their encoded size varies; an index needs a fixed one")
        index_nbytes = index.max_encoded_size
        return ShardLayout(
            shard_shape=spec.shape,
            inner_shape=self.chunk_shape,
            grid_shape=grid_shape,
            inner=CodecPipeline(self.chain, inner_spec, member="configuration.codecs"),
            index=index,
            index_location=self.index_location,
            index_nbytes=index_nbytes,
            index_range=Range(0, index_nbytes) if self.index_location == "start" else Suffix(index_nbytes),
            count=prod(grid_shape),
        )

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        layout = self.shard_layout(spec)
        parts: dict[int, Buffer] = {}
        for linear, region in enumerate(_regions(layout)):
            chunk = view_region(array, region)
            if not layout.inner.is_fill(chunk):
                parts[linear] = layout.inner.encode(chunk)
        return layout.assemble(parts)

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        layout = self.shard_layout(spec)
        view = memoryview(data).cast("B")
        start, stop = resolve_range(len(view), layout.index_range)
        index = layout.parse_index(view[start:stop], len(view))
        result = np.empty(spec.shape, spec.dtype) if out is None else out
        scratch = np.empty(layout.inner_shape, spec.dtype)
        for linear, region in enumerate(_regions(layout)):
            where = index.locate(linear)
            target = view_region(result, region)
            if where is None:
                target[...] = spec.fill_value
                continue
            place = target if target.flags.c_contiguous else scratch
            chunk = layout.inner.decode(view[slice(*resolve_range(len(view), where))], place)
            if chunk is not target:
                target[...] = chunk
        return result

    def max_encoded_size(self, spec: ArraySpec) -> int:
        layout = self.shard_layout(spec)
        # `max_bytes` bounds elements of variable length in all inner chunks together.
        return layout.index_nbytes + spec.max_bytes if spec.is_variable else layout.max_encoded_size

    def _is_bounded(self, spec: ArraySpec) -> bool:
        return False  # unused bytes between inner chunks are valid


def _regions(layout: ShardLayout) -> Iterator[Region]:
    for position in product(*map(range, layout.grid_shape)):
        yield tuple(
            slice(index * length, (index + 1) * length)
            for index, length in zip(position, layout.inner_shape, strict=True)
        )
