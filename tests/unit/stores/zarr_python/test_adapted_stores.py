"""zarr-python's stores as stores of the engine: ranges, versions, and the loop that they are asked on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, cpu
from zarr.storage import LoggingStore, MemoryStore, WrapperStore

from aiozarr.errors import ChangedError, LimitError, PreconditionFailedError
from aiozarr.model import IfAbsent, IfMatch, Range, Suffix
from aiozarr.stores.contract import Store
from aiozarr.stores.zarr_python_store import AdaptedStore, BufferStore, byte_request


def stores() -> list[Store]:
    loop = asyncio.get_running_loop()
    return [AdaptedStore(LoggingStore(MemoryStore(), log_level="CRITICAL"), loop), BufferStore({})]


async def test_values_and_ranges_are_read_back() -> None:
    for store in stores():
        assert await store.get("a") is None
        await store.set("a", bytearray(b"0123456789"))
        for wanted, data in (
            (None, b"0123456789"),
            (Range(2, 3), b"234"),
            (Range(7, None), b"789"),
            (Suffix(2), b"89"),
        ):
            value = await store.fetch("a", wanted)
            assert value is not None
            assert bytes(value.data) == data
        whole = await store.fetch("a")
        assert whole is not None
        assert whole.size == 10
        await store.erase("a")
        await store.erase("a")
        assert await store.get("a") is None


async def test_a_stored_value_does_not_share_memory_with_the_callers() -> None:
    for store in stores():
        data = bytearray(b"before")
        await store.set("a", data)
        data[:] = b"after!"
        assert bytes(await store.get("a") or b"") == b"before"


async def test_a_store_is_asked_on_the_loop_that_it_belongs_to() -> None:
    threads = set()

    class Own(LoggingStore):
        async def get(self, *args: Any, **options: Any) -> Any:
            threads.add(threading.get_ident())
            return await super().get(*args, **options)

    store = AdaptedStore(Own(MemoryStore(), log_level="CRITICAL"), asyncio.get_running_loop())
    await asyncio.to_thread(lambda: asyncio.run(store.get("a")))
    assert threads == {threading.get_ident()}


def test_versions_change_with_each_write_and_guard_it() -> None:
    values: dict[str, Any] = {"a": cpu.Buffer.from_bytes(b"1")}
    store = BufferStore(values)
    first = store.fetch_now("a")
    assert first is not None
    assert first.version is not None
    again = BufferStore(values).fetch_now("a", if_match=first.version)
    assert again is not None
    assert again.version == first.version
    values["a"] = cpu.Buffer.from_bytes(b"2")
    with pytest.raises(ChangedError):
        store.fetch_now("a", if_match=first.version)
    with pytest.raises(PreconditionFailedError):
        store.set_now("a", b"3", precondition=IfMatch(first.version))
    with pytest.raises(PreconditionFailedError):
        store.set_now("a", b"3", precondition=IfAbsent())
    current = store.fetch_now("a")
    assert current is not None
    assert current.version is not None
    written = store.set_now("a", b"3", precondition=IfMatch(current.version))
    store.erase_now("a")
    with pytest.raises(PreconditionFailedError):
        store.set_now("a", b"4", precondition=IfMatch(written))
    store.set_now("a", b"4", precondition=IfAbsent())
    assert values["a"].to_bytes() == b"4"


def test_a_value_larger_than_expected_is_refused() -> None:
    store = BufferStore({"a": cpu.Buffer.from_bytes(b"12345")})
    with pytest.raises(LimitError):
        store.fetch_now("a", max_bytes=4)
    assert store.fetch_now("a", max_bytes=5) is not None


def test_ranges_are_translated() -> None:
    assert byte_request(None) is None
    assert byte_request(Range(2, 3)) == RangeByteRequest(2, 5)
    assert byte_request(Range(2, None)) == OffsetByteRequest(2)
    assert byte_request(Suffix(4)) == SuffixByteRequest(4)


async def test_stores_name_themselves() -> None:
    adapted, values = stores()
    assert adapted.url.startswith("logging-memory://")
    assert values.url.startswith("memory://")
    assert adapted.identity != values.identity


class StrictStore(WrapperStore[MemoryStore]):
    """Refuses ranges that end beyond a value, as stores of virtual references do."""

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        found = await self._store.get(key, prototype)
        if found is not None and isinstance(byte_range, RangeByteRequest) and byte_range.end > len(found):
            raise ValueError(f"byte range {byte_range} is out of bounds for a value of {len(found)} bytes")
        return await self._store.get(key, prototype, byte_range)


@pytest.mark.parametrize("compressors", ["auto", None])
def test_a_store_that_refuses_ranges_beyond_the_end_gives_whole_and_sparse_shards(compressors: Any) -> None:
    stored = MemoryStore()
    array = zarr.create_array(
        stored, shape=(200, 200), chunks=(10, 10), shards=(100, 100), dtype="i4", compressors=compressors
    )
    values = np.arange(40000, dtype="i4").reshape(200, 200)
    values[100:, 30:] = 0
    array[...] = values
    read = zarr.open_array(StrictStore(stored), mode="r")
    assert np.array_equal(read[...], values)  # type: ignore[arg-type]
    assert np.array_equal(read[3, 150:], values[3, 150:])  # type: ignore[arg-type]
    assert np.array_equal(read[150, :40], values[150, :40])  # type: ignore[arg-type]
