"""What a read does when its store misbehaves, when it is cancelled, or when objects change under it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from aiozarr.errors import (
    ChecksumError,
    CodecError,
)
from aiozarr.model import Range, Supports
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, sample

CHECKED = [*RAW, {"name": "crc32c"}]


def quiet(store: FakeStore) -> bool:
    return store.in_flight == 0 and len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_a_chunk_of_the_wrong_size_is_a_codec_error_with_store_key_and_range(
    inner: tuple[int, int] | None,
) -> None:
    array, store, reader = await sample((4, 4), (4, 4), inner=inner)
    if inner is None:
        store.memory.set_now("a/c/0/0", b"123")
    else:
        data = bytearray(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
        # The length of the first inner chunk, then the checksum of the index made to fit.
        import google_crc32c

        start = len(data) - (4 * 16 + 4)
        data[start + 8 : start + 16] = (15).to_bytes(8, "little")
        data[-4:] = google_crc32c.value(bytes(data[start:-4])).to_bytes(4, "little")
        store.memory.set_now("a/c/0/0", data)
    with pytest.raises(CodecError) as raised:
        await reader.read([array.read(...)], settings=SETTINGS)
    assert (raised.value.store, raised.value.key) == (store.url, "a/c/0/0")
    assert raised.value.range == (None if inner is None else Range(0, 15))
    assert quiet(store)


@in_virtual_time
async def test_a_damaged_chunk_is_fetched_once_more() -> None:
    array, store, reader = await sample((4, 2), (1, 2), codecs=CHECKED)
    good = bytes(store.memory.fetch_now("a/c/2/0").data)  # type: ignore[union-attr]  # it is stored
    store.memory.set_now("a/c/2/0", bytes([good[0] ^ 1]) + good[1:])
    with pytest.raises(ChecksumError) as raised:
        await reader.read([array.read(...)], settings=SETTINGS)
    assert raised.value.key == "a/c/2/0"
    assert [key for key, _ in store.log()].count("a/c/2/0") == 2
    store.reset()

    def mend(call: object) -> None:
        if store.count >= 4:
            store.memory.set_now("a/c/2/0", good)

    store.faults = mend
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values)


@in_virtual_time
async def test_a_store_that_is_read_only_and_unconditional_is_read() -> None:
    array, store, reader = await sample((8, 8), (4, 4), inner=(2, 2))
    store.supports = Supports(readable=True)
    read = array.read(slice(None), 0)
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values[:, 0])
