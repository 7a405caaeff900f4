"""Faults of the local disk that last: each operation ends by one deadline with one typed error, and can be repeated."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import AiozarrError, StoreError
from aiozarr.stores import CacheStore, LocalStore, MemoryStore, ZipStore
from tests.support.child_process import LIVENESS
from tests.support.faulty_disk import REFUSED, FaultyDisk, faulty_disk
from tests.support.rounds import chance_of, rounds
from tests.support.tree_changes import CHANGES, Template, files, leftovers

Mode: TypeAlias = Literal["error", "cancel", "timeout"]
MODES: tuple[Mode, ...] = ("error", "cancel", "timeout")
FAULTS = pytest.mark.parametrize("number", REFUSED, ids=errno.errorcode.get)

RETRYING = aiozarr.Settings(retries=2, retry_seconds=0.5)
LIMITED = aiozarr.Settings(timeout=0.05)


async def outcome(work: Awaitable[object], disk: FaultyDisk, mode: Mode) -> BaseException | None:
    """Return the error of an operation that has to end, and is cancelled after the first refusal in mode "cancel"."""
    task = asyncio.ensure_future(work)
    while mode == "cancel" and not disk.refusals and not task.done():
        await asyncio.sleep(0.001)
    if mode == "cancel":
        task.cancel()
    done, _ = await asyncio.wait([task], timeout=LIVENESS)
    assert done, f"the operation has not ended {LIVENESS} seconds after the {mode}"
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def settings_of(mode: Mode) -> aiozarr.Settings:
    return LIMITED if mode == "timeout" else RETRYING


@FAULTS
def test_a_change_of_a_disk_with_a_lasting_fault_ends_and_is_completed_once_the_fault_is_over(
    request: pytest.FixtureRequest, tmp_path: Path, number: int
) -> None:
    chance = chance_of(request)
    zarr_format = chance.choice((2, 3))
    names = chance.sample(list(CHANGES), min(len(CHANGES), rounds(2)))
    templates = [asyncio.run(Template.of(CHANGES[name], zarr_format, tmp_path / name)) for name in names]

    async def run(folder: Path, mode: Mode, after: int) -> None:
        folders = [template.copied(folder / template.change.name) for template in templates]
        with faulty_disk(folder) as disk:
            disk.begin(number, after)
            works = [each.change.run(at, settings_of(mode)) for each, at in zip(templates, folders, strict=True)]
            errors = await asyncio.gather(*(outcome(work, disk, mode) for work in works))
            disk.end()
        for template, at, error in zip(templates, folders, errors, strict=True):
            where = f"{template.change.name}, {mode} {after} calls after the beginning of {errno.errorcode[number]}"
            expected = (AiozarrError, asyncio.CancelledError, TimeoutError)
            assert error is None or isinstance(error, expected), f"{where}: {error!r}"
            # The journal of a copy or a conversion stays until that is resumed.
            left = [name for name in leftovers(at) if "write~" in name]
            assert not left or "unlink" in REFUSED[number], f"{where}: {left}"
            await template.check(at, where)

    for round_number in range(rounds(1)):
        mode, after = chance.choice(MODES), chance.choice((0, 0, 1, 3, 10, 30))
        asyncio.run(run(tmp_path / f"{round_number}", mode, after))


@pytest.mark.parametrize("mode", MODES)
async def test_a_lasting_fault_of_many_chunks_has_one_deadline(
    request: pytest.FixtureRequest, tmp_path: Path, mode: Mode
) -> None:
    number = chance_of(request).choice((errno.EMFILE, errno.ESTALE))
    chunks = 400
    array = await aiozarr.create_array(tmp_path / "x.zarr", data=np.ones(2 * chunks, "u1"), chunks=2)
    settings = aiozarr.Settings(retries=1000, **({"timeout": 0.4} if mode == "timeout" else {"retry_seconds": 0.5}))
    array = await aiozarr.open_array(tmp_path / "x.zarr", mode="r+", settings=settings)
    # The first write also reads the document, and the fault of a single request would end it.
    await array[:2].write(1)
    # So many deadlines, one after the other, would take several times as long as `outcome` waits.
    for work in (array[...].write(2), array[::2].write(2), array[...].read()):
        with faulty_disk(tmp_path) as disk:
            disk.begin(number)
            error = await outcome(work, disk, mode)
            assert disk.refusals
            refusals = disk.refusals
            await asyncio.sleep(0.02)
            assert disk.refusals == refusals, "the operation goes on behind its end"
        assert isinstance(error, {"error": StoreError, "cancel": asyncio.CancelledError, "timeout": TimeoutError}[mode])
        assert not leftovers(tmp_path)
    assert set(await (await aiozarr.open_array(tmp_path / "x.zarr"))[...]) <= {1, 2}


@FAULTS
async def test_an_archive_on_a_disk_with_a_lasting_fault_is_old_or_new(tmp_path: Path, number: int) -> None:
    for after in range(0, 20, 6):
        async with ZipStore(tmp_path / f"{after}.zip", mode="w") as store:
            await aiozarr.create_array(store, data=np.ones(4))
        store = ZipStore(tmp_path / f"{after}.zip", mode="a")
        array = await aiozarr.open_array(store, mode="r+", settings=RETRYING)
        is_written = False
        with faulty_disk(tmp_path) as disk:
            disk.begin(number, after)
            with suppress(StoreError):
                await array[...].write(2)
                is_written = True
                await store.aclose()
            disk.end()
        await store.aclose()
        values = await (await aiozarr.open_array(tmp_path / f"{after}.zip"))[...]
        assert set(values) == {2.0 if is_written else 1.0}
        if "unlink" in REFUSED[number]:
            await LocalStore(tmp_path)._sweep(older_than=-1.0)
        assert not leftovers(tmp_path)


@FAULTS
async def test_a_cache_directory_on_a_disk_with_a_lasting_fault_is_not_used(tmp_path: Path, number: int) -> None:
    source = MemoryStore()
    await aiozarr.create_array(source, data=np.arange(16), chunks=4)
    for after in (0, 3, 10):
        with faulty_disk(tmp_path) as disk:
            disk.begin(number, after)
            for _ in range(2):
                store = CacheStore(source, 1 << 20, directory=str(tmp_path / "cache"))
                assert np.array_equal(await (await aiozarr.open_array(store))[...], np.arange(16))
            disk.end()
        store = CacheStore(source, 1 << 20, directory=str(tmp_path / "cache"))
        assert np.array_equal(await (await aiozarr.open_array(store))[...], np.arange(16))


@FAULTS
async def test_a_prefix_on_a_disk_with_a_lasting_fault_is_erased_once_the_fault_is_over(
    tmp_path: Path, number: int
) -> None:
    store = LocalStore(tmp_path, fsync=True)
    for after in range(0, 24, 6):
        for key in ("a/b/1", "a/b/2", "a/c", "d"):
            await store.set(key, b"1")
        with faulty_disk(tmp_path) as disk:
            disk.begin(number, after)
            try:
                await store.erase_prefix("a/")
            except StoreError:
                disk.end()
                await store.erase_prefix("a/")
            disk.end()
        assert await store.list() == ["d"]
        assert files(tmp_path).keys() == {"d"}
