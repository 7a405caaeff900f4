"""What an operation that has failed leaves in memory, once its error is forgotten."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.errors import StoreError
from aiozarr.testing.fakes import FakeStore


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
def test_so_they_do_behind_the_blocking_names(operation: str) -> None:
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
