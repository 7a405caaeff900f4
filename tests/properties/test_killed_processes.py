"""Processes that are killed while they change a tree or write an array: whatever they leave is whole, old or new."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiozarr
from tests.support.cell_writers import check_history, create
from tests.support.killed_changes import Killer, killer
from tests.support.rounds import chance_of, rounds
from tests.support.servers.moto import LocalS3
from tests.support.tree_changes import CHANGES, Template, leftovers, look, make


@pytest.fixture(scope="module")
def kill() -> Iterator[Killer]:
    with killer() as running:
        yield running


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_killed_before_any_call_of_the_system_is_completed_by_repeating_it(
    request: pytest.FixtureRequest, kill: Killer, tmp_path: Path, name: str
) -> None:
    chance = chance_of(request)
    for zarr_format in chance.sample((2, 3), min(2, rounds(1))):
        template = asyncio.run(Template.of(CHANGES[name], zarr_format, tmp_path / f"template {zarr_format}"))
        fsync = chance.random() < 0.5
        count = kill.run(name, template.copied(tmp_path / f"whole {zarr_format}"), fsync=fsync)
        assert count
        for number in chance.sample(range(1, count + 1), min(count, rounds(1))):
            folder = template.copied(tmp_path / f"killed {zarr_format} {number}")
            kill.run(name, folder, before_call=number, fsync=fsync)
            asyncio.run(template.check(folder, f"format {zarr_format}, killed before call {number} of {count}"))


def test_a_tree_that_several_killed_processes_have_changed_at_once_is_listed_as_it_can_be_opened(
    request: pytest.FixtureRequest, kill: Killer, tmp_path: Path
) -> None:
    chance = chance_of(request)
    killed = 0
    for number in range(rounds(2)):
        folder = tmp_path / str(number)
        zarr_format = chance.choice((2, 3))
        asyncio.run(make(folder, zarr_format))
        seeds = [chance.getrandbits(32) for _ in range(3)]
        killed += kill.run_several(folder, seeds, chance.uniform(0.05, 0.5))
        # Format 2 has no sentinel that tells one process of the unfinished change of another.
        asyncio.run(look(folder, is_consolidated=zarr_format == 3, is_copied_alone=False))
    assert killed


def test_processes_that_are_killed_lose_no_cell_of_shards_on_disk_that_they_share(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    target = str(tmp_path / "x.zarr")
    (tmp_path / "notes").mkdir()

    async def run() -> None:
        await create(target, {})
        await check_history(target, {}, tmp_path / "notes", chance_of(request), writers=4, kills=rounds(2))
        await aiozarr.stores.LocalStore(target)._sweep(older_than=-1.0)
        assert not leftovers(tmp_path)

    asyncio.run(run())


def test_processes_that_are_killed_lose_no_cell_of_shards_in_a_bucket_that_they_share(
    request: pytest.FixtureRequest, tmp_path: Path, s3_server: LocalS3
) -> None:
    target, options = "s3://cells/x.zarr", s3_server.storage_options
    s3_server.create_bucket("cells")

    async def run() -> None:
        await create(target, options)
        await check_history(target, options, tmp_path, chance_of(request), writers=2, kills=rounds(1))

    asyncio.run(run())
