"""The watchdog ends what does not end, and finds what an input must not take or raise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import aiozarr
from tests.fuzz.watchdog import Finding, Watchdog, allowed


def finding(use: Callable[[], Awaitable[None]], **limits: float) -> Finding | None:
    async def main() -> Finding | None:
        with Watchdog(**limits) as watchdog:  # type: ignore[arg-type]  # the limit of memory is an int, too
            found = await watchdog.run("input", use)
            # The next input is not disturbed by what the watchdog did to this one.
            assert await watchdog.run("next", lambda: asyncio.sleep(0)) is None
            return found

    return asyncio.run(main())


async def endless() -> None:
    while True:
        pass


async def endless_in_another_thread() -> None:
    def loop() -> None:
        while True:
            pass

    await asyncio.to_thread(loop)


async def waiting() -> None:
    await asyncio.Event().wait()


async def greedy() -> None:
    assert len(bytearray(b"x") * (100 << 20))


async def untyped() -> None:
    async def fail() -> None:
        raise KeyError("x")

    await allowed(fail())


async def losing() -> None:
    async def fail() -> None:
        raise KeyError("x")

    await asyncio.wait([asyncio.ensure_future(fail())])


async def typed() -> None:
    async def fail() -> None:
        raise aiozarr.StoreError("refused")

    assert isinstance(await allowed(fail()), aiozarr.StoreError)


@pytest.mark.parametrize(
    ("use", "limits", "kind"),
    [
        (endless, {"cpu_seconds": 0.1}, "endless"),
        (endless_in_another_thread, {"cpu_seconds": 0.1}, "endless"),
        (waiting, {"wall_seconds": 0.1}, "hang"),
        (greedy, {"memory_bytes": 50 << 20}, "memory"),
        (untyped, {}, "KeyError in test_watchdog.py:fail"),
        (losing, {}, "log: Task exception was never retrieved"),
    ],
)
def test_an_input_that_takes_or_raises_too_much_is_found(
    use: Callable[[], Awaitable[None]], limits: dict[str, float], kind: str
) -> None:
    found = finding(use, **limits)
    assert found is not None
    assert found.kind == kind


def test_a_typed_error_is_no_finding() -> None:
    assert finding(typed) is None
