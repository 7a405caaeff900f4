"""A source that changes while it is copied: the copy is of one state, or says that it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.model import ByteRange, Entry, Value, Version
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.stores.wrapper_store import WrapperStore, entries_of
from aiozarr.transfer import document_changes
from tests.support.servers.http_server import FaultServer

Change = Callable[[Store], Awaitable[None]]
LENGTH = 12


class ChangingStore(WrapperStore):
    """A store that changes after some chunks have been read, or some entries listed.

    Args:
        store: the store.
        change: makes the change.
        reads: how many chunks are read before it; None: the change follows the entry number `entries` of a listing.
        entries: how many entries are listed before it.
        turns: how many times it is made, at each further read or listing.
        versions: whether listings have versions.
    """

    def __init__(
        self,
        store: Store,
        change: Change,
        *,
        reads: int | None = None,
        entries: int | None = None,
        turns: int = 1,
        versions: bool = True,
    ) -> None:
        super().__init__(store)
        self._change, self._reads, self._entries, self._turns = change, reads, entries, turns
        self._versions = versions
        self._lock = asyncio.Lock()

    async def _turn(self) -> None:
        async with self._lock:
            if self._turns:
                self._turns -= 1
                await self._change(self.store)

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        value = await super().fetch(key, range, if_match=if_match, max_bytes=max_bytes)
        if self._reads is not None and not key.endswith(("zarr.json", ".zarray", ".zattrs", ".zgroup")):
            self._reads -= 1
            if self._reads <= 0:
                await self._turn()
        if value is None or self._versions:
            return value
        return Value(value.data, None, value.size)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        number, last = 0, ""
        while page := await self._page(prefix, last):
            for entry in page:
                if number == self._entries:
                    await self._turn()
                number, last = number + 1, entry.key
                yield entry if self._versions else Entry(entry.key, entry.size)

    async def _page(self, prefix: str, last: str) -> list[Entry]:
        """Return the objects behind a key as they are now, as a server lists them."""
        async with entries_of(self.store, prefix) as entries:
            listed = sorted([entry async for entry in entries], key=lambda entry: entry.key)
        return [entry for entry in listed if entry.key > last][: document_changes.PAGE_ENTRIES]


def rows(start: int, stop: int, dtype: str = "f8") -> Any:
    return np.arange(start + 1, stop + 1).astype(dtype)


async def append(store: Store) -> None:
    array = await aiozarr.open_array(store, "a", mode="r+")
    await array.append(rows(array.shape[0], array.shape[0] + 3))


async def append_document_first(store: Store) -> None:
    """Append as zarr-python does: the larger shape first, and then the chunks."""
    array = await aiozarr.open_array(store, "a", mode="r+")
    length = array.shape[0]
    await array.resize((length + 3,))
    await asyncio.sleep(0)
    await array[length:].write(rows(length, length + 3))


async def replace(store: Store) -> None:
    zarr_format = (await aiozarr.open_array(store, "a")).zarr_format
    data = rows(0, LENGTH, "i4")
    await aiozarr.create_array(store, "a", data=data, chunks=(2,), zarr_format=zarr_format, overwrite=True)


async def shrink(store: Store) -> None:
    array = await aiozarr.open_array(store, "a", mode="r+")
    await array.resize((4,))


async def filled(store: Store, zarr_format: int = 3) -> Store:
    await aiozarr.create_group(store, zarr_format=zarr_format)
    data = rows(0, LENGTH)
    await aiozarr.create_array(store, "a", data=data, chunks=(2,), fill_value=0, zarr_format=zarr_format)
    return store


async def assert_one_state(destination: Store | Path, *, consolidated: bool = False) -> int:
    array = await aiozarr.open_array(destination, "a")
    values = await array[...]
    assert values.tolist() == rows(0, len(values)).tolist()
    if consolidated:
        group = await aiozarr.open_group(destination)
        assert group.metadata.consolidated is not None
        [(_, member)] = [each async for each in group.members()]
        assert member.shape == array.shape  # type: ignore[union-attr]
    return len(values)


@pytest.mark.parametrize("change", [append, append_document_first, replace])
@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("when", [{"reads": 1}, {"reads": LENGTH // 2}, {"entries": 3}], ids=str)
async def test_a_copy_of_a_source_that_changes_is_of_one_state(
    change: Change, versions: bool, zarr_format: int, when: dict[str, int]
) -> None:
    source = ChangingStore(await filled(MemoryStore(), zarr_format), change, versions=versions, **when)
    destination = MemoryStore()
    await aiozarr.copy(source, destination)
    assert await assert_one_state(destination) in (LENGTH, LENGTH + 3)
    assert not set(await destination.list()) - set(await source.list())


@pytest.mark.parametrize("change", [append, append_document_first])
@pytest.mark.parametrize("consolidated", [True, False])
async def test_a_source_that_always_grows_is_copied_in_an_earlier_state(change: Change, consolidated: bool) -> None:
    inner = await filled(MemoryStore())
    if consolidated:
        await aiozarr.consolidate_metadata(inner)
    source = ChangingStore(inner, change, reads=2, turns=1000)
    destination = MemoryStore()
    report = await aiozarr.copy(source, destination)
    length = await assert_one_state(destination, consolidated=consolidated)
    assert LENGTH <= length < (await aiozarr.open_array(inner, "a")).shape[0]
    assert "a/zarr.json" in report.changed


class ChangingBetween(WrapperStore):
    """A store that changes before the operation number `number`, and before every one of the next `turns` after it."""

    def __init__(self, store: Store, change: Change, number: int, turns: int) -> None:
        super().__init__(store)
        self._change, self._number, self._turns = change, number, turns
        self._lock = asyncio.Lock()

    async def _around(self, operation: Any, call: Callable[[], Awaitable[Any]]) -> Any:
        async with self._lock:
            self._number -= 1
            if self._number < 0 < self._turns:
                self._turns -= 1
                await self._change(self.store)
        return await call()


@pytest.mark.parametrize("change", [append, replace])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("turns", [1, 4])
async def test_copied_consolidated_metadata_are_those_of_the_copied_arrays(
    change: Change, zarr_format: int, turns: int
) -> None:
    for number in range(20):
        inner = await filled(MemoryStore(), zarr_format)
        await aiozarr.consolidate_metadata(inner)
        destination = MemoryStore()
        await aiozarr.copy(ChangingBetween(inner, change, number, turns), destination)
        group = await aiozarr.open_group(destination)
        assert group.metadata.consolidated is not None
        array, own = await group.open("a"), await aiozarr.open_array(destination, "a")
        assert isinstance(array, aiozarr.Array)
        assert (array.shape, array.dtype) == (own.shape, own.dtype), number
        assert (await array[...]).tolist() == rows(0, array.shape[0]).tolist()


async def test_a_source_that_is_always_replaced_is_an_error_and_leaves_no_node() -> None:
    lengths = iter(range(LENGTH, 1000))

    async def replace_again(store: Store) -> None:
        dtype = f"i{2 ** (next(lengths) % 4)}"
        await aiozarr.create_array(store, "a", data=np.ones(LENGTH, dtype), chunks=(2,), overwrite=True)

    source = ChangingStore(await filled(MemoryStore()), replace_again, reads=2, turns=1000)
    destination = MemoryStore()
    with pytest.raises(aiozarr.CopyError, match=r"'a/|'zarr.json'"):
        await aiozarr.copy(source, destination)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open_array(destination, "a")


async def test_a_source_that_shrinks_is_copied_again_or_an_error() -> None:
    source = ChangingStore(await filled(MemoryStore()), shrink, reads=2)
    destination = MemoryStore()
    try:
        await aiozarr.copy(source, destination)
    except aiozarr.CopyError:
        await aiozarr.copy(source, destination, resume=True)
    assert await assert_one_state(destination) == 4


@pytest.mark.parametrize("mirror", [True, False])
async def test_a_mirror_does_not_keep_its_document_for_chunks_of_another_array(mirror: bool) -> None:
    inner, destination = await filled(MemoryStore()), MemoryStore()
    await aiozarr.copy(inner, destination)
    array = await aiozarr.open_array(inner, "a", mode="r+")
    await array[:2].write([7.0, 8.0])  # one chunk differs, and the documents are equal
    how: dict[str, Any] = {"delete": True} if mirror else {"overwrite": True, "skip_equal": True}
    await aiozarr.copy(ChangingStore(inner, replace, reads=1), destination, **how)
    assert await assert_one_state(destination) == LENGTH


@pytest.mark.parametrize("change", [append, replace])
async def test_files_that_change_are_copied_in_one_state(tmp_path: Path, change: Change) -> None:
    store = await filled(LocalStore(tmp_path / "source"))
    changed: list[None] = []

    async def make_change() -> None:
        await change(store)

    def progress(state: aiozarr.Progress) -> None:
        if not changed:
            changed.append(None)
            with ThreadPoolExecutor() as pool:
                pool.submit(lambda: asyncio.run(make_change())).result()

    report = await aiozarr.copy(store, tmp_path / "copy", progress=progress)
    assert await assert_one_state(tmp_path / "copy") in (LENGTH, LENGTH + 3)
    assert not report.failed


@pytest.mark.parametrize("place", [0, 3, 6, 9, 12])
async def test_an_array_on_several_pages_of_a_listing_has_all_its_chunks(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(document_changes, "PAGE_ENTRIES", 2)

    async def prepend(store: Store) -> None:
        """Append chunks whose keys were passed by the listing already."""
        array = await aiozarr.open_array(store, "a", mode="r+")
        await array.append(rows(LENGTH, 2 * LENGTH + 2))

    source = ChangingStore(await filled(MemoryStore()), prepend, entries=place)
    destination = MemoryStore()
    await aiozarr.copy(source, destination)
    assert await assert_one_state(destination) in (LENGTH, 2 * LENGTH + 2)


async def test_a_copy_without_changes_reads_each_document_once() -> None:
    inner = await filled(MemoryStore())
    calls: list[str] = []

    class Counting(WrapperStore):
        async def fetch(self, key: str, *args: Any, **options: Any) -> Value | None:
            calls.append(key)
            return await super().fetch(key, *args, **options)

        async def stat(self, key: str) -> Entry | None:
            calls.append(key)
            return await super().stat(key)

    await aiozarr.copy(Counting(inner), MemoryStore())
    assert sorted(calls) == sorted(await inner.list())


@pytest.mark.parametrize("path", ["", "a"])
async def test_a_web_server_with_old_consolidated_metadata_is_copied_whole(path: str) -> None:
    store = await filled(MemoryStore())
    await aiozarr.consolidate_metadata(store)
    root = await store.get("zarr.json")
    await append(store)
    await store.set("zarr.json", bytes(root or b""))
    with FaultServer() as server:
        for key in await store.list():
            server.put(key, bytes(await store.get(key) or b""))
        destination = MemoryStore()
        await aiozarr.copy(f"{server.url}/{path}", destination)
    array = await aiozarr.open_array(destination, "" if path else "a")
    assert (await array[...]).tolist() == rows(0, LENGTH + 3).tolist()
