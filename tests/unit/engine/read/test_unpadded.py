"""Chunks at the array's end that some writers store without what lies behind the end."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore

DATA = np.arange(70, dtype="i4").reshape(10, 7)
STORES = [MemoryStore, FakeStore]
CODECS: list[list[Any]] = [
    ["bytes"],
    ["bytes", "gzip"],
    ["bytes", "crc32c"],
    [{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes", "zstd"],
]
stores = pytest.mark.parametrize("kind", STORES)


async def unpadded(kind: Any, codecs: list[Any], **settings: Any) -> aiozarr.Array:
    """An array of chunks (4, 4) whose chunks at the end were stored as they lie inside."""
    store = kind()
    options: dict[str, Any] = {"dtype": "i4", "codecs": codecs, "fill_value": 9}
    array = await aiozarr.create_array(
        store, "a", shape=DATA.shape, chunks=(4, 4), settings=aiozarr.Settings(**settings), **options
    )
    for row in range(3):
        for column in range(2):
            part = DATA[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            other = await aiozarr.create_array(MemoryStore(), shape=part.shape, chunks=part.shape, **options)
            await other[...].write(part)
            value = await other.store.get("c/0/0")
            assert value is not None
            await store.set(f"a/c/{row}/{column}", value)
    return array


@stores
@pytest.mark.parametrize("codecs", CODECS, ids=str)
async def test_they_are_read(kind: Any, codecs: list[Any]) -> None:
    array = await unpadded(kind, codecs)
    assert np.array_equal(await array[...], DATA)
    assert np.array_equal(await array[::-3, 5], DATA[::-3, 5])
    assert await array[9, 6] == DATA[9, 6]
    async for region, block in array[1:, ::2].stream():
        assert np.array_equal(block, DATA[1:, ::2][region])


@stores
@pytest.mark.parametrize("codecs", CODECS, ids=str)
async def test_one_that_is_changed_is_stored_whole(kind: Any, codecs: list[Any]) -> None:
    array = await unpadded(kind, codecs)
    expected = DATA.copy()
    expected[9, 2:6] = -1
    await array[9, 2:6].write(-1)
    assert np.array_equal(await array[...], expected)
    strict = await aiozarr.open_array(array.store, "a", settings=aiozarr.Settings(strict=True))
    assert np.array_equal(await strict[9, :], expected[9])
    await array.resize((12, 7), clear=True)
    assert (await array[10:] == 9).all()


@stores
async def test_they_are_refused_where_settings_are_strict(kind: Any) -> None:
    array = await unpadded(kind, ["bytes", "gzip"], strict=True)
    assert np.array_equal(await array[:8, :4], DATA[:8, :4])
    with pytest.raises(aiozarr.CodecError) as caught:
        await array[...]
    assert caught.value.key is not None


@stores
async def test_other_sizes_are_errors_still(kind: Any) -> None:
    array = await unpadded(kind, ["bytes", "gzip"])
    for key, size in (("a/c/2/1", 25), ("a/c/0/0", 24), ("a/c/2/0", 64 * 4)):
        good = await array.store.get(key)
        assert good is not None
        await array.store.set(key, gzip.compress(bytes(size)))
        with pytest.raises(aiozarr.CodecError, match="bytes"):
            await array[...]
        with pytest.raises(aiozarr.CodecError, match="bytes"):
            await array[::3, ::2].write(1)
        await array.store.set(key, good)


@stores
async def test_a_checksum_that_does_not_match_is_no_question_of_size(kind: Any) -> None:
    array = await unpadded(kind, ["bytes", "crc32c"])
    await array.store.set("a/c/2/1", bytes(24) + b"oops")
    with pytest.raises(aiozarr.ChecksumError):
        await array[...]
