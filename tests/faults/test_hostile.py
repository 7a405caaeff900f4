"""Metadata and shards that a stranger wrote are refused by typed errors before memory is taken; nothing is written."""

from __future__ import annotations

import json
import resource
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import google_crc32c
import numpy as np
import pytest

import aiozarr
from tests.support.remote_arrays import CHECKED, RAW, document

SECONDS = 1.0
"""Of processor time, all threads together: a bound on what is done before a refusal."""

BYTES = 64 << 20
"""Of memory, which it may take at most above what the process has."""


class Place:
    """A folder that a stranger has filled."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, key: str, data: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def files(self) -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in self.root.rglob("*") if path.is_file()
        }


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Nothing is written there while it is read, it takes no time, and hardly any memory."""
    found = Place(tmp_path / "hostile.zarr")
    await aiozarr.create_array("memory://warm", shape=2, dtype="i4", overwrite=True)  # threads and imports are there
    peak, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()
    yield found
    assert process_time() - begun < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10 < BYTES


async def refused(place: Place, kind: Any, *selection: Any, settings: aiozarr.Settings | None = None) -> Any:
    """Open the array and read `array[selection]`; return the error of either. Nothing is written meanwhile."""
    before = place.files()
    with pytest.raises(kind) as raised:
        array = await aiozarr.open_array(place.root, settings=settings)
        await array[selection or ...]
    assert isinstance(raised.value, aiozarr.AiozarrError)
    assert place.files() == before
    return raised.value


# --- sizes ---------------------------------------------------------------------------------------------------------


async def test_a_chunk_of_terabytes_is_refused_before_it_is_allocated(place: Place) -> None:
    place.put("zarr.json", json.dumps(document(shape=[1 << 40], chunks=[1 << 40])).encode())
    place.put("c/0", b"\x28\xb5\x2f\xfd")
    error = await refused(place, aiozarr.LimitError, 5)
    assert (error.limit, error.value, error.allowed) == ("max_chunk_bytes", 4 << 40, 1 << 30)


async def test_one_inner_chunk_of_a_shard_of_terabytes_may_be_read(place: Place) -> None:
    described = document(shape=[1 << 40], chunks=[1 << 40], inner=[1 << 30])
    place.put("zarr.json", json.dumps(described).encode())
    error = await refused(place, aiozarr.LimitError, 5)
    assert error.limit == "max_chunk_bytes"
    described = document(shape=[1 << 40], chunks=[1 << 20], inner=[1 << 4])
    place.put("zarr.json", json.dumps(described).encode())
    assert (await (await aiozarr.open_array(place.root))[5]) == 0


@pytest.mark.parametrize("inner", [None, [1]], ids=["plain", "sharded"])
async def test_a_billion_chunks_are_refused_before_the_result_is_allocated(
    place: Place, inner: list[int] | None
) -> None:
    chunks = [1] if inner is None else [1000]
    place.put("zarr.json", json.dumps(document(shape=[10**9], chunks=chunks, inner=inner)).encode())
    error = await refused(place, aiozarr.LimitError)
    assert (error.limit, error.value, error.allowed) == ("max_chunks", 10**9, 10**8)
    array = await aiozarr.open_array(place.root, mode="r+")
    for operation in (
        lambda: array[...].write(1),
        lambda: anext(array[...].stream()),
        array[...].probe,
        lambda: aiozarr.read_many([array[...]]),
    ):
        with pytest.raises(aiozarr.LimitError, match="max_chunks"):
            await operation()
    assert array[...].plan().chunks == 10**9 // chunks[0]
    assert (await array[123_456_789:123_456_792]).tolist() == [0, 0, 0]


async def test_the_limit_of_chunks_is_a_setting(place: Place) -> None:
    place.put("zarr.json", json.dumps(document(shape=[8], chunks=[2])).encode())
    error = await refused(place, aiozarr.LimitError, settings=aiozarr.Settings(max_chunks=3))
    assert (error.limit, error.value, error.allowed) == ("max_chunks", 4, 3)
    array = await aiozarr.open_array(place.root, settings=aiozarr.Settings(max_chunks=3))
    assert (await array[:6]).tolist() == [0] * 6


@pytest.mark.parametrize("bits", [1 << 31, 1 << 34, 1 << 70])
async def test_raw_bits_of_gigabytes_are_refused(place: Place, bits: int) -> None:
    size = bits // 8
    fill = [] if size > 1 << 20 else [0] * size
    described = document(shape=[4], chunks=[4], dtype=f"r{bits}", fill_value=fill)
    place.put("zarr.json", json.dumps(described).encode())
    await refused(place, (aiozarr.MetadataError, aiozarr.LimitError), 0)


@pytest.mark.parametrize("depth", [5, 20, 200])
async def test_sharding_nested_deeply_is_refused(place: Place, depth: int) -> None:
    codecs: list[Any] = list(RAW)
    for _ in range(depth):
        configuration = {"chunk_shape": [2], "codecs": codecs, "index_codecs": RAW}
        codecs = [{"name": "sharding_indexed", "configuration": configuration}]
    place.put("zarr.json", json.dumps(document(shape=[8], chunks=[2], codecs=codecs)).encode())
    await refused(place, aiozarr.MetadataError)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["simplecache::memory:", "reference::file:", "s3:", "file:///etc/passwd", "memory://warm"]
)
async def test_locations_in_metadata_are_names_and_are_never_opened(place: Place, name: str) -> None:
    """H73: the node is looked for below its group, if its name is one at all."""
    array = document(shape=[2], chunks=[2], codecs=RAW)
    nodes = {"kind": "inline", "must_understand": False, "metadata": {name: array}}
    root = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": nodes}
    place.put("zarr.json", json.dumps(root).encode())
    if "//" in name:
        with pytest.raises(aiozarr.InvalidMetadataError):
            await aiozarr.open_group(place.root)
        return
    place.put(f"{name}/c/0", struct.pack("<2i", 7, 8))
    node = await (await aiozarr.open_group(place.root)).open(name)
    assert isinstance(node, aiozarr.Array)
    assert (await node[...]).tolist() == [7, 8]


# --- indexes -------------------------------------------------------------------------------------------------------

EMPTY = (1 << 64) - 1


def shard(entries: Sequence[tuple[int, int]], data: bytes, *, checksum: int | None = None) -> bytes:
    """Return a shard whose index, at its end, has these entries."""
    index = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    crc = google_crc32c.value(index) if checksum is None else checksum
    return data + index + struct.pack("<I", crc)


DATA = np.arange(4, dtype="<i4").tobytes()  # four inner chunks of one element
HONEST = [(0, 4), (4, 4), (8, 4), (12, 4)]


async def read_shard(place: Place, entries: Sequence[tuple[int, int]], **options: Any) -> Any:
    put_shard(place, entries, **options)
    return await (await aiozarr.open_array(place.root))[...]


def put_shard(place: Place, entries: Sequence[tuple[int, int]], *, codecs: Any = RAW, **options: Any) -> None:
    place.put("zarr.json", json.dumps(document(shape=[4], chunks=[4], inner=[1], codecs=codecs)).encode())
    place.put("c/0", shard(entries, DATA, **options))


async def test_an_honest_index_is_read(place: Place) -> None:
    assert (await read_shard(place, HONEST)).tolist() == [0, 1, 2, 3]
    assert (await read_shard(place, [*HONEST[:3], (EMPTY, EMPTY)])).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param((1 << 20, 4), id="h43-past-the-end"),
        pytest.param((4, 1 << 30), id="h43-length-past-the-end"),
        pytest.param((0, 1 << 62), id="h44-huge"),
        pytest.param((EMPTY - 1, 4), id="h45-wraps"),
        pytest.param((8, EMPTY - 3), id="h45-wraps-to-the-start"),
        pytest.param((EMPTY, 16), id="h46-half-empty-offset"),
        pytest.param((16, EMPTY), id="h46-half-empty-length"),
        pytest.param((16, 4), id="h48-into-the-index"),
        pytest.param((14, 4), id="h48-across-the-border-of-the-index"),
    ],
)
async def test_an_entry_of_an_index_that_cannot_be_is_a_codec_error_and_never_the_fill_value(
    place: Place, entry: tuple[int, int]
) -> None:
    put_shard(place, [*HONEST[:3], entry])
    error = await refused(place, aiozarr.CodecError)
    assert error.key == "c/0"
    assert error.store in str(error)


async def test_overlapping_entries_are_refused_when_strict_and_bounded_otherwise(place: Place) -> None:
    put_shard(place, [(0, 4), (2, 4), (8, 4), (12, 4)])
    error = await refused(place, aiozarr.CodecError, settings=aiozarr.Settings(strict=True))
    assert error.key == "c/0"
    array = await aiozarr.open_array(place.root)
    with aiozarr.record() as report:
        await array[...]
    assert report.bytes_fetched <= 2 * len(shard(HONEST, DATA))


async def test_a_wrong_checksum_of_an_index_is_a_checksum_error(place: Place) -> None:
    put_shard(place, HONEST, checksum=0)
    error = await refused(place, aiozarr.ChecksumError)
    assert (error.codec, error.key) == ("crc32c", "c/0")


async def test_many_entries_that_point_at_one_blob_are_refused(place: Place) -> None:
    count = 1 << 18
    described = document(shape=[count * 64], chunks=[count * 64], inner=[64], codecs=RAW, index_codecs=CHECKED)
    place.put("zarr.json", json.dumps(described).encode())
    index = struct.pack("<QQ", 0, 256) * count
    place.put("c/0", bytes(256) + index + struct.pack("<I", google_crc32c.value(index)))
    # Whatever is wanted of it: here, one element.
    error = await refused(place, aiozarr.CodecError, 5)
    assert error.key == "c/0"


async def test_an_index_larger_than_the_limit_is_refused_before_it_is_fetched(place: Place) -> None:
    described = document(shape=[1 << 30], chunks=[1 << 30], inner=[1 << 4])
    place.put("zarr.json", json.dumps(described).encode())
    place.put("c/0", b"x")
    with aiozarr.record() as report:
        error = await refused(place, aiozarr.LimitError, slice(0, 4))
    assert error.limit == "max_index_bytes"
    assert report.requests == 7  # for the documents of all formats
