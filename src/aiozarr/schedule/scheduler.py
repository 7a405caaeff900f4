"""Sends the calls of all callers under one budget per origin, round-robin between callers, by workers that pull."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from time import monotonic

from aiozarr.errors import StoreError
from aiozarr.schedule.budget import Budget
from aiozarr.schedule.coalesce import Economy
from aiozarr.schedule.learn import Learner
from aiozarr.schedule.retry import RetryPolicy, overload
from aiozarr.settings import Settings


class Call(ABC):
    """One request, from the moment a worker takes it.

    Attributes:
        policy: when it is repeated.
        cost: bytes it holds in memory until `Origin.release`; an estimate where the size is not known.
        attempts: how often it was sent.
        started: when it was first sent, by the clock of its queue.
        seconds: from then to its end, once it has ended.
    """

    __slots__ = ("attempts", "cancelled", "cost", "policy", "seconds", "started", "worker")

    def __init__(self, policy: RetryPolicy, cost: int) -> None:
        self.policy = policy
        self.cost = cost
        self.attempts = 0
        self.started = self.seconds = 0.0
        self.cancelled = False
        self.worker: asyncio.Task[None] | None = None

    @abstractmethod
    async def send(self) -> None:
        """Send the request once and keep its answer; called again where the policy repeats it."""

    @abstractmethod
    def done(self, error: BaseException | None) -> None:
        """The call has ended, with its answer or with `error` (`CancelledError`: it was cancelled). Must not raise.

        After success the call's bytes stay counted until `Origin.release`; after an error they no longer are.
        """

    def cancel(self) -> None:
        """Stop the call; `done` follows."""
        self.cancelled = True
        if self.worker is not None:
            self.worker.cancel()


class Source(ABC):
    """A caller's work, as calls that it hands out when asked.

    Attributes:
        max_requests: a fixed limit on the origin's requests in flight while the source is at work; None: adaptive.
        max_bytes: limit on the origin's bytes in flight.
    """

    max_requests: int | None
    max_bytes: int

    @abstractmethod
    def next(self) -> Call | None:
        """Return the next call; None where there is none at the moment (`Origin.offer` brings the source back)."""

    @abstractmethod
    def pending(self) -> int:
        """Return about how many calls `next` would hand out now; more than there are costs little."""


class Origin:
    """The queue of one origin: its budget, the callers that have work, and the workers that do it."""

    blocking = False

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.learner = Learner()
        self._rotation: deque[Source] = deque()
        self._waiting: set[Source] = set()
        self._held: tuple[Source, Call] | None = None
        self._paid: deque[Call] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._clock: Callable[[], float] | None = None

    def economy(self, settings: Settings) -> Economy:
        """Return what merging may spend for a caller with these settings."""
        gap = self.learner.gap() if settings.gap == "auto" else settings.gap
        return Economy(gap, settings.max_over_read, settings.max_request_bytes)

    def enter(self, source: Source) -> None:
        """A caller begins: its fixed limit, if it has one, holds from now on."""
        if source.max_requests is not None:
            self.budget.cap(source.max_requests)

    def leave(self, source: Source) -> None:
        """A caller has ended; what it still had to send is dropped."""
        if source.max_requests is not None:
            self.budget.uncap(source.max_requests)
        if source in self._waiting:
            self._waiting.discard(source)
            self._rotation.remove(source)
        self.forget_cancelled()
        self._refill()

    def forget_cancelled(self) -> None:
        """End a call that was cancelled while it waited for room; one that another caller has joined stays."""
        if self._held is not None and self._held[1].cancelled:
            _, call = self._held
            self._held = None
            call.done(asyncio.CancelledError())

    def offer(self, source: Source) -> None:
        """`source` has calls to send."""
        if source not in self._waiting:
            self._waiting.add(source)
            self._rotation.append(source)
        # At least one worker looks: only who asks for the next call notices that there are no more.
        self._start(max(1, source.pending()))

    def proceed(self, calls: Sequence[Call]) -> None:
        """Send calls whose bytes are counted already, before any that may have to wait for room: they make room."""
        self._paid.extend(calls)
        self._start(len(calls))

    def withdraw(self, calls: Iterable[Call]) -> list[Call]:
        """Do not send those of `calls`, given to `proceed`, that no worker has taken; return them."""
        taken = set(calls)
        withdrawn = [call for call in self._paid if call in taken]
        self._paid = deque(call for call in self._paid if call not in taken)
        return withdrawn

    def release(self, cost: int) -> None:
        """`cost` bytes of an answered call are no longer held."""
        self.budget.bytes_in_flight -= cost
        if self._held is not None:
            self._refill()

    def share(self, nbytes: int) -> int:
        """Return how many bytes of an operation on `nbytes` travel in one errand; here each object is one."""
        return 0

    def now(self) -> float:
        """Return the time by the clock that calls are timed by."""
        return self._clock_here()()

    def _clock_here(self) -> Callable[[], float]:
        """Return the clock of the loop; where that is the machine's, read anew each time, as uvloop does not."""
        clock = self._clock
        if clock is None:
            clock = asyncio.get_running_loop().time
            self._clock = clock = monotonic if abs(clock() - monotonic()) < 1.0 else clock
        return clock

    async def close(self) -> None:
        """Stop all workers and wait for them."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    def _refill(self) -> None:
        """Start workers where the limit leaves room and callers have work."""
        room = self.budget.limit - len(self._workers)
        if room <= 0:
            return
        pending = len(self._paid) + (1 if self._held is not None else 0)
        for source in self._rotation:
            # One that has handed out everything learns only by being asked that it is at its end.
            pending += max(1, source.pending())
            if pending >= room:
                break
        self._start(pending - self._starting)

    def _start(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(min(count, self.budget.limit - len(self._workers))):
            self._starting += 1
            worker = loop.create_task(self._work())
            self._workers.add(worker)

    def _take(self) -> Call | None:
        """Return the next call that the budget allows, from the callers in turn."""
        if self._paid:
            return self._paid.popleft()
        if self._held is not None:
            source, call = self._held
            if not self._fits(source, call):
                return None
            self._held = None
            return call
        while self._rotation:
            source = self._rotation[0]
            taken = source.next()
            if taken is None:
                # A source that has just ended has already left.
                if source in self._waiting:
                    self._waiting.discard(source)
                    self._rotation.remove(source)
                continue
            self._rotation.rotate(-1)
            if not self._fits(source, taken):
                self._held = (source, taken)
                return None
            return taken
        return None

    def _fits(self, source: Source, call: Call) -> bool:
        # A call larger than the whole budget goes alone rather than never.
        held = self.budget.bytes_in_flight
        return held <= 0 or held + call.cost <= source.max_bytes

    async def _work(self) -> None:
        budget = self.budget
        self._starting -= 1
        worker = asyncio.current_task()
        assert worker is not None
        try:
            # A lowered limit is obeyed by the workers that are too many: they leave.
            while len(self._workers) <= budget.limit:
                call = self._take()
                if call is None:
                    break
                await self._carry_out(call, worker)
                if budget.limit > len(self._workers):
                    self._refill()
        finally:
            self._workers.discard(worker)

    async def _carry_out(self, call: Call, worker: asyncio.Task[None]) -> None:
        budget = self.budget
        budget.in_flight += 1
        budget.bytes_in_flight += call.cost
        call.worker = worker
        error: BaseException | None = None
        try:
            await self._send(call)
        except asyncio.CancelledError as cancelled:
            error = cancelled
            if not call.cancelled:
                raise
            worker.uncancel()
        except Exception as failure:
            error = failure
        finally:
            call.worker = None
            budget.in_flight -= 1
            if error is not None:
                budget.bytes_in_flight -= call.cost
            call.done(error)
            # Its traceback holds this frame: no way back may lead from here to the error.
            error = None

    async def _send(self, call: Call) -> None:
        """Send `call` until it succeeds or its policy gives up; the error then says how often and how long."""
        clock = self._clock_here()
        begun = call.started = clock()
        while True:
            sent_at = clock()
            call.attempts += 1
            try:
                await call.send()
            except StoreError as error:
                now = clock()
                call.seconds = now - begun
                if overload(error):
                    self.budget.overloaded(sent_at, now)
                delay = call.policy.delay(error, attempt=call.attempts, elapsed=call.seconds, jitter=random.random())
                if delay is None:
                    error.attempts = call.attempts
                    error.elapsed = call.seconds
                    raise
                await asyncio.sleep(delay)
            else:
                call.seconds = clock() - begun
                self.budget.succeeded()
                return


class Scheduler:
    """All origins of one I/O thread."""

    def __init__(self) -> None:
        self._origins: dict[Hashable, Origin] = {}

    def origin(self, key: Hashable) -> Origin:
        """Return the one queue of an origin."""
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = Origin()
        return origin

    async def close(self) -> None:
        """Stop everything that is under way."""
        for origin in self._origins.values():
            await origin.close()
        self._origins.clear()
