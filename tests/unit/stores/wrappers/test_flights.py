"""Those who ask for the same share one request, and whoever leaves takes no one else's along."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.stores.wrappers.flights import Flights
from aiozarr.testing.virtual_time import run_virtual

PLACE = ("store", "k")


def test_who_is_cancelled_twice_while_the_request_winds_up_leaves_no_unheard_error() -> None:
    async def main() -> list[str]:
        complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))

        async def request() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(10)
                raise RuntimeError("nobody hears this")

        waiting = asyncio.create_task(Flights().join(PLACE, None, request))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.sleep(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(100)
        assert len(asyncio.all_tasks()) == 1
        return complaints

    assert run_virtual(main()) == []


def test_a_new_request_is_made_after_the_last_one_has_ended_or_is_out_of_date() -> None:
    async def main() -> None:
        flights, count = Flights(), 0

        async def request() -> int:
            nonlocal count
            count += 1
            number = count
            await asyncio.sleep(5)
            return number

        def join() -> asyncio.Task[int]:
            return asyncio.create_task(flights.join(PLACE, None, request))

        early = [join(), join()]
        await asyncio.sleep(1)
        flights.forget(PLACE)
        late = [join(), join()]
        await asyncio.sleep(1)
        flights.forget_below("store", "")
        last = join()
        assert await asyncio.gather(*early, *late, last) == [1, 1, 2, 2, 3]
        assert await join() == 4
        assert not flights._by_place

    run_virtual(main())


def test_a_request_that_is_cancelled_from_outside_cancels_those_who_wait() -> None:
    async def main() -> None:
        async def request() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)

        with pytest.raises(asyncio.CancelledError):
            await Flights().join(PLACE, None, request)

    run_virtual(main())
