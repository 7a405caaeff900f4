"""A chunk on its way from bytes to where readers want its elements: the right ones, by whatever shortcut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.work import decode
from aiozarr.engine.work.decode import RUN_BYTES, decode_into, decode_run
from aiozarr.grid import IndexTransform, select_orthogonal, select_pointwise
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.touched import project

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [2, 0, 1]}}
CHECKED = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
CRC = {"name": "crc32c"}
DELTA = {"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}
MEMBERS = {"cname": "zstd", "clevel": 1, "shuffle": "shuffle", "typesize": 4, "blocksize": 8192}
BLOSC = {"name": "blosc", "configuration": MEMBERS}
CHAINS: list[list[dict[str, Any]]] = [
    *([LITTLE], [BIG], [LITTLE, CRC], [TRANSPOSE, LITTLE], [TRANSPOSE, BIG, ZSTD], [LITTLE, ZSTD], [BIG, ZSTD]),
    *([LITTLE, BLOSC], [BIG, BLOSC], [TRANSPOSE, LITTLE, BLOSC, CRC], [LITTLE, BLOSC, ZSTD], [DELTA, LITTLE, BLOSC]),
]
SHAPE, CHUNK = (100, 64, 40), (64, 32, 32)
SELECTIONS: list[tuple[Any, Any]] = [
    (IndexTransform.select, np.s_[:]),
    (IndexTransform.select, np.s_[:64, :32, :32]),
    (IndexTransform.select, np.s_[::-1, ::3]),
    (IndexTransform.select, np.s_[7]),
    (IndexTransform.select, np.s_[:, 40:2:-7, 33]),
    (IndexTransform.select, np.s_[99, 63, 39]),
    (IndexTransform.select, np.s_[70:72, :, 31:34]),
    (select_orthogonal, np.s_[[3, 70, 4], :, [1, 39]]),
    (select_pointwise, np.s_[[9, 9, 80], [1, 2, 63], [30, 31, 32]]),
]


def spec() -> ArraySpec:
    return ArraySpec(CHUNK, np.dtype("i4"), np.zeros((), "i4"))


@pytest.mark.parametrize("codecs", CHAINS, ids=lambda codecs: "-".join(each["name"] for each in codecs))
@pytest.mark.parametrize("readers", [1, 2])
def test_every_selection_of_every_chain_is_what_numpy_selects(codecs: list[dict[str, Any]], readers: int) -> None:
    pipeline = CodecPipeline.resolve(codecs, spec())
    source = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE)
    room = np.zeros([-(-length // side) * side for length, side in zip(SHAPE, CHUNK, strict=True)], "i4")
    room[tuple(map(slice, SHAPE))] = source
    encoded: dict[tuple[int, ...], bytes] = {}
    for select, selection in SELECTIONS:
        transform = select(IndexTransform.identity(SHAPE), selection)
        outs = [np.full(transform.core_shape, -1, "i4") for _ in range(readers)]
        expected = np.full(transform.core_shape, -1, "i4")
        for part in project(regular_axes(CHUNK, SHAPE), transform.maps):
            place = tuple(slice(c * n, (c + 1) * n) for c, n in zip(part.coords, CHUNK, strict=True))
            if part.coords not in encoded:
                encoded[part.coords] = bytes(pipeline.encode(room[place]))
            # Twice from the same block: nothing of the chunk before is left in what is selected.
            decode_into(pipeline, encoded[part.coords], [SimpleNamespace(out=out, projection=part) for out in outs])
            part.scatter(expected, part.gather(room[place]))
        for out in outs:
            assert np.array_equal(out, expected)


def test_of_a_plane_of_a_chunk_only_the_blocks_that_hold_it_are_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    from aiozarr.codecs import blosc

    native = blosc._native.decompress
    monkeypatch.setattr(blosc._native, "decompress", lambda data, out: (seen.append(len(out)), native(data, out)))
    pipeline = CodecPipeline.resolve([LITTLE, BLOSC], spec())
    chunk = np.arange(np.prod(CHUNK), dtype="i4").reshape(CHUNK)
    encoded = bytes(pipeline.encode(chunk))
    for selection, sizes in (
        (np.s_[9], [8192]),
        (np.s_[9:11, 5], [16384]),
        (np.s_[:, 9], [1 << 18]),
        (np.s_[3, 4, 5], [8192]),
    ):
        transform = IndexTransform.identity(CHUNK).select(selection)
        out = np.empty(transform.core_shape, "i4")
        (part,) = project(regular_axes(CHUNK, CHUNK), transform.maps)
        seen.clear()
        decode_into(pipeline, encoded, [SimpleNamespace(out=out, projection=part)])
        assert np.array_equal(out, chunk[selection])
        assert seen == sizes


@pytest.mark.parametrize("keeps", [True, False])
def test_a_thread_keeps_a_block_of_usual_size_for_the_next_chunk_and_a_large_one_not(
    keeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "_kept", decode._Kept())
    monkeypatch.setattr(decode, "KEPT_BYTES", spec().nbytes - (not keeps))
    pipeline = CodecPipeline.resolve([LITTLE, ZSTD], spec())
    chunk = np.arange(np.prod(CHUNK), dtype="i4").reshape(CHUNK)
    encoded = bytes(pipeline.encode(chunk))
    transform = IndexTransform.identity(CHUNK).select(np.s_[::2])
    (part,) = project(regular_axes(CHUNK, CHUNK), transform.maps)
    blocks = []
    for _ in range(2):
        out = np.empty(transform.core_shape, "i4")
        decode_into(pipeline, encoded, [SimpleNamespace(out=out, projection=part)])
        assert np.array_equal(out, chunk[::2])
        assert decode._kept.way is not None
        blocks.append(decode._kept.way.block)
    assert (blocks[0] is not None) == keeps
    assert blocks[0] is blocks[1]


class Row:
    """Chunks of one array, encoded one behind the other, and an empty array for them."""

    def __init__(
        self,
        codecs: list[dict[str, Any]],
        *,
        chunk: tuple[int, ...] = (8, 16),
        shape: tuple[int, ...] = (32, 64),
        dtype: str = "i4",
    ) -> None:
        self.spec = ArraySpec(chunk, np.dtype(dtype), np.zeros((), dtype))
        self.pipeline = CodecPipeline.resolve(codecs, self.spec)
        room = [-(-length // side) * side for length, side in zip(shape, chunk, strict=True)]
        source = (np.arange(np.prod(room)) % 251).astype(dtype).reshape(room)
        self.source = source[tuple(map(slice, shape))]
        self.out = np.zeros(shape, dtype)
        self.parts = list(project(regular_axes(chunk, shape), IndexTransform.identity(shape).maps))
        places = [tuple(slice(c * n, (c + 1) * n) for c, n in zip(p.coords, chunk, strict=True)) for p in self.parts]
        self.encoded = [bytes(self.pipeline.encode(source[place])) for place in places]

    def decode(self, at: int = 0, gap: bytes = b"") -> int:
        places, data = [], b""
        for each in self.encoded:
            places.append((len(data), len(data) + len(each)))
            data += each + gap
        return decode_run(self.pipeline, memoryview(data), places, self.out, self.parts, at)

    def right(self, first: int, count: int) -> bool:
        """Return whether just these chunks are in the array."""
        expected = np.zeros_like(self.out)
        for part in self.parts[first : first + count]:
            window = part.window(expected)
            window[...] = part.window(self.source)
        return np.array_equal(self.out, expected)


@pytest.mark.parametrize("codecs", [[LITTLE, ZSTD], [LITTLE, CHECKED]])
@pytest.mark.parametrize("dtype", ["u1", "i4", "c16", "S3", "M8[s]"])
def test_chunks_one_behind_the_other_are_decoded_in_one_call(codecs: list[dict[str, Any]], dtype: str) -> None:
    row = Row(codecs, dtype=dtype)
    assert row.decode() == 16
    assert row.right(0, 16)
    row.out[...] = np.zeros((), dtype)
    assert row.decode(at=13) == 3
    assert row.right(13, 3)


def test_as_many_as_the_block_has_room_for() -> None:
    row = Row([LITTLE, ZSTD], chunk=(64, 64, 4), shape=(64, 64, 32))
    count = RUN_BYTES // row.spec.nbytes
    assert count < len(row.parts)
    assert row.decode() == count
    assert row.right(0, count)


def test_what_is_wanted_in_part_ends_the_row() -> None:
    row = Row([LITTLE, ZSTD], shape=(32, 60))  # the last of each four reaches beyond the array
    assert row.decode() == 3
    assert row.right(0, 3)
    assert row.decode(at=3) == 0
    assert row.decode(at=2) == 0  # one alone is none


@pytest.mark.parametrize(
    ("codecs", "chunk", "shape"),
    [
        ([LITTLE], (8, 16), (32, 64)),
        ([LITTLE, CRC], (8, 16), (32, 64)),
        ([LITTLE, ZSTD, CRC], (8, 16), (32, 64)),
        ([BIG, ZSTD], (8, 16), (32, 64)),
        ([LITTLE, BLOSC], (8, 16), (32, 64)),
        ([LITTLE, ZSTD], (8, 64), (32, 64)),  # contiguous in the array
        ([LITTLE, ZSTD], (16,), (64,)),
        ([LITTLE, ZSTD], (256, 256), (512, 512)),  # too large
    ],
)
def test_all_others_are_decoded_one_by_one(
    codecs: list[dict[str, Any]], chunk: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    row = Row(codecs, chunk=chunk, shape=shape)
    assert row.decode() == 0
    assert not row.out.any()


def test_gaps_and_what_is_wrong_are_left_to_one_by_one() -> None:
    row = Row([LITTLE, ZSTD])
    assert row.decode(gap=b"x") == 0
    small = bytes(
        CodecPipeline.resolve([LITTLE, ZSTD], ArraySpec((1,), row.spec.dtype, row.spec.fill_value)).encode(
            np.ones(1, row.spec.dtype)
        )
    )
    for wrong in (
        row.encoded[1][:-1],  # cut
        row.encoded[1] + small,  # followed by more content than there may be
        small,
        b"",
        bytes(len(row.encoded[1])),
    ):
        kept, row.encoded[1] = row.encoded[1], wrong
        assert row.decode() == 0
        row.encoded[1] = kept
    assert not row.out.any()
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    row.encoded[1] += skippable  # which holds nothing
    assert row.decode() == 16
    assert row.right(0, 16)


def test_a_frame_that_reaches_over_the_start_of_the_next_is_noticed() -> None:
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
