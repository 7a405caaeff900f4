"""Chunks are decoded to the right elements in readers' outputs, by every shortcut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiozarr import memory
from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine import decoder
from aiozarr.engine.decoder import thread_decoder
from aiozarr.grid.advanced import select_orthogonal, select_pointwise
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.transform import IndexTransform

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
            thread_decoder(pipeline).decode_for(
                encoded[part.coords], [SimpleNamespace(out=out, projection=part) for out in outs]
            )
            part.scatter(expected, part.gather(room[place]))
        for out in outs:
            assert np.array_equal(out, expected)


def test_only_the_blocks_of_a_selected_plane_are_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
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
        thread_decoder(pipeline).decode_for(encoded, [SimpleNamespace(out=out, projection=part)])
        assert np.array_equal(out, chunk[selection])
        assert seen == sizes


@pytest.mark.parametrize("keeps", [True, False])
def test_a_thread_reuses_its_block_unless_chunks_are_large(keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "thread_memory", memory.ThreadMemory())
    monkeypatch.setattr(decoder, "MAX_BLOCK_BYTES", spec().nbytes - (not keeps))
    pipeline = CodecPipeline.resolve([LITTLE, ZSTD], spec())
    chunk = np.arange(np.prod(CHUNK), dtype="i4").reshape(CHUNK)
    encoded = bytes(pipeline.encode(chunk))
    transform = IndexTransform.identity(CHUNK).select(np.s_[::2])
    (part,) = project(regular_axes(CHUNK, CHUNK), transform.maps)
    blocks = []
    for _ in range(2):
        out = np.empty(transform.core_shape, "i4")
        thread_decoder(pipeline).decode_for(encoded, [SimpleNamespace(out=out, projection=part)])
        assert np.array_equal(out, chunk[::2])
        blocks.append(thread_decoder(pipeline)._block)
    assert (blocks[0] is not None) == keeps
    assert blocks[0] is blocks[1]
