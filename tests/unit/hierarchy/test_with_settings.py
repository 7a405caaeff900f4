"""`with_settings`: another handle of the same array, with other settings, on the same store."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import LocalStore
from aiozarr.testing.fakes import FakeStore

VALUES = np.arange(8, dtype="i4")


async def stored(store: Any) -> aiozarr.Array:
    return await aiozarr.create_array(store, "a", data=VALUES, chunks=4, attributes={"n": 1})


async def test_the_new_handle_has_the_changes_and_the_rest_of_the_settings_and_makes_no_request() -> None:
    store = FakeStore()
    await stored(store)
    array = await aiozarr.open_array(store, "a", settings=aiozarr.Settings(retries=1))
    calls = len(store.calls)
    other = array.with_settings(timeout=2, missing_chunks="raise")
    assert other.settings == aiozarr.Settings(retries=1, timeout=2, missing_chunks="raise")
    assert array.settings == aiozarr.Settings(retries=1)
    assert len(store.calls) == calls
    assert (other.store, other.url, other.attrs, other.read_only) == (array.store, array.url, array.attrs, True)


async def test_each_handle_reads_by_its_own_settings() -> None:
    store = FakeStore()
    array = await stored(store)
    await store.erase("a/c/1")
    assert (await array[...]).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    with pytest.raises(aiozarr.MissingChunkError):
        await array.with_settings(missing_chunks="raise")[...]
    with pytest.raises(aiozarr.LimitError, match="max_chunks"):
        await array.with_settings(max_chunks=1)[...]


async def test_the_handles_see_changes_as_any_two_handles_of_one_array_do() -> None:
    array = await stored(FakeStore())
    other = array.with_settings(timeout=5)
    await other.resize(4)
    assert (other.shape, array.shape) == ((4,), (8,))
    assert await array.refresh()
    assert array.shape == (4,)
    await array.append([7])
    await other.refresh()
    assert (await other[...]).tolist() == [0, 1, 2, 3, 7]
    assert other.settings.timeout == 5


async def test_closing_the_new_handle_leaves_the_store_of_the_first_one_open(tmp_path: Path) -> None:
    await stored(LocalStore(tmp_path))
    async with aiozarr.open_array(tmp_path, "a") as array:
        closed: list[bool] = []

        async def close() -> None:
            closed.append(True)

        array.store.aclose = close  # type: ignore[method-assign]  # counts the calls
        async with array.with_settings(retries=0) as other:
            assert (await other[...]).tolist() == VALUES.tolist()
        assert not closed
        assert (await array[...]).tolist() == VALUES.tolist()
    assert closed
    del array.store.aclose  # type: ignore[method-assign]  # of the class again


def test_the_settings_and_transformers_survive_pickling_and_blocking(tmp_path: Path) -> None:
    array = aiozarr.sync.create_array(tmp_path, "a", data=VALUES, chunks=4).with_settings(retries=2)
    copied = pickle.loads(pickle.dumps(array))
    assert isinstance(copied, aiozarr.sync.Array)
    assert copied.settings == array.settings == aiozarr.Settings(retries=2)
    assert np.array_equal(copied[...], VALUES)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"timeouts": 2}, TypeError, "unknown setting 'timeouts'; did you mean 'timeout'"),
        ({"timeout": 0}, ValueError, r"Settings\.timeout"),
        ({"fsync": True}, ValueError, r"fsync is fixed when a store is opened; open the array again with .*fsync=True"),
        ({"idle_timeout": 3.0}, ValueError, "idle_timeout is fixed"),
    ],
)
async def test_changes_that_are_wrong_or_would_have_no_effect_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    array = await stored(FakeStore())
    with pytest.raises(error, match=message):
        array.with_settings(**changes)
    assert array.with_settings(fsync=False, idle_timeout=20.0).settings == array.settings
