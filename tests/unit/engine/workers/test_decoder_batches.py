"""Small chunks decoded as a batch: the same elements in the same places, or no batch."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec, zstd
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine.decoder import MAX_BATCH_BYTES, MAX_BATCH_CHUNKS, MAX_CHUNK_BYTES, EncodedChunks, thread_decoder
from aiozarr.grid.advanced import select_orthogonal, select_pointwise
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.byte_runs import MIN_ADJACENT_CHUNKS
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.transform import IndexTransform

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
CHECKED = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
}
CRC = {"name": "crc32c"}
TOGETHER: list[list[dict[str, Any]]] = [
    *([LITTLE, ZSTD], [LITTLE, CHECKED], [LITTLE, GZIP], [LITTLE, BLOSC]),
    *([LITTLE, ZSTD, CRC], [LITTLE, CRC, ZSTD], [LITTLE, CRC], [LITTLE]),
]


@pytest.fixture(params=["in one call", "one call each"], autouse=True, scope="module")
def in_one_call(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Small frames of zstd are decoded in one call, or by one call each while numcodecs is not imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zstd, "_is_native_used", lambda _: request.param == "in one call")
        yield request.param == "in one call"


class Row:
    """Chunks of one array, encoded one behind the other, and an empty array for them."""

    def __init__(
        self,
        codecs: list[dict[str, Any]],
        *,
        chunk: tuple[int, ...] = (8, 16),
        shape: tuple[int, ...] = (32, 64),
        dtype: str = "i4",
        selection: Any = ...,
    ) -> None:
        self.spec = ArraySpec(chunk, np.dtype(dtype), np.zeros((), dtype))
        self.pipeline = CodecPipeline.resolve(codecs, self.spec)
        room = [-(-length // side) * side for length, side in zip(shape, chunk, strict=True)]
        source = (np.arange(np.prod(room)) % 251).astype(dtype).reshape(room)
        self.source = source[tuple(map(slice, shape))][selection]
        transform = IndexTransform.identity(shape).select(selection)
        self.out = np.zeros(transform.core_shape, dtype)
        self.parts = list(project(regular_axes(chunk, shape), transform.maps))
        places = [tuple(slice(c * n, (c + 1) * n) for c, n in zip(p.coords, chunk, strict=True)) for p in self.parts]
        self.encoded = [bytes(self.pipeline.encode(source[place])) for place in places]

    def windows(self, at: int = 0) -> list[int]:
        """Return how many chunks each window has."""
        batch = thread_decoder(self.pipeline).plan_batch(self.out, self.parts, at)
        groups = [] if batch is None else batch._groups
        return [size for parts, window in groups for size in ([1] * len(parts) if window is None else [len(window)])]

    def decode(self, at: int = 0) -> int:
        """Decode a batch from number `at` on; return how many chunks."""
        decoder = thread_decoder(self.pipeline)
        batch = decoder.plan_batch(self.out, self.parts, at)
        if batch is None:
            return 0
        data, starts, _ = EncodedChunks.join(self.encoded[at : at + batch.count])
        return batch.count if decoder.decode_batch(data, starts, batch) else 0

    def right(self, first: int, count: int) -> bool:
        """Return whether just these chunks are in the array."""
        expected = np.zeros_like(self.out)
        for part in self.parts[first : first + count]:
            window = part.window(expected)
            assert window is not None
            window[...] = part.window(self.source)
        return np.array_equal(self.out, expected)


@pytest.mark.parametrize("codecs", TOGETHER, ids=lambda codecs: "-".join(each["name"] for each in codecs))
@pytest.mark.parametrize("dtype", ["u1", "i4", "c16", "S3", "M8[s]"])
def test_chunks_are_decoded_as_a_batch(codecs: list[dict[str, Any]], dtype: str) -> None:
    if codecs == [LITTLE, BLOSC]:
        codecs = [LITTLE, {**BLOSC, "configuration": BLOSC["configuration"] | {"typesize": np.dtype(dtype).itemsize}}]  # type: ignore[operator]
    row = Row(codecs, dtype=dtype)
    assert row.decode() == 16
    assert row.right(0, 16)
    row.out[...] = np.zeros((), dtype)
    assert row.decode(at=13) == 3
    assert row.right(13, 3)


@pytest.mark.parametrize(
    ("chunk", "shape", "windows"),
    [
        ((8, 16), (32, 64), [4, 4, 4, 4]),
        ((8, 16), (16, 48), [1, 1, 1, 1, 1, 1]),  # three side by side are copied one by one
        ((16,), (256,), [16]),  # contiguous: decoded where they belong
        ((8, 64), (64, 64), [8]),
        ((2, 8, 16), (2, 32, 64), [4, 4, 4, 4]),
        ((1, 1, 16), (2, 4, 16), [4, 4]),
        ((1, 1), (2, 4), [4, 4]),
        ((1, 16), (4, 48), [1] * 12),  # each contiguous by itself
        ((8, 16), (8, 16), []),  # one alone
        ((256, 256), (512, 512), []),  # too large
    ],
)
def test_adjacent_chunks_form_one_window(chunk: tuple[int, ...], shape: tuple[int, ...], windows: list[int]) -> None:
    row = Row([LITTLE, ZSTD], chunk=chunk, shape=shape)
    assert row.windows() == windows
    assert row.decode() == sum(windows)
    assert row.right(0, sum(windows))


def test_a_batch_fits_the_block() -> None:
    row = Row([LITTLE, ZSTD], chunk=(64, 64, 4), shape=(64, 64, 128))
    count = MAX_BATCH_BYTES // row.spec.nbytes
    assert 1 < count < len(row.parts)
    assert row.decode() == count
    assert row.right(0, count)


def test_partial_selections_are_copied_from_the_block() -> None:
    row = Row([LITTLE, ZSTD], shape=(32, 60))  # the last of each four reaches beyond the array
    assert row.windows() == [1] * 16
    assert row.decode() == 16
    assert row.right(0, 16)
    assert row.decode(at=15) == 0  # one alone is none


@pytest.mark.parametrize(
    "selection", [np.s_[::-1], np.s_[:, ::2], np.s_[3], np.s_[4:28], np.s_[::7, 9], np.s_[5:6, 1:40]]
)
@pytest.mark.parametrize("codecs", [[LITTLE, ZSTD], [LITTLE]])
def test_any_selection_of_chunks_is_decoded_as_a_batch(selection: Any, codecs: list[dict[str, Any]]) -> None:
    row = Row(codecs, selection=selection)
    assert row.decode() == len(row.parts) > 1
    assert np.array_equal(row.out, row.source)


@pytest.mark.parametrize(
    ("select", "indices", "count"),
    [
        (select_orthogonal, ([1, 9, 8, 30], slice(None)), 12),
        (select_pointwise, ([1, 31, 9, 1, 8], [0, 63, 17, 1, 16]), 3),
    ],
)
def test_index_lists_are_decoded_as_batches(select: Any, indices: Any, count: int) -> None:
    row = Row([LITTLE, ZSTD])
    taken = select(IndexTransform.identity((32, 64)), indices)
    row.parts = list(project(regular_axes((8, 16), (32, 64)), taken.maps))
    row.encoded = [row.encoded[part.coords[0] * 4 + part.coords[1]] for part in row.parts]
    row.out = np.zeros(taken.core_shape, "i4")
    assert row.decode() == len(row.parts) == count
    assert np.array_equal(row.out, row.source[indices])


def test_chunks_that_can_be_decoded_in_part_form_no_batch() -> None:
    row = Row([LITTLE, ZSTD], chunk=(128, 256), shape=(256, 512), selection=np.s_[1])
    assert row.spec.nbytes <= MAX_CHUNK_BYTES
    assert row.windows() == []


@pytest.mark.parametrize(
    "codecs",
    [[BIG, ZSTD], [TRANSPOSE, LITTLE, ZSTD], [BIG]],
)
def test_elements_in_another_order_form_no_batch(codecs: list[dict[str, Any]]) -> None:
    row = Row(codecs)
    assert row.decode() == 0
    assert not row.out.any()


def test_outputs_of_other_kinds_and_types_have_no_windows() -> None:
    row = Row([LITTLE, ZSTD])
    for out in (np.ma.masked_array(row.out), np.zeros((32, 64), ">i4"), np.zeros((32, 64), "i8")):
        row.out = out
        assert row.windows() == [1] * 16
        assert row.decode() == 16
        assert row.right(0, 16)


def test_outputs_of_any_strides_are_filled() -> None:
    row = Row([LITTLE, ZSTD])
    for wide, place in (
        (np.zeros((64, 64), "i4"), np.s_[::2]),
        (np.zeros((32, 128), "i4"), np.s_[:, ::2]),
        (np.zeros((32, 64), "i4"), np.s_[::-1, ::-1]),
        (np.zeros((64, 32), "i4").T, np.s_[:]),
    ):
        row.out = wide[place]
        assert row.decode() == 16
        assert row.right(0, 16)


@pytest.mark.parametrize("codecs", TOGETHER[:6])
def test_a_damaged_chunk_fails_the_batch(codecs: list[dict[str, Any]]) -> None:
    row = Row(codecs)
    one = ArraySpec((1,), row.spec.dtype, row.spec.fill_value)
    small = bytes(CodecPipeline.resolve(codecs, one).encode(np.ones(1, row.spec.dtype)))
    for wrong in (
        row.encoded[1][:-1],  # cut
        small,
        b"",
        bytes(len(row.encoded[1])),
    ):
        kept, row.encoded[1] = row.encoded[1], wrong
        assert row.decode() == 0
        row.encoded[1] = kept


def test_too_much_content_fails_the_batch(in_one_call: bool) -> None:
    row = Row([LITTLE, ZSTD])
    one = ArraySpec((1,), row.spec.dtype, row.spec.fill_value)
    whole = row.encoded[1]
    row.encoded[1] += bytes(CodecPipeline.resolve([LITTLE, ZSTD], one).encode(np.ones(1, row.spec.dtype)))
    assert row.decode() == 0
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    row.encoded[1] = whole + skippable  # which holds nothing
    assert row.decode() == (16 if in_one_call else 0)
    assert row.right(0, 16) == in_one_call


def test_overlapping_frames_fail_the_batch() -> None:
    row = Row([LITTLE, ZSTD])
    assert row.decode() == 16
    row.out[...] = 0
    head = row.encoded[1][:6]
    content = np.random.default_rng(0).bytes(200) + head + np.random.default_rng(1).bytes(306)
    frame = bytes(row.pipeline.encode(np.frombuffer(content, "i4").reshape(8, 16)))
    cut = frame.index(head, 6)  # what does not compress stands in the frame as it is
    row.encoded[:2] = [frame[:cut], frame[cut:]]
    assert row.decode() == 0
    assert not row.out.any()


def test_chunks_that_are_not_compressed_must_have_their_size() -> None:
    row = Row([LITTLE])
    row.encoded[-1] += b"x"
    assert row.decode() == 0
    assert not row.out.any()


@given(st.data())
def test_windows_hold_the_same_elements_as_decoding_one_by_one(data: st.DataObject) -> None:
    dimensions = data.draw(st.integers(1, 4))
    chunk = tuple(data.draw(st.integers(1, 3)) for _ in range(dimensions))
    counts = [data.draw(st.integers(1, 6)) for _ in range(dimensions)]
    shape = tuple(side * count for side, count in zip(chunk, counts, strict=True))
    row = Row([LITTLE, ZSTD], chunk=chunk, shape=shape, dtype="u2")
    assert row.spec.nbytes <= MAX_CHUNK_BYTES
    # Any order, as that of the inner chunks in a shard.
    order = data.draw(st.permutations(range(len(row.parts)))) if data.draw(st.booleans()) else range(len(row.parts))
    row.parts = [row.parts[number] for number in order]
    row.encoded = [row.encoded[number] for number in order]
    layout = data.draw(st.sampled_from(["C", "F", "spread"]))
    if layout == "F":
        row.out = np.zeros(shape, "u2", order="F")
    elif layout == "spread":
        row.out = np.zeros([2 * side for side in shape], "u2")[tuple([slice(None, None, 2)] * dimensions)]
    at = data.draw(st.integers(0, len(row.parts) - 1))
    sizes = row.windows(at)
    assert all(size == 1 or size >= MIN_ADJACENT_CHUNKS for size in sizes)
    assert row.decode(at) == sum(sizes) != 1
    assert row.right(at, sum(sizes))
    if prod(counts) == 1:
        assert sizes == []


def test_a_batch_has_a_bounded_number_of_chunks() -> None:
    row = Row([LITTLE, ZSTD], chunk=(2, 2), shape=(2, 6000))
    assert row.windows() == [MAX_BATCH_CHUNKS]
    assert row.windows(2990) == [10]


def test_uncompressed_chunks_of_wrong_sizes_fail_the_batch() -> None:
    row = Row([LITTLE])
    row.encoded[3], row.encoded[4] = row.encoded[3] + row.encoded[4][:4], row.encoded[4][4:]
    assert row.decode() == 0
    assert not row.out.any()
