"""One array, opened through eight URLs and some more, gives the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import aiozarr
from aiozarr import sync
from tests.support.locations import Location, all_locations, array_at, sample_values, stored_objects

VALUES = sample_values()
STORED = stored_objects()
SELECTIONS: tuple[Any, ...] = (
    (),
    (slice(None), 3),
    (slice(7, 41, 3), slice(2, 33)),
    (17, 22),
    (slice(None, None, -1), slice(30, 9, -4)),
)


@pytest.fixture(params=all_locations())
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    with array_at(request.param, STORED, tmp_path, request) as found:
        yield found


def test_there_are_eight_urls_that_need_no_server_of_others() -> None:
    assert len([one for one in all_locations() if not one.marks]) >= 8


def test_every_selection_gives_the_same_bytes_whether_awaited_or_waited_for(location: Location) -> None:
    async def read() -> list[NDArray[Any]]:
        async with await aiozarr.open_array(location.url, storage_options=location.storage_options) as array:
            assert dict(array.attrs) == {"unit": "K"}
            return list(await asyncio.gather(*(array[selection].read() for selection in SELECTIONS)))

    for part, selection in zip(asyncio.run(read()), SELECTIONS, strict=True):
        assert part.tobytes() == np.ascontiguousarray(VALUES[selection]).tobytes()
    with sync.open_array(location.url, storage_options=location.storage_options) as array:
        for selection in SELECTIONS:
            assert np.asarray(array[selection]).tobytes() == np.ascontiguousarray(VALUES[selection]).tobytes()


def test_the_url_of_a_node_opens_it_again(location: Location) -> None:
    with sync.open_array(location.url, storage_options=location.storage_options) as array:
        told = array.url
    with sync.open_array(told, storage_options=location.storage_options) as again:
        assert again.url == told
        assert np.array_equal(again[10:20], VALUES[10:20])


def test_values_written_through_a_url_are_read_through_it(location: Location) -> None:
    if not location.writable:
        pytest.skip("this location is read only")
    expected = VALUES.copy()
    expected[3:30, 5:25] = -1
    with sync.open_array(location.url, mode="r+", storage_options=location.storage_options) as array:
        array[:32, :40] = expected[:32, :40]
    with sync.open_array(location.url, storage_options=location.storage_options) as array:
        assert np.array_equal(array[...], expected)
