"""Every durable change: bytes are flushed before they get their name, and names before the change returns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import LocalStore, ZipStore
from tests.support.faulty_disk import FlushRecorder, recorded_flushes
from tests.support.rounds import chance_of, rounds
from tests.support.tree_changes import CHANGES, make

DURABLE = aiozarr.Settings(fsync=True)


def check(recorder: FlushRecorder) -> None:
    assert recorder.flushes
    assert not recorder.mistakes
    assert not recorder.directories


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_lost_once_a_durable_change_has_returned(
    request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    async def run(zarr_format: int) -> None:
        folder = tmp_path / str(zarr_format)
        await make(folder, zarr_format)
        with recorded_flushes() as recorder:
            await CHANGES[name].run(folder, DURABLE)
        check(recorder)

    for zarr_format in chance_of(request).sample((2, 3), min(2, rounds(1))):
        asyncio.run(run(zarr_format))


def test_nothing_is_flushed_unless_it_is_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        with recorded_flushes() as recorder:
            await make(tmp_path, 3)
        assert not recorder.flushes

    asyncio.run(run())


def test_prefixes_that_are_erased_durably_do_not_come_back(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path / "x", fsync=True)
        for key in ("a/b/1", "a/b/2", "a/c", "d/e", "f"):
            await store.set(key, b"1")
        (tmp_path / "link").symlink_to(tmp_path)
        (tmp_path / "x" / "link").symlink_to(tmp_path)
        for prefix in ("a/", "link/", ""):
            with recorded_flushes() as recorder:
                await store.erase_prefix(prefix)
            check(recorder)
        assert await store.list() == []

    asyncio.run(run())


def test_a_durable_archive_is_flushed_with_the_directories_that_it_needs(tmp_path: Path) -> None:
    async def run() -> None:
        for values in (np.arange(4), np.arange(8)):
            with recorded_flushes() as recorder:
                async with ZipStore(tmp_path / "a" / "b" / "x.zip", mode="a", fsync=True) as store:
                    await aiozarr.create_array(store, data=values, overwrite=True)
            check(recorder)

    asyncio.run(run())
