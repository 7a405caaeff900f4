"""Arrays on which two implementations must agree: descriptions, contents, and selections that both support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.rounds import rounds
from tests.support.strategies.arrays import DTYPES, Codec, basic_selections, codec_chains

AnyArray: TypeAlias = NDArray[Any]
Selection: TypeAlias = tuple[int | slice | EllipsisType | None, ...]
Draw: TypeAlias = Callable[..., Any]

# Longest sides of arrays and of innermost chunks by the number of dimensions: whole shards stay below a megabyte.
_SIDES = (1, 20, 9, 6, 4)
_CHUNK_SIDES = (1, 9, 6, 4, 3)
# Codecs that stand around `sharding_indexed` in one chain with it.
AROUND_SHARDS = ("crc32c", "gzip", "transpose")
# What TensorStore and JSON both hold exactly.
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An array as every implementation can create it.

    Attributes:
        shape: elements per dimension.
        dtype: the type of an element, in native byte order.
        chunks: the shape of a stored object: of a shard where the codecs are sharded.
        codecs: the whole chain, as JSON.
        fill_value: a 0-d array of `dtype`.
        dimension_names: a name or None per dimension, or None without names.
        attributes: the user's JSON.
        key_encoding: the name of the chunk key encoding, and its separator.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    codecs: list[Codec]
    fill_value: AnyArray
    dimension_names: tuple[str | None, ...] | None
    attributes: dict[str, Any]
    key_encoding: tuple[str, str]

    def empty(self) -> AnyArray:
        """The array as numpy holds it before anything is written."""
        return np.full(self.shape, self.fill_value, self.dtype)


@st.composite
def cases(draw: Draw, *, dtypes: Sequence[str] = DTYPES, around_shards: Sequence[str] = AROUND_SHARDS) -> Case:
    """Arrays of up to four dimensions, with shards in shards, and codecs before and after the sharding."""
    ndim = draw(st.integers(0, 4))
    # One length of zero empties the whole array: few of the arrays are empty.
    shortest = draw(st.sampled_from([1] * 7 + [0]))
    shape = tuple(draw(st.lists(st.integers(shortest, _SIDES[ndim]), min_size=ndim, max_size=ndim)))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    chunks = tuple(draw(st.integers(1, min(n + 2, _CHUNK_SIDES[ndim]))) for n in shape)
    codecs = draw(codec_chains(dtype, ndim))
    for _ in range(draw(st.integers(0, 2))):
        chunks, codecs = draw(_sharded(chunks, codecs, around_shards))
    return Case(
        shape,
        dtype,
        chunks,
        codecs,
        draw(contents((), dtype)),
        draw(st.none() | st.tuples(*[st.none() | st.text(max_size=4)] * ndim)),
        draw(st.dictionaries(st.text(max_size=5), _JSON, max_size=3)),
        draw(st.tuples(st.sampled_from(["default", "v2"]), st.sampled_from("/."))),
    )


@st.composite
def _sharded(
    draw: Draw, chunks: tuple[int, ...], codecs: list[Codec], around_shards: Sequence[str]
) -> tuple[tuple[int, ...], list[Codec]]:
    """A shard shape and chain around inner chunks; sometimes transposed before, and compressed or checksummed after."""
    shard = tuple(length * draw(st.integers(1, 3 if len(chunks) < 3 else 2)) for length in chunks)
    index_codecs: list[Codec] = [
        {"name": "bytes", "configuration": {"endian": draw(st.sampled_from(["little", "big"]))}}
    ]
    if draw(st.booleans()):
        index_codecs.append({"name": "crc32c"})
    configuration = {
        "chunk_shape": list(chunks),
        "codecs": codecs,
        "index_codecs": index_codecs,
        "index_location": draw(st.sampled_from(["start", "end"])),
    }
    chain: list[Codec] = [{"name": "sharding_indexed", "configuration": configuration}]
    around = draw(st.sampled_from(["", "", "", *around_shards]))
    if around == "gzip":
        chain.append({"name": "gzip", "configuration": {"level": 1}})
    elif around == "crc32c":
        chain.append({"name": "crc32c"})
    elif around == "transpose" and chunks:
        order = draw(st.permutations(range(len(chunks))))
        chain.insert(0, {"name": "transpose", "configuration": {"order": order}})
        shard = tuple(shard[order.index(axis)] for axis in range(len(chunks)))
    return shard, chain


@st.composite
def contents(draw: Draw, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any = None) -> AnyArray:
    """Elements of any bits (payloads of NaN, signs of zero), a few values only, or parts that are the fill value."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = int(np.prod(shape, dtype=np.int64))
    kind = draw(st.sampled_from(["bits", "few", "fill", "partly fill"]))
    if kind == "bits":
        raw = rng.integers(0, 2 if dtype.kind == "b" else 256, size * dtype.itemsize, np.uint8)
        return raw.view(dtype).reshape(shape)
    few = draw(_special_values(dtype)) if kind != "fill" else np.zeros(0, dtype)
    pool = np.concatenate([np.zeros(1, dtype), few])
    if fill_value is not None:
        pool[0] = fill_value
    chosen = rng.integers(0, len(pool), size)
    if kind == "partly fill":
        chosen[: size // 2] = 0
    return pool[chosen].reshape(shape)


def _special_values(dtype: np.dtype[Any]) -> st.SearchStrategy[AnyArray]:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        numbers: list[Any] = [0, 1, limits.min, limits.max]
    elif dtype.kind == "b":
        numbers = [False, True]
    elif dtype.kind == "V":
        numbers = [bytes(dtype.itemsize), b"\xff" * dtype.itemsize]
    else:
        numbers = [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, "another NaN"]
    return st.lists(st.sampled_from(numbers), min_size=1, max_size=4).map(lambda values: _array(values, dtype))


def _array(values: list[Any], dtype: np.dtype[Any]) -> AnyArray:
    """The values as an array; `another NaN` has all bits set, and so a sign and a payload of its own."""
    array = np.array([np.nan if value == "another NaN" else value for value in values], dtype)
    array.view(np.uint8).reshape(len(values), -1)[[value == "another NaN" for value in values]] = 255
    return array


def positive_selections(shape: tuple[int, ...]) -> st.SearchStrategy[Selection]:
    """Selections by integers and slices of positive steps, as all implementations take them: one index per dimension.

    The bounds of a slice lie within the array, and an empty one is `0:0`.
    """
    return basic_selections(shape).map(lambda selection: _canonical(selection, shape))


def _canonical(selection: Selection, shape: tuple[int, ...]) -> Selection:
    given = [item for item in selection if item is not None]
    if Ellipsis not in given:
        given.append(Ellipsis)
    place = given.index(Ellipsis)
    given[place : place + 1] = [slice(None)] * (len(shape) - len(given) + 1)
    return tuple(_canonical_index(item, length) for item, length in zip(given, shape, strict=True))


def _canonical_index(item: Any, length: int) -> int | slice:
    if isinstance(item, int):
        return item % length
    steps = range(*item.indices(length))[:: -1 if item.step is not None and item.step < 0 else 1]
    return slice(steps[0], steps[-1] + 1, steps.step) if len(steps) else slice(0, 0, 1)


def same_bits(first: Any, second: Any) -> bool:
    """Whether two arrays or scalars have one shape, one type and the same bits, of NaN and of zeros too."""
    first, second = np.asarray(first), np.asarray(second)
    return (first.shape, first.dtype, first.tobytes()) == (second.shape, second.dtype, second.tobytes())


def examples(number: int) -> settings:
    """As many rounds of examples; see `tests.support.rounds`."""
    return settings(max_examples=rounds(number), deadline=None)
