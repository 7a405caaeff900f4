"""The admission of requests, without an event loop: order, budget, prepaid requests, limits of sources."""

from __future__ import annotations

import pytest

from aiozarr.errors import StoreError, ThrottledError
from aiozarr.schedule.admission import CEILING, START, AdmissionQueue, Budget, PreconnectPolicy
from aiozarr.schedule.requests import RequestSource, RetryPolicy, ScheduledRequest


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


POLICY = RetryPolicy()


class Request(ScheduledRequest):
    """A request that is only queued."""

    def __init__(self, name: str, held: int = 1) -> None:
        super().__init__(POLICY, held)
        self.name = name

    async def send(self) -> None:
        raise AssertionError("an admission queue sends nothing")

    def completed(self, error: BaseException | None) -> None:
        raise AssertionError("an admission queue completes nothing")


class Source(RequestSource):
    """Hands out requests named after it."""

    def __init__(
        self, name: str, count: int = 1, *, held: int = 1, max_bytes: int = 100, max_requests: int | None = None
    ) -> None:
        self.requests = [Request(f"{name}{number}", held) for number in range(count)]
        self.max_bytes = max_bytes
        self.max_requests = max_requests
        self.asked = 0

    def next(self) -> ScheduledRequest | None:
        self.asked += 1
        return self.requests.pop(0) if self.requests else None

    def pending(self) -> int:
        return len(self.requests)


def admitted(queue: AdmissionQueue) -> list[Request]:
    """Admit requests until the queue gives none."""
    requests: list[Request] = []
    while (request := queue.admit()) is not None:
        assert isinstance(request, Request)
        requests.append(request)
    return requests


def names(requests: list[Request]) -> list[str]:
    return [request.name for request in requests]


def queue_of(*sources: Source, limit: int = 64) -> AdmissionQueue:
    queue = AdmissionQueue(Budget(limit))
    for source in sources:
        queue.register(source)
        queue.add(source)
    return queue


def test_sources_take_turns_request_by_request() -> None:
    queue = queue_of(Source("a", 3), Source("b", 1), Source("c", 2))
    assert names(admitted(queue)) == ["a0", "b0", "c0", "a1", "c1", "a2"]


def test_a_new_source_waits_for_one_request_of_each_other_source() -> None:
    queue = queue_of(Source("a", 9), Source("b", 9))
    assert [queue.admit(), queue.admit(), queue.admit()]
    queue.add(Source("c"))
    assert names(admitted(queue))[:3] == ["b1", "a2", "c0"]


def test_a_source_is_asked_until_it_has_no_request_and_again_after_it_is_added_again() -> None:
    source = Source("a", 1)
    queue = queue_of(source)
    assert names(admitted(queue)) == ["a0"]
    assert source.asked == 2
    assert not queue.unregister(Source("b", 0))  # no other one has requests
    assert queue.admit() is None
    assert source.asked == 2
    source.requests.append(Request("late"))
    queue.add(source)
    queue.add(source)
    assert names(admitted(queue)) == ["late"]


def test_a_source_that_unregisters_itself_in_next_is_not_asked_again() -> None:
    class Ending(Source):
        def next(self) -> ScheduledRequest | None:
            request = super().next()
            if request is None:
                queue.unregister(self)
            return request

    source = Ending("a", 1)
    queue = queue_of(source, Source("b", 2))
    assert names(admitted(queue)) == ["a0", "b0", "b1"]
    assert source.asked == 2


def test_requests_of_a_source_that_has_ended_are_not_admitted() -> None:
    source = Source("a", 3)
    queue = queue_of(source, Source("b", 1))
    queue.unregister(source)
    assert names(admitted(queue)) == ["b0"]


def test_the_limit_of_requests_holds_until_one_ends() -> None:
    queue = queue_of(Source("a", 5), limit=2)
    first = admitted(queue)
    assert names(first) == ["a0", "a1"]
    assert queue.budget.in_flight == 2
    queue.finish(first[0], succeeded=True)
    assert names(admitted(queue)) == ["a2"]


def test_the_smallest_limit_of_registered_sources_holds() -> None:
    small, large = Source("a", 5, max_requests=1), Source("b", 5, max_requests=3)
    queue = queue_of(small, large)
    assert names(admitted(queue)) == ["a0"]
    queue.unregister(small)
    assert names(admitted(queue)) == ["b0", "b1"]
    queue.unregister(large)
    assert not queue.budget.is_capped


def test_bytes_are_counted_from_admission_to_release() -> None:
    queue = queue_of(Source("a", 3, held=60))
    (first,) = admitted(queue)  # the second would exceed 100 bytes
    assert queue.budget.bytes_in_flight == 60
    queue.finish(first, succeeded=True)
    assert queue.budget.bytes_in_flight == 60
    assert queue.admit() is None
    assert queue.charge(-60)  # a request waits for these bytes
    assert names(admitted(queue)) == ["a1"]


def test_an_error_releases_the_bytes() -> None:
    queue = queue_of(Source("a", 2, held=60))
    (first,) = admitted(queue)
    queue.finish(first, succeeded=False)
    assert queue.budget.bytes_in_flight == 0
    assert names(admitted(queue)) == ["a1"]


def test_no_source_overtakes_the_request_that_waits_for_bytes() -> None:
    queue = queue_of(Source("a", 1, held=90), Source("b", 1, held=50), Source("c", 1, held=1))
    (first,) = admitted(queue)
    assert queue.admit() is None
    queue.finish(first, succeeded=True)
    queue.charge(-first.held)
    assert names(admitted(queue)) == ["b0", "c0"]


def test_a_request_larger_than_the_budget_is_admitted_alone() -> None:
    queue = queue_of(Source("a", 1, held=10), Source("b", 1, held=1000), Source("c", 1))
    (first,) = admitted(queue)
    assert first.name == "a0"
    queue.finish(first, succeeded=True)
    assert queue.admit() is None
    queue.charge(-10)
    (large,) = admitted(queue)
    assert large.name == "b0"
    queue.finish(large, succeeded=False)
    assert names(admitted(queue)) == ["c0"]


def test_a_response_changes_what_its_request_was_charged() -> None:
    queue = queue_of(Source("a", 2, held=60))
    (first,) = admitted(queue)
    queue.charge(30 - first.held)
    assert names(admitted(queue)) == ["a1"]
    assert queue.budget.bytes_in_flight == 90


def test_prepaid_requests_come_first_and_need_no_bytes() -> None:
    queue = queue_of(Source("a", 2, held=90))
    assert names(admitted(queue)) == ["a0"]
    queue.add_prepaid([Request("part0", 0), Request("part1", 0)])
    assert names(admitted(queue)) == ["part0", "part1"]


def test_prepaid_requests_keep_to_the_limit_of_requests() -> None:
    queue = queue_of(limit=1)
    queue.add_prepaid([Request("part0", 0), Request("part1", 0)])
    assert names(admitted(queue)) == ["part0"]


def test_a_prepaid_request_can_be_withdrawn_until_it_is_admitted() -> None:
    queue = queue_of(limit=1)
    parts = [Request(f"part{number}", 0) for number in range(3)]
    queue.add_prepaid(parts)
    assert queue.admit() is parts[0]
    assert [queue.withdraw(part) for part in parts[:2]] == [False, True]
    assert not queue.withdraw(parts[1])
    queue.finish(parts[0], succeeded=True)
    assert queue.admit() is parts[2]


def test_a_cancelled_request_that_waits_for_bytes_makes_way() -> None:
    waiting = Request("b0", 20)
    source = Source("b", 0)
    source.requests.append(waiting)
    queue = queue_of(Source("a", 1, held=90), source, Source("c", 1))
    assert names(admitted(queue)) == ["a0"]
    assert queue.withdraw(waiting)
    assert not queue.withdraw(waiting)
    assert names(admitted(queue)) == ["c0"]


def test_overload_lowers_the_limit_and_other_failures_do_not() -> None:
    queue = queue_of()
    queue.attempt_failed(StoreError("reset", retryable=True), 0.0, 1.0)
    assert queue.budget.limit == 64
    queue.attempt_failed(ThrottledError("slow down"), 0.0, 1.0)
    assert queue.budget.limit == 32


def test_an_idle_queue_has_nothing_queued_in_flight_or_limited() -> None:
    source = Source("a", 1, held=5, max_requests=3)
    queue = AdmissionQueue()
    assert queue.is_idle
    queue.register(source)
    assert not queue.is_idle
    queue.add(source)
    (request,) = admitted(queue)
    queue.unregister(source)
    assert not queue.is_idle
    queue.finish(request, succeeded=True)
    assert not queue.is_idle
    queue.charge(-5)
    assert queue.is_idle


@pytest.mark.parametrize("enough", [1, 3, 100])
def test_pending_counts_all_requests_as_far_as_asked(enough: int) -> None:
    queue = queue_of(Source("a", 2, held=90), Source("b", 4))
    queue.add_prepaid([Request("part", 0)])
    count = queue.pending(enough)
    assert count == 7 if enough == 100 else enough <= count <= 7


def test_connections_are_opened_for_the_growth_of_a_limit_in_use_once() -> None:
    policy, budget = PreconnectPolicy(), Budget(512)
    assert policy.consider(budget, lambda enough: enough) == 0  # not in use
    budget.in_flight = budget.limit
    assert policy.consider(budget, lambda enough: 0) == 0  # no request would use them
    assert policy.consider(budget, lambda enough: 3) == 67
    assert policy.consider(budget, lambda enough: 3) == 0
    assert policy.consider(budget, lambda enough: enough) == 128
    policy.requested = 0
    assert policy.consider(budget, lambda enough: enough) == 128
