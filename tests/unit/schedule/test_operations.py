from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.schedule.events import OperationKind, Report, RequestEvent, add_observer, observed, remove_observer
from aiozarr.stores import MemoryStore
from tests.support.servers.http_server import FaultServer


class Recorded:
    """An observer that records what it is told, or raises."""

    def __init__(self, fails: bool = False) -> None:
        self.ended: list[tuple[str, str | None, BaseException | None, Report]] = []
        self.requests: list[tuple[str, RequestEvent]] = []
        self.fails = fails

    def begin(self, kind: OperationKind) -> Any:
        if self.fails:
            raise RuntimeError("begin")
        return Trace(self, kind)


class Trace:
    def __init__(self, owner: Recorded, kind: str) -> None:
        self.owner = owner
        self.kind = kind

    def request(self, event: RequestEvent) -> None:
        self.owner.requests.append((self.kind, event))
        raise RuntimeError("request")

    def end(self, report: Report, url: str | None, error: BaseException | None) -> None:
        self.owner.ended.append((self.kind, url, error, report))
        raise RuntimeError("end")


@pytest.fixture
def observer() -> Iterator[Recorded]:
    each = Recorded()
    add_observer(each)
    yield each
    remove_observer(each)


async def test_each_operation_is_told_with_its_url_and_sums(observer: Recorded) -> None:
    store = MemoryStore()
    array = await aiozarr.create_array(store, "a", shape=8, dtype="i4", chunks=2)
    await array[...].write(np.arange(8))
    await array[:4]
    await aiozarr.read_many([array[:2], array])
    async for _ in array[...].stream():
        pass
    await aiozarr.open_group(store, mode="a")
    assert [kind for kind, *_ in observer.ended] == ["create", "write", "read", "read", "stream", "open"]
    assert [url == array.url for _, url, *_ in observer.ended] == [True, True, True, True, True, False]
    assert all(error is None for _, _, error, _ in observer.ended)
    assert observer.ended[1][3].chunks == 4
    assert observer.ended[4][3].requests == len([kind for kind, _ in observer.requests if kind == "stream"])


async def test_exceptions_of_an_observer_are_logged_and_end_nothing(
    observer: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Recorded(fails=True)
    add_observer(failing)
    try:
        with caplog.at_level(logging.ERROR, "aiozarr"):
            array = await aiozarr.create_array(MemoryStore(), data=np.arange(3))
            assert list(await array[...]) == [0, 1, 2]
    finally:
        remove_observer(failing)
    assert "an observer of operations raised" in caplog.text


async def test_an_error_is_told_and_raised(observer: Recorded) -> None:
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(MemoryStore())
    kind, url, error, _ = observer.ended[-1]
    assert (kind, url) == ("open", None)
    assert isinstance(error, aiozarr.NodeNotFoundError)


async def test_a_stream_that_is_left_early_is_no_error(observer: Recorded) -> None:
    array = await aiozarr.create_array(MemoryStore(), data=np.arange(8), chunks=2)
    blocks = array[...].stream(prefetch=1)
    await anext(blocks)
    await blocks.aclose()
    assert observer.ended[-1][0] == "stream"
    assert observer.ended[-1][2] is None


async def test_requests_belong_to_the_innermost_operation_and_count_in_the_records_around(observer: Recorded) -> None:
    array = await aiozarr.create_array(MemoryStore(), data=np.arange(8), chunks=2)
    observer.requests.clear()
    with aiozarr.record() as report:
        await array[:4]
    assert report.requests == observer.ended[-1][3].requests


async def test_copies_and_conversions_are_one_operation_each_with_the_requests_of_all_their_parts(
    observer: Recorded, tmp_path: Path
) -> None:
    values = MemoryStore()
    array = await aiozarr.create_array(values, data=np.arange(8), chunks=2, dimension_names=["x"])
    observer.ended.clear()
    observer.requests.clear()
    with FaultServer({key: bytes(await values.get(key) or b"") for key in await values.list()}) as server:
        copied = await aiozarr.copy(server.url, tmp_path / "copy")
        part = await aiozarr.copy(values, MemoryStore(), include=["c/*", "zarr.json"])
        await aiozarr.convert(values, tmp_path / "converted", chunks=(4,))
    kinds = [kind for kind, *_ in observer.ended]
    assert kinds == ["copy", "copy", "convert"]
    assert [error for _, _, error, _ in observer.ended] == [None] * 3
    assert observer.ended[0][1] == f"file://{tmp_path}/copy"
    assert observer.ended[2][1] == f"file://{tmp_path}/converted"
    chunks = [event.key for kind, event in observer.requests if event.store == f"{server.url}" and "c/" in event.key]
    assert sorted(chunks) == ["c/0", "c/1", "c/2", "c/3"]
    assert observer.ended[0][3].requests >= copied.objects > 4
    assert part.objects
    converted = [event for kind, event in observer.requests if kind == "convert"]
    assert {event.operation for event in converted} >= {"fetch", "set"}
    assert observer.ended[2][3].chunks == 4 + 2
    assert list(await array[:2]) == [0, 1]


async def test_an_observed_function_stays_a_coroutine_function_and_is_called_without_observers() -> None:
    async def double(number: int) -> int:
        return 2 * number

    followed = observed("read", lambda *_: None)(double)
    assert inspect.iscoroutinefunction(followed)
    assert await followed(3) == 6
