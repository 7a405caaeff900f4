"""Compare-and-swap loops, for coroutines and for threads."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.engine.group_commit import (
    BASE_DELAY,
    MAX_DELAY,
    MAX_SWAPS,
    compare_and_swap,
    compare_and_swap_blocking,
    delays,
)
from aiozarr.errors import PermissionDeniedError, PreconditionFailedError
from aiozarr.testing.virtual_time import run_virtual


class Contended:
    """An object that other writers change first, `races` times."""

    def __init__(self, races: int) -> None:
        self.races = races
        self.swaps = 0

    def swap(self) -> int:
        self.swaps += 1
        if self.swaps <= self.races:
            raise PreconditionFailedError("another writer was first", key="a")
        return self.swaps

    async def swap_async(self) -> int:
        await asyncio.sleep(0)
        return self.swap()


@pytest.mark.parametrize("races", [0, 1, MAX_SWAPS - 1])
def test_the_first_swap_without_a_race_ends_the_loop(races: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert run_virtual(compare_and_swap(Contended(races).swap_async)) == races + 1
    assert compare_and_swap_blocking(Contended(races).swap) == races + 1


def test_the_error_of_the_last_race_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for contended, call in [
        (first := Contended(MAX_SWAPS), lambda: run_virtual(compare_and_swap(first.swap_async))),
        (second := Contended(MAX_SWAPS), lambda: compare_and_swap_blocking(second.swap)),
    ]:
        with pytest.raises(PreconditionFailedError):
            call()
        assert contended.swaps == MAX_SWAPS


def test_other_errors_are_raised_at_once() -> None:
    def refuse() -> int:
        raise PermissionDeniedError("no")

    with pytest.raises(PermissionDeniedError):
        compare_and_swap_blocking(refuse)


def test_pauses_grow_up_to_a_bound() -> None:
    pauses = list(delays(MAX_SWAPS, MAX_DELAY, lambda: 1.0))
    assert len(pauses) == MAX_SWAPS - 1
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (BASE_DELAY, MAX_DELAY)
    assert set(delays(MAX_SWAPS, MAX_DELAY, lambda: 0.0)) == {0.0}


def test_the_number_of_attempts_and_the_longest_pause_are_arguments() -> None:
    contended = Contended(10)
    with pytest.raises(PreconditionFailedError):
        run_virtual(compare_and_swap(contended.swap_async, max_swaps=3))
    assert contended.swaps == 3
    assert list(delays(4, 0.03, lambda: 1.0)) == [BASE_DELAY, 2 * BASE_DELAY, 0.03]
