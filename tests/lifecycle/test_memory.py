"""What an operation leaves in memory once its result, or its error, is forgotten."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Spoil
from tests.support.servers.http_server import FaultServer


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


BIG = 1 << 19  # chunks of this size are neither read in the caller's thread nor in one batch


@pytest.mark.parametrize("where", ["local", "memory", "http"])
@pytest.mark.parametrize("shards", [None, (4, BIG)])
@pytest.mark.parametrize(
    "selection", [np.s_[0], np.s_[0, ::64], np.s_[:], np.s_[1:3, 5:-5]], ids=["chunk", "part", "all", "cut"]
)
async def test_a_read_leaves_nothing_to_the_garbage_collector(
    tmp_path: Path, where: str, shards: tuple[int, int] | None, selection: Any
) -> None:
    store: Any = MemoryStore() if where == "memory" else tmp_path / "a.zarr"
    made = await aiozarr.create_array(
        store, data=np.ones((4, BIG), "u1"), chunks=(1, BIG), shards=shards, codecs=["gzip"]
    )
    files = files_below(tmp_path)
    with FaultServer(files) as server:
        array = await aiozarr.open_array(f"{server.url}/a.zarr") if where == "http" else made
        await array[selection]  # what the first read learns is kept
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await array[selection]
            sync.open_array(store)[selection] if where == "local" else None
            await asyncio.sleep(0.01)
            gc.collect()
            left = [kept for kept in gc.garbage if isinstance(kept, np.ndarray | bytes | bytearray | memoryview)]
            left += [kept for kept in gc.garbage if type(kept).__module__.startswith("aiozarr.engine")]
            assert left == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


class Broken(FakeStore):
    """Fails all requests for chunks once `broken` is set."""

    broken = False

    async def fetch(self, key: str, *args: Any, **keywords: Any) -> Any:
        self._check(key)
        return await super().fetch(key, *args, **keywords)

    async def set(self, key: str, *args: Any, **keywords: Any) -> Any:
        self._check(key)
        return await super().set(key, *args, **keywords)

    def _check(self, key: str) -> None:
        if self.broken and "c/" in key:
            raise StoreError("no", key=key)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_gone(reference: Callable[[], object]) -> bool:
    """Whether the object goes; the threads that had it let go of it a moment after its caller goes on."""
    deadline = time.monotonic() + 5
    while reference() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    return reference() is None


SELECTIONS = [np.s_[:], np.s_[1:3, 1:3]]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("shards", [None, (4, 4)])
@pytest.mark.parametrize("selection", SELECTIONS, ids=["whole", "part"])
@pytest.mark.parametrize("operation", ["read", "write"])
async def test_arrays_of_a_failed_operation_go_without_the_garbage_collector(
    operation: str, selection: Any, shards: tuple[int, int] | None
) -> None:
    store = Broken(latency=0)
    array = await aiozarr.create_array(store, shape=(8, 8), dtype="i4", chunks=(2, 2), shards=shards)
    await array[...].write(1)
    store.broken = True
    view = array[selection]
    values = np.full(view.shape, 2, "i4")
    reference = weakref.ref(values)
    with pytest.raises(StoreError):
        await (view.read(out=values) if operation == "read" else view.write(values))
    del values
    # The loop still holds what has woken this task.
    await asyncio.sleep(0)
    assert is_gone(reference)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("operation", ["read", "write"])
def test_many_blocking_reads_fetch_and_decode_each_chunk_once(operation: str) -> None:
    store = Broken(latency=0)
    array = sync.create_array(store, shape=(8, 8), dtype="i4", chunks=(2, 2))
    array[...] = 1
    store.broken = True
    values = np.full((8, 8), 2, "i4")
    reference = weakref.ref(values)
    with pytest.raises(StoreError):
        if operation == "read":
            array.view[...].read(out=values)
        else:
            array[...] = values
    del values
    assert is_gone(reference)


def damaged(reply: Reply) -> Reply:
    return replace(reply, body=b"\xff" * len(reply.body))


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("prompt", [False, True], ids=["by a new connection", "at once"])
@pytest.mark.parametrize("shards", [None, (4,)])
@pytest.mark.parametrize(
    ("change", "timeout"),
    [
        (spoil.reset, None),
        (spoil.truncated(2), None),
        (spoil.status(403), None),
        (spoil.status(503), None),
        (spoil.delayed(0.3), 0.1),
        (damaged, None),
    ],
    ids=["reset", "truncated", "refused", "busy", "late", "damaged"],
)
async def test_an_error_of_the_network_is_gone_when_it_is_forgotten(
    change: Spoil, timeout: float | None, shards: tuple[int] | None, prompt: bool
) -> None:
    settings = aiozarr.Settings(retries=1, retry_seconds=0.01, timeout=timeout, index_cache_bytes=0)
    memory = MemoryStore()
    made = await aiozarr.create_array(memory, "a", shape=(8,), dtype="uint8", chunks=(2,), shards=shards)
    await made[...].write(np.arange(8, dtype="uint8"))
    values = {key: bytes(await memory.get(key) or b"") for key in await memory.list()}
    with FaultServer(values) as server:
        array = await aiozarr.open_array(f"{server.url}/a", settings=settings)
        if prompt:
            assert np.array_equal(await array[...], np.arange(8))
        server.script = spoil.when(lambda request: "/c/" in request.key, change)

        async def fail() -> weakref.ref[BaseException]:
            try:
                await array[...]
            except aiozarr.AiozarrError as error:
                return weakref.ref(error)
            raise AssertionError

        reference = await fail()
        for _ in range(500):  # this loop has a part in what goes on behind an error, too
            if reference() is None:
                break
            await asyncio.sleep(0.01)
        assert reference() is None
        await array.aclose()
