"""A failing read through an fsspec file system is neither a missing value nor a wrong one."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import numpy as np
import pytest
from fsspec.implementations.tar import TarFileSystem

import aiozarr
from aiozarr.errors import PermissionDeniedError, StoreError
from aiozarr.model import Range, Suffix
from aiozarr.stores import MemoryStore
from aiozarr.stores.fsspec.store import FsspecStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

FAULTS: dict[str, tuple[spoil.Spoil, bool]] = {
    "500": (spoil.status(500), True),
    "403": (spoil.status(403), False),
    "cut": (spoil.truncated(3), True),
    "reset": (spoil.reset, True),
}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        running.put("x/a", b"0123456789")
        yield running


def store_of(server: FaultServer) -> FsspecStore:
    return FsspecStore(f"{server.url}/x", skip_instance_cache=True)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failure_is_an_error_and_a_later_read_succeeds(fault: str, server: FaultServer) -> None:
    store = store_of(server)
    how, retryable = FAULTS[fault]
    server.script = spoil.always(how)
    for wanted in (None, Range(5)):
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                await store.fetch("a", wanted)
            assert isinstance(caught.value, PermissionDeniedError) is (fault == "403")
            assert caught.value.retryable is retryable
    if fault != "cut":
        for operation in (store.stat, store.exists):
            with pytest.raises(StoreError):
                await operation("a")
    server.script = spoil.always(lambda reply: reply)
    assert await store.get("a") == b"0123456789"
    value = await store.fetch("a", Range(2, 3))
    assert value is not None
    assert bytes(value.data) == b"234"


async def test_an_unreachable_server_is_not_a_missing_value() -> None:
    with FaultServer() as gone:
        store = store_of(gone)
    for operation in (store.get, store.stat, store.exists):
        with pytest.raises(StoreError) as caught:
            await operation("a")
        assert caught.value.retryable


async def test_stored_keys_are_found_and_others_are_missing(server: FaultServer) -> None:
    store = store_of(server)
    server.put("x/a b%20", b"0123456789")
    every = b"0123456789"
    assert await store.get("a b%20") == every
    for wanted, found in ((None, every), (Range(2, 3), b"234"), (Range(0, 1 << 27), every), (Suffix(2), b"89")):
        value = await store.fetch("a", wanted)
        assert value is not None
        assert bytes(value.data) == found
        assert await store.fetch("b", wanted) is None
    entry = await store.stat("a")
    assert entry is not None
    assert entry.size == 10
    assert await store.stat("b") is None


async def test_chunks_that_cannot_be_had_are_not_read_as_fill_values(server: FaultServer) -> None:
    memory = MemoryStore()
    made = await aiozarr.create_array(memory, shape=4, chunks=2, dtype="i4", fill_value=7)
    await made[...].write(np.arange(4))
    async for entry in memory.scan():
        server.put(f"x/{entry.key}", bytes(await memory.get(entry.key) or b""))
    array = await aiozarr.open_array(store_of(server), settings=aiozarr.Settings(retries=1))
    server.script = spoil.always(spoil.status(500))
    with pytest.raises(StoreError):
        await array[...]
    server.script = spoil.always(lambda reply: reply)
    assert (await array[...]).tolist() == [0, 1, 2, 3]


async def test_without_its_archive_no_value_is_known_to_be_missing(server: FaultServer) -> None:
    store = FsspecStore(f"tar::{server.url}/nothing.tar")
    for operation in (store.get, store.stat):
        with pytest.raises(StoreError, match="not found"):
            await operation("a")


class Going(io.BytesIO):
    """An archive that is gone after it has been opened."""

    gone = False

    def read(self, size: int | None = -1) -> bytes:
        if self.gone:
            raise FileNotFoundError("archive")
        return super().read(size)


async def test_members_in_the_index_of_an_archive_are_not_missing() -> None:
    file = Going()
    with tarfile.open(fileobj=file, mode="w") as tar:
        member = tarfile.TarInfo("a")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"0123"))
    file.seek(0)
    store = FsspecStore(TarFileSystem(file), path="")  # pyright: ignore[reportArgumentType]
    assert await store.get("a") == b"0123"
    assert await store.get("b") is None
    file.gone = True
    with pytest.raises(StoreError, match="not found"):
        await store.get("a")
    assert await store.get("b") is None
