"""Hypothesis strategies for arrays: shapes, chunks, shards, types, codec chains, fill values and selections.

`new_arrays` draws arrays of every format, with all that these have; `array_cases` those of the v3 core.

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

from tests.support.strategies.codecs import v1_compressions, v2_codecs, v3_bytes_codecs, v3_codecs
from tests.support.strategies.elements import (
    CORE,
    AnyArray,
    Elements,
    contents,
    fill_values,
    v1_elements,
    v2_elements,
    v3_elements,
)

Codec: TypeAlias = dict[str, Any]
Index: TypeAlias = int | slice | EllipsisType | None
Draw: TypeAlias = Callable[..., Any]

DTYPES = CORE
AROUND_SHARDS = st.lists(v3_bytes_codecs(np.dtype("u1")), max_size=1)
"""Codecs of a whole shard: none or one."""


@dataclass(frozen=True)
class ArrayCase:
    """An array as it is to be created.

    Attributes:
        shape: elements per dimension.
        dtype: the type of an element.
        chunks: the shape of a chunk: of an inner chunk where there are shards.
        shards: the shape of a shard, a multiple of `chunks` along every dimension, or None.
        codecs: the codecs of a chunk, as JSON.
        fill_value: a scalar of `dtype`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: list[Codec]
    fill_value: np.generic


@dataclass(frozen=True)
class NewArray:
    """An array of any format as it is to be created.

    Attributes:
        options: the keyword arguments of `create_array`.
        elements: the type of the elements, and what they can be.
    """

    options: dict[str, Any]
    elements: Elements

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension."""
        shape: tuple[int, ...] = self.options["shape"]
        return shape

    def contents(self, shape: tuple[int, ...]) -> st.SearchStrategy[AnyArray]:
        """Elements to be written into a selection of `shape`; some of them are the fill value."""
        return contents(shape, self.elements, self.options.get("fill_value"))


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


def new_arrays() -> st.SearchStrategy[NewArray]:
    """Arrays of all formats, of up to three dimensions."""
    return st.one_of(v3_arrays(), v3_arrays(), v2_arrays(), v1_arrays())


@st.composite
def v3_arrays(
    draw: Draw,
    *,
    elements: st.SearchStrategy[Elements] | None = None,
    chains: Callable[[np.dtype[Any], int], st.SearchStrategy[list[Codec]]] = v3_codecs,
    around_shards: st.SearchStrategy[list[Codec]] = AROUND_SHARDS,
    listed: bool = True,
) -> NewArray:
    """Arrays of format 3: any type, chain and key encoding, shards in shards, grids of `listed` lengths.

    `chains` makes the codecs of the innermost chunks; those that are drawn from `around_shards` follow a shard.
    """
    kind = draw(v3_elements() if elements is None else elements)
    shape, options = draw(_common(kind))
    ndim = len(shape)
    codecs, inner = draw(chains(kind.dtype, ndim)), draw(chunk_shapes(shape))
    factors = st.tuples(*[st.integers(1, 3 if ndim < 3 else 2)] * ndim)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        index = [{"name": "bytes", "configuration": {"endian": draw(st.sampled_from(["little", "big"]))}}]
        configuration = {
            "chunk_shape": list(inner),
            "codecs": codecs,
            "index_codecs": index + draw(st.sampled_from([[], [{"name": "crc32c"}]])),
            "index_location": draw(st.sampled_from(["start", "end"])),
        }
        codecs = [{"name": "sharding_indexed", "configuration": configuration}]
        codecs += draw(around_shards)
        inner = tuple(a * b for a, b in zip(inner, draw(factors), strict=True))
    chunks: Any = inner
    if listed and ndim and draw(st.integers(0, 3)) == 0:
        chunks = [draw(_lengths(side, unit)) for side, unit in zip(shape, inner, strict=True)]
    names = st.none() | st.tuples(*[st.none() | st.text(max_size=4)] * ndim)
    encodings = st.none() | st.tuples(st.sampled_from(["default", "v2"]), st.sampled_from("/."))
    options |= {
        "zarr_format": 3,
        "chunks": chunks,
        "codecs": codecs,
        "dimension_names": draw(names),
        "chunk_key_encoding": draw(encodings),
    }
    return NewArray(options, kind)


@st.composite
def v2_arrays(
    draw: Draw,
    *,
    elements: st.SearchStrategy[Elements] | None = None,
    codecs: Callable[[np.dtype[Any], tuple[Codec, ...]], st.SearchStrategy[dict[str, Any]]] = v2_codecs,
) -> NewArray:
    """Arrays of format 2: any type, filters and compressor, both orders and both separators."""
    kind = draw(v2_elements() if elements is None else elements)
    shape, options = draw(_common(kind))
    options |= draw(codecs(_stored(kind), kind.filters))
    options |= {
        "zarr_format": 2,
        "chunks": draw(chunk_shapes(shape)),
        "order": draw(st.sampled_from("CF")),
        "dimension_separator": draw(st.sampled_from([None, ".", "/"])),
        "dimension_names": draw(st.none() | st.tuples(*[st.text(max_size=4)] * len(shape))),
    }
    return NewArray(options, kind)


@st.composite
def v1_arrays(draw: Draw, *, elements: st.SearchStrategy[Elements] | None = None) -> NewArray:
    """Arrays of format 1: any type and compression, both orders."""
    kind = draw(v1_elements() if elements is None else elements)
    shape, options = draw(_common(kind))
    chunking = {"chunks": draw(chunk_shapes(shape)), "order": draw(st.sampled_from("CF"))}
    return NewArray(options | draw(v1_compressions()) | chunking | {"zarr_format": 1}, kind)


@st.composite
def _common(draw: Draw, kind: Elements) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A shape, and the options that all formats have: with a fill value or none."""
    ndim = draw(st.integers(0, 3))
    # One length of zero empties the whole array: few of the arrays are empty.
    shortest = draw(st.sampled_from([1] * 7 + [0]))
    shape = tuple(draw(st.lists(st.integers(shortest, (1, 12, 7, 4)[ndim]), min_size=ndim, max_size=ndim)))
    options: dict[str, Any] = {"shape": shape, "dtype": kind.given}
    fill_value = draw(fill_values(kind))
    if fill_value is not None:
        options["fill_value"] = fill_value
    return shape, options


@st.composite
def _lengths(draw: Draw, side: int, unit: int) -> list[int]:
    """Lengths of chunks, multiples of `unit`, that cover `side`."""
    lengths = [unit * draw(st.integers(1, 3))]
    while sum(lengths) < side:
        lengths.append(unit * draw(st.integers(1, 3)))
    return lengths


def _stored(kind: Elements) -> np.dtype[Any]:
    return kind.given if isinstance(kind.given, np.dtype) else kind.dtype


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
