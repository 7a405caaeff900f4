"""One array, opened through eight URLs and some more, gives the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from places import Place, a_place, all_places, sample, stored

import aiozarr
from aiozarr import sync

VALUES = sample()
STORED = stored()
SELECTIONS: tuple[Any, ...] = (
    (),
    (slice(None), 3),
    (slice(7, 41, 3), slice(2, 33)),
    (17, 22),
    (slice(None, None, -1), slice(30, 9, -4)),
)


@pytest.fixture(params=all_places())
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with a_place(request.param, STORED, tmp_path, request) as found:
        yield found


def test_there_are_eight_urls_that_need_no_server_of_others() -> None:
    assert len([one for one in all_places() if not one.marks]) >= 8


def test_every_selection_gives_the_same_bytes_whether_awaited_or_waited_for(place: Place) -> None:
    async def read() -> list[NDArray[Any]]:
        async with await aiozarr.open_array(place.url, storage_options=place.storage_options) as array:
            assert dict(array.attrs) == {"unit": "K"}
            return list(await asyncio.gather(*(array[selection].read() for selection in SELECTIONS)))

    for part, selection in zip(asyncio.run(read()), SELECTIONS, strict=True):
        assert part.tobytes() == np.ascontiguousarray(VALUES[selection]).tobytes()
    with sync.open_array(place.url, storage_options=place.storage_options) as array:
        for selection in SELECTIONS:
            assert np.asarray(array[selection]).tobytes() == np.ascontiguousarray(VALUES[selection]).tobytes()


def test_the_url_that_a_node_tells_of_itself_opens_it_again(place: Place) -> None:
    with sync.open_array(place.url, storage_options=place.storage_options) as array:
        told = array.url
    with sync.open_array(told, storage_options=place.storage_options) as again:
        assert again.url == told
        assert np.array_equal(again[10:20], VALUES[10:20])


def test_what_is_written_through_the_url_is_read_through_it(place: Place) -> None:
    if not place.writeable:
        pytest.skip("this place is read only")
    expected = VALUES.copy()
    expected[3:30, 5:25] = -1
    with sync.open_array(place.url, mode="r+", storage_options=place.storage_options) as array:
        array[:32, :40] = expected[:32, :40]
    with sync.open_array(place.url, storage_options=place.storage_options) as array:
        assert np.array_equal(array[...], expected)
