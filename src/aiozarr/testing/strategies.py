"""Hypothesis strategies for arrays of the v3 core: shapes, chunks, shards, types, codec chains, values and selections.

Everything is small, and drawn as what users type: tuples, numpy types, and codecs as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

Codec: TypeAlias = dict[str, Any]
Index: TypeAlias = int | slice | EllipsisType | None
Draw: TypeAlias = Callable[..., Any]

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip


@dataclass(frozen=True)
class ArrayCase:
    """An array as it is to be created.

    Attributes:
        shape: elements per dimension.
        dtype: the type of an element.
        chunks: the shape of a chunk: of an inner chunk where there are shards.
        shards: the shape of a shard, a multiple of `chunks` along every dimension; None: no shards.
        codecs: the codecs of a chunk, as JSON.
        fill_value: a scalar of `dtype`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: list[Codec]
    fill_value: np.generic


def shapes(*, min_dims: int = 0, max_dims: int = 4, max_side: int = 12) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of arrays: zero dimensions and lengths of zero included."""
    return st.lists(st.integers(0, max_side), min_size=min_dims, max_size=max_dims).map(tuple)


def chunk_shapes(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """Chunk shapes for `shape`: at least 1 along each dimension, sometimes larger than the array."""
    return st.tuples(*(st.integers(1, length + 2) for length in shape))


def shard_shapes(chunks: tuple[int, ...], *, max_factor: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    """Shard shapes: multiples of the chunk shape."""
    return st.tuples(*(st.integers(1, max_factor).map(side.__mul__) for side in chunks))


def dtypes() -> st.SearchStrategy[np.dtype[Any]]:
    """The data types of the v3 core that numpy names, in native byte order."""
    return st.sampled_from(DTYPES).map(np.dtype)


@st.composite
def codec_chains(draw: Draw, dtype: np.dtype[Any], ndim: int) -> list[Codec]:
    """Chains of core codecs for chunks of `dtype` and `ndim` dimensions, as JSON; `shards` stands for sharding."""
    chain: list[Codec] = []
    if ndim and draw(st.booleans()):
        order = draw(st.permutations(range(ndim)))
        chain.append({"name": "transpose", "configuration": {"order": list(order)}})
    endian = draw(st.sampled_from(["little", "big"]))
    chain.append({"name": "bytes", "configuration": {"endian": endian}} if dtype.itemsize > 1 else {"name": "bytes"})
    chain += draw(st.lists(_compressors(dtype), max_size=2))
    if draw(st.booleans()):
        chain.append({"name": "crc32c"})
    return chain


def _compressors(dtype: np.dtype[Any]) -> st.SearchStrategy[Codec]:
    gzip = st.integers(0, 9).map(lambda level: {"name": "gzip", "configuration": {"level": level}})
    zstd = st.builds(
        lambda level, checksum: {"name": "zstd", "configuration": {"level": level, "checksum": checksum}},
        st.integers(-5, 9),
        st.booleans(),
    )
    blosc = st.builds(
        lambda cname, clevel, shuffle: {
            "name": "blosc",
            "configuration": {
                "cname": cname,
                "clevel": clevel,
                "shuffle": shuffle,
                "typesize": dtype.itemsize,
                "blocksize": 0,
            },
        },
        st.sampled_from(["lz4", "lz4hc", "blosclz", "zstd", "zlib"]),
        st.integers(0, 9),
        st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]),
    )
    return st.one_of(gzip, zstd, blosc)


@st.composite
def array_cases(draw: Draw, *, max_dims: int = 4, max_side: int = 12, shards: bool = True) -> ArrayCase:
    """Whole descriptions of arrays."""
    shape = draw(shapes(max_dims=max_dims, max_side=max_side))
    dtype = draw(dtypes())
    chunks = draw(chunk_shapes(shape))
    shard = draw(st.none() | shard_shapes(chunks)) if shards else None
    fill_value = draw(arrays((), dtype))[()]
    return ArrayCase(shape, dtype, chunks, shard, draw(codec_chains(dtype, len(shape))), fill_value)


def arrays(shape: tuple[int, ...], dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    """Arrays of any values, NaN, infinities and negative zero included."""
    return npst.arrays(dtype, shape)


@st.composite
def basic_selections(draw: Draw, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Selections by ints, slices of any step, an ellipsis and new axes, valid for `shape`, as numpy takes them."""
    taken = draw(st.integers(0, len(shape)))
    from_front = draw(st.integers(0, taken))
    sides = [*shape[:from_front], *shape[len(shape) - (taken - from_front) :]]
    indices: list[Index] = [draw(_index(side)) for side in sides]
    if (taken < len(shape) and from_front < taken) or draw(st.booleans()):
        indices.insert(from_front, ...)
    for _ in range(draw(st.integers(0, 2))):
        indices.insert(draw(st.integers(0, len(indices))), None)
    return tuple(indices)


def _index(side: int) -> st.SearchStrategy[int | slice]:
    bound = st.none() | st.integers(-side - 3, side + 3)
    step = st.none() | st.integers(1, side + 2) | st.integers(-side - 2, -1)
    slices = st.builds(slice, bound, bound, step)
    return st.one_of(slices, st.integers(-side, side - 1)) if side else slices
