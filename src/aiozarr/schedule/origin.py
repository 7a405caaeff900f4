"""The queue of one origin: sends the calls of all callers under one budget, round-robin between callers.

Where a store has a connection at hand, a call is sent at once and nobody waits for it; else a worker does.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from aiozarr.errors import StoreError
from aiozarr.schedule.ahead import Ahead
from aiozarr.schedule.budget import Budget
from aiozarr.schedule.call import Call, Source
from aiozarr.schedule.coalesce import Economy
from aiozarr.schedule.learn import Learner
from aiozarr.schedule.retry import overload
from aiozarr.settings import Settings


class Origin:
    """The queue of one origin: its budget, the callers that have work, and the workers that do it."""

    blocking = False

    def __init__(self, budget: Budget | None = None, after_answers: Callable[[], None] | None = None) -> None:
        """Begin empty; `after_answers` is called whenever all answers that have come at once are dealt with."""
        self.budget = budget or Budget()
        self._after_answers = after_answers
        self.learner = Learner()
        self._rotation: deque[Source] = deque()
        self._waiting: set[Source] = set()
        self._held: tuple[Source, Call] | None = None
        self._paid: deque[Call] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._sent: set[Call] = set()  # calls that no worker waits for
        self._handed: set[Call] = set()  # calls whose worker has not begun yet
        self._over: deque[tuple[Call, Exception | None]] = deque()  # their answers have come
        self._closed = False
        self._starting = 0
        self._ahead = Ahead()
        self._clock: Callable[[], float] | None = None

    def economy(self, settings: Settings) -> Economy:
        """Return what merging may spend for a caller with these settings."""
        gap = self.learner.gap() if settings.gap == "auto" else settings.gap
        return Economy(gap, settings.max_over_read, settings.max_request_bytes)

    def enter(self, source: Source) -> None:
        """A caller begins: its fixed limit, if it has one, holds from now on."""
        if source.max_requests is not None:
            self.budget.cap(source.max_requests)
        if not self.budget.in_flight:
            self._ahead.forget()

    def leave(self, source: Source) -> None:
        """A caller has ended; what it still had to send is dropped."""
        if source.max_requests is not None:
            self.budget.uncap(source.max_requests)
        if source in self._waiting:
            self._waiting.discard(source)
            self._rotation.remove(source)
        self.forget_cancelled()
        if self._paid or self._held is not None or self._rotation:
            self._look()

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
        self._look()

    def proceed(self, calls: Sequence[Call]) -> None:
        """Send calls whose bytes are counted already, before any that may have to wait for room: they make room."""
        self._paid.extend(calls)
        self._look()

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
            self._look()

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
        self._closed = True
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        for call in list(self._sent):
            self.give_up(call)
        await asyncio.gather(*workers, asyncio.sleep(0), return_exceptions=True)

    def _look(self) -> None:
        """Have a worker look for calls. It begins those that it can, and has others help it where it has to wait."""
        # Only who asks for the next call notices that there are no more.
        if not self._starting:
            self._start(1)

    def _refill(self, call: Call) -> None:
        """Start as many workers as the limit leaves room for and callers have calls; `call` is under way."""
        room = self._room
        if self._starting:
            return
        if room <= 0:
            self._look_ahead(call)
            return
        # A source that has handed out everything learns only by being asked that it is at its end.
        self._start(self._pending(room, of_each=1))

    def _pending(self, enough: int, *, of_each: int = 0) -> int:
        """Return how many calls there are to send, at least `of_each` source, or as many as are `enough` or more."""
        pending = len(self._paid) + (1 if self._held is not None else 0)
        for source in self._rotation:
            pending += max(of_each, source.pending())
            if pending >= enough:
                break
        return pending

    def _look_ahead(self, call: Call | None) -> None:
        if call is not None and self.budget.headroom:
            self._ahead.look(self.budget, call, self._pending)

    def _start(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(min(count, self._room)):
            self._starting += 1
            self._workers.add(loop.create_task(self._work()))

    @property
    def _room(self) -> int:
        """How many more requests there may be."""
        return self.budget.limit - len(self._workers) - len(self._sent)

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
        self._starting -= 1
        worker = asyncio.current_task()
        assert worker is not None
        call: Call | None = None
        try:
            # A lowered limit is obeyed by the workers that are too many: they leave.
            while self._room >= 0:
                call = self._take()
                if call is None:
                    break
                if self._begin(call):
                    continue
                self._count(call)
                self._refill(call)
                await self._carry_out(call, worker)
                self._refill(call)
            else:
                self._look_ahead(call)
        finally:
            self._workers.discard(worker)

    # --- without a worker ------------------------------------------------------------------------------------------

    def _begin(self, call: Call) -> bool:
        """Send `call` without a worker, if that can be."""
        call.started = self._clock_here()()
        call.attempts += 1
        try:
            call.under_way = call.begin()
        except Exception:
            # Whoever sends it again, and waits, gets the same.
            call.under_way = None
        if call.under_way is None:
            call.attempts -= 1
            return False
        self._count(call)
        self._sent.add(call)
        return True

    def _count(self, call: Call) -> None:
        """A call has been taken and will be sent: from now on it takes up room."""
        self.budget.in_flight += 1
        self.budget.bytes_in_flight += call.cost

    def ended(self, call: Call, error: Exception | None) -> None:
        """The answer to a call that was begun has come, or will not come because of `error`."""
        if not self._over:
            # Answers arrive in bursts: all are received before any is dealt with.
            asyncio.get_running_loop().call_soon(self._end_all)
        self._over.append((call, error))

    def _end_all(self) -> None:
        over = self._over
        try:
            while over:
                self._end(*over.popleft())
        finally:
            if over:  # whoever raised has harmed nobody else
                asyncio.get_running_loop().call_soon(self._end_all)
            elif self._after_answers is not None:
                self._after_answers()

    def _end(self, call: Call, error: Exception | None) -> None:
        if call.under_way is None:
            return  # it was given up in between
        call.under_way = None
        self._sent.discard(call)
        if isinstance(error, StoreError):
            # It may have to wait, and be sent again: that is a worker's business.
            self._hand_over(call, error)
            return
        budget = self.budget
        if error is None:
            call.seconds = self._clock_here()() - call.started
            budget.succeeded()
        else:
            budget.bytes_in_flight -= call.cost
        budget.in_flight -= 1
        call.done(error)
        self._advance()

    def give_up(self, call: Call) -> None:
        """A call that was begun is cancelled: it ends in the loop's next turn."""
        if call.under_way is not None:
            call.under_way.give_up()
            call.under_way = None
            asyncio.get_running_loop().call_soon(self._given_up, call)

    def _given_up(self, call: Call) -> None:
        self._sent.discard(call)
        self._drop(call)
        self._advance()

    def _drop(self, call: Call) -> None:
        self.budget.in_flight -= 1
        self.budget.bytes_in_flight -= call.cost
        call.done(asyncio.CancelledError())

    def _advance(self) -> None:
        """Send the next calls, in place of one that has ended."""
        while not self._closed and self._room > 0 and (call := self._take()) is not None:
            if not self._begin(call):
                self._count(call)
                self._hand_over(call, None)
            self._look_ahead(call)

    def _hand_over(self, call: Call, failure: StoreError | None) -> None:
        """Give a call that is counted to a worker of its own; `failure`: what its first request has come to."""
        worker = asyncio.get_running_loop().create_task(self._go_on(call, failure))
        self._workers.add(worker)
        self._handed.add(call)
        worker.add_done_callback(lambda worker: self._never_begun(worker, call))

    def _never_begun(self, worker: asyncio.Task[None], call: Call) -> None:
        """A task that is cancelled before it has begun does nothing, not even its `finally`: here is what is left."""
        if call in self._handed:
            self._handed.discard(call)
            self._workers.discard(worker)
            self._drop(call)

    async def _go_on(self, call: Call, failure: StoreError | None) -> None:
        self._handed.discard(call)
        worker = asyncio.current_task()
        assert worker is not None
        try:
            if call.cancelled:  # before this task has begun
                self._drop(call)
            else:
                await self._carry_out(call, worker, failure)
        finally:
            self._workers.discard(worker)
            failure = None
        self._advance()

    # --- by a worker -----------------------------------------------------------------------------------------------

    async def _carry_out(self, call: Call, worker: asyncio.Task[None], failure: StoreError | None = None) -> None:
        budget = self.budget
        call.worker = worker
        error: BaseException | None = None
        try:
            await self._send(call, failure)
        except asyncio.CancelledError as cancelled:
            error = cancelled
            if not call.cancelled:
                raise
            worker.uncancel()
        except Exception as refusal:
            error = refusal
        finally:
            call.worker = None
            budget.in_flight -= 1
            if error is not None:
                budget.bytes_in_flight -= call.cost
            call.done(error)
            # Its traceback holds this frame: no way back may lead from here to the error.
            error = failure = None

    async def _send(self, call: Call, failure: StoreError | None) -> None:
        """Send `call` until it succeeds or its policy gives up; the error then says how often and how long.

        `failure`: what came of it the first time, when nobody waited.
        """
        clock = self._clock_here()
        if failure is None:
            call.started = clock()
        sent_at = begun = call.started
        while True:
            if failure is None:
                sent_at = clock()
                call.attempts += 1
                try:
                    await call.send()
                except StoreError as error:
                    failure = error
                else:
                    call.seconds = clock() - begun
                    self.budget.succeeded()
                    return
            now = clock()
            call.seconds = now - begun
            if overload(failure):
                self.budget.overloaded(sent_at, now)
            delay = call.policy.delay(failure, attempt=call.attempts, elapsed=call.seconds, jitter=random.random())
            if delay is None:
                failure.attempts = call.attempts
                failure.elapsed = call.seconds
                try:
                    raise failure
                finally:
                    failure = None  # its traceback holds this frame
            failure = None
            await asyncio.sleep(delay)
