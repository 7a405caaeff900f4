"""The queue of one origin: who is asked for calls, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiozarr.schedule.retry import RetryPolicy
from aiozarr.schedule.scheduler import Call, Origin, Source
from aiozarr.testing.virtual_time import run_virtual


class Request(Call):
    """Takes a second, and keeps its bytes."""

    def __init__(self, cost: int) -> None:
        super().__init__(RetryPolicy(0, 1.0), cost)
        self.error: BaseException | None = None

    async def send(self) -> None:
        await asyncio.sleep(1)

    def done(self, error: BaseException | None) -> None:
        self.error = error


class Caller(Source):
    """Hands out its calls, and counts how often it is asked for one more than there are."""

    max_requests = None
    max_bytes = 150

    def __init__(self, calls: Iterable[Request]) -> None:
        self.calls = list(calls)
        self.ends = 0

    def next(self) -> Call | None:
        self.ends += not self.calls
        return self.calls.pop(0) if self.calls else None

    def pending(self) -> int:
        return len(self.calls)


def test_who_has_handed_out_everything_is_asked_once_more_when_what_was_in_the_way_is_gone() -> None:
    async def scenario() -> None:
        origin = Origin()
        first, second = Request(100), Request(100)
        large, small = Caller([first, second]), Caller([Request(10)])
        origin.offer(large)
        origin.offer(small)
        await asyncio.sleep(2)  # the second call of `large` waits for room, and all workers have left
        assert (len(small.calls), small.ends) == (0, 0)
        second.cancelled = True
        origin.leave(large)
        await asyncio.sleep(0)
        assert isinstance(second.error, asyncio.CancelledError)
        assert small.ends == 1
        await origin.close()

    run_virtual(scenario())
