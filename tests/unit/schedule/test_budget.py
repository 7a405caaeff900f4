"""The limit of one origin: grows while it is in use and clean, shrinks on refusals, obeys fixed limits."""

from aiozarr.schedule import Budget
from aiozarr.schedule.budget import CEILING, START


def used(budget: Budget) -> Budget:
    budget.in_flight = budget.limit
    return budget


def test_the_limit_doubles_after_a_clean_round_trip_in_use() -> None:
    budget = Budget(ceiling=CEILING)
    assert budget.limit == START
    for _ in range(START):
        used(budget).succeeded()
    assert budget.limit == 2 * START


def test_the_limit_does_not_grow_while_it_is_not_in_use() -> None:
    budget = Budget(ceiling=CEILING)
    budget.in_flight = 1
    for _ in range(10 * START):
        budget.succeeded()
    assert budget.limit == START


def test_the_limit_never_passes_the_ceiling() -> None:
    budget = Budget(ceiling=100)
    for _ in range(10_000):
        used(budget).succeeded()
    assert budget.limit == 100


def test_refusals_of_one_round_trip_halve_the_limit_once() -> None:
    budget = Budget(ceiling=CEILING)
    for _ in range(10):
        budget.overloaded(sent_at=1.0, now=1.5)
    assert budget.limit == START // 2
    budget.overloaded(sent_at=1.6, now=2.0)
    assert budget.limit == START // 4


def test_the_limit_never_falls_below_one() -> None:
    budget = Budget(ceiling=CEILING)
    for now in range(100):
        budget.overloaded(sent_at=now, now=now + 0.5)
    assert budget.limit == 1


def test_the_smallest_fixed_limit_at_work_holds_and_goes_with_its_caller() -> None:
    budget = Budget(ceiling=CEILING)
    budget.cap(100)
    budget.cap(7)
    assert budget.limit == 7
    budget.uncap(7)
    assert budget.limit == 100
    budget.uncap(100)
    assert budget.limit == START
