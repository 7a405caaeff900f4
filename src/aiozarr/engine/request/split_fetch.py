"""An object, or a range of one, that is too large for one request: fetched in parts side by side, into one memory.

The first part goes ahead. What the head of its answer says, size and version, is known before its bytes have come: then
memory is taken, and the other parts are sent, each on the condition that the object is still of that version. A server
that answers with the whole object has answered all of it; one that tells no version is asked for all of it then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np

from aiozarr.engine.plan.split_plan import cut, first_part
from aiozarr.engine.request.errand import means_missing
from aiozarr.engine.request.fetch import MAX_RACES, ChunkFetch
from aiozarr.engine.request.flight import Flight
from aiozarr.engine.request.observed import RequestWatch
from aiozarr.errors import ChangedError, CodecError, ShortReadError, StoreError
from aiozarr.memory import empty
from aiozarr.model import Range, Value, Version
from aiozarr.schedule.call import Call
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores.contract import Store
from aiozarr.stores.receiving import Arrival, ReceivingStore

if TYPE_CHECKING:
    from aiozarr.engine.job import Job

AMPLIFICATION = 4
"""How many times larger than its codecs say an object may be that is fetched: somebody may have left more in it."""


class SplitFetch(ChunkFetch):
    """Fetch one chunk's bytes by several requests. This is the first of them, and the chunk's whole way to the workers.

    Its `cost` is that of all parts, which themselves cost nothing: none of them waits for room that another one of them
    holds.
    """

    __slots__ = (
        "_came",
        "_failure",
        "_first",
        "_limit",
        "_memory",
        "_most",
        "_others",
        "_races",
        "_size",
        "_stopped",
        "_under_way",
        "_vain",
        "_version",
    )

    def __init__(
        self,
        job: Job,
        store: Store,
        key: str,
        byte_range: Range | None,
        flight: Flight,
        *,
        cost: int,
        limit: int,
        if_match: Version | None = None,
    ) -> None:
        super().__init__(job, store, key, byte_range, [flight], cost=cost, if_match=if_match)
        known = flight.pipeline.encoded_size if byte_range is None else byte_range.length
        start = 0 if byte_range is None else byte_range.start
        self._limit = limit
        self._first = Range(start, first_part(known, limit))
        self._most = AMPLIFICATION * flight.pipeline.max_encoded_size
        self._others: list[_Part] = []
        self._under_way = 1
        self._races = 1
        self._came = 0  # bytes that the first part has brought
        self._vain = 0  # those of them that came once more with the whole
        self._stopped = False
        self._failure: BaseException | None = None
        self._forget()

    def _forget(self) -> None:
        self._memory: memoryview | None = None
        self._size: int | None = None
        self._version = self.if_match

    # --- sending ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """It is sent in parts, by workers."""

    async def send(self) -> None:
        begun = self._memory is not None
        if self.range is not None and not begun:  # where it ends is known, and of which version it is
            assert self.range.length is not None
            self._begin(self.range.length)
        value = await self.ask(self._first, or_all=self.range is None)
        if value is None:
            if begun or self.if_match is not None:
                raise self._changed()
            return
        self._came = memoryview(value.data).nbytes
        if self._memory is None:
            await self._begin_late(value)
        else:
            self.compare(value, self._first)

    async def ask(self, part: Range, *, or_all: bool = False) -> Value | None:
        """Ask for one part, and put what comes in its place."""
        store, condition = self.store, self._version if self._can_condition(self._version) else None
        placed: memoryview | None = None

        def receive(arrival: Arrival) -> memoryview | None:
            nonlocal placed
            placed = self._place(arrival)
            return placed

        try:
            if isinstance(store, ReceivingStore):
                value = await store.fetch_into(self.key, part, receive, if_match=condition, or_all=or_all)
            else:
                value = await store.fetch(self.key, part, if_match=condition)
        except StoreError as error:
            if not means_missing(error, self.settings):
                raise
            self.value = None
            return None
        memory = self._memory
        if value is not None and memory is not None and value.data is not placed:
            data = memoryview(value.data)
            at = 0 if value.size == data.nbytes else part.start - self._start
            if at + data.nbytes <= len(memory):
                memory[at : at + data.nbytes] = data
        return value

    def _place(self, arrival: Arrival) -> memoryview | None:
        """The head of an answer has come: return where its bytes belong."""
        if self._memory is None:
            size, complete = arrival.size, arrival.stop - arrival.start == arrival.size
            if size is None or size > self._most or (arrival.version is None and not complete):
                return None  # and `_begin_late` will see to it
            self._version, self._size = arrival.version, size
            self._begin(size, arrival.stop)
        elif arrival.version != self._version or self._size not in (None, arrival.size):
            return None  # and `compare` will say so
        assert self._memory is not None
        return self._memory[arrival.start - self._start : arrival.stop - self._start]

    def _begin(self, total: int, behind: int | None = None) -> None:
        """Take the memory for `total` bytes, and send for all that is not yet asked for: what is from `behind` on."""
        budget, first = self.origin.budget, self._first
        assert first.length is not None
        budget.bytes_in_flight += total - self.cost
        self.cost = total
        self._memory = empty(total, np.uint8).data
        behind = first.start + first.length if behind is None else behind
        self._others = [_Part(self, part) for part in cut(behind, self._start + total, self._limit)]
        self._under_way += len(self._others)
        self.origin.proceed(self._others)

    async def _begin_late(self, value: Value) -> None:
        """The bytes have come from a store that does not announce them, or in a way that could not be announced."""
        data, size = memoryview(value.data), value.size
        if size is not None and size > self._most:
            reason = f"the object has {size} bytes, and a chunk encodes to {self._most // AMPLIFICATION} at most"
            raise CodecError(reason, store=self.store_url, key=self.key)
        if size is None or (value.version is None and size != data.nbytes):
            # There is no telling what is behind the first part, or whether it is of the same state.
            if value.version is None:
                self.desk.versionless.add(self.store.identity)
            self.lookups += 1
            found = await self.store.fetch(
                self.key, if_match=value.version if self._can_condition(value.version) else None
            )
            if found is None:
                raise self._changed()
            data, size, value = memoryview(found.data), memoryview(found.data).nbytes, found
            self._vain, self._came = self._came, self._came + size
        self._version, self._size = value.version, size
        self._begin(size, data.nbytes)
        assert self._memory is not None
        self._memory[: data.nbytes] = data

    @property
    def _start(self) -> int:
        return self.start or 0

    def compare(self, value: Value, part: Range) -> None:
        """Check that an answer is of the version and the size that the others are of, and as long as it should be."""
        if value.version is not None and self._version is not None and value.version != self._version:
            raise self._changed(part)
        if None not in (value.size, self._size) and value.size != self._size:
            raise self._changed(part)
        assert part.length is not None
        got = memoryview(value.data).nbytes
        if got < (part.length if self._size is None else min(part.length, self._size - part.start)):
            raise ShortReadError(
                f"{got} bytes came where {part.length} were asked for", store=self.store_url, key=self.key, range=part
            )

    def _changed(self, part: Range | None = None) -> ChangedError:
        reason = "the object was replaced while it was being read"
        return ChangedError(reason, store=self.store_url, key=self.key, range=part or self.range)

    # --- the ends --------------------------------------------------------------------------------------------------

    def done(self, error: BaseException | None) -> None:
        if error is not None:
            self.cost = self._came = self._vain = 0  # the cost was given back by whoever sent it
        else:
            self.origin.learner.answered(self.seconds, self._came)
            if self._memory is None:  # nothing is stored
                self.origin.release(self.cost)
                self.cost = 0
        if self.watch is not None and self.attempts:
            self._note(self.watch, self._came, error)
        self._ended(error)

    def wanted(self, fetched: int) -> int:
        return fetched

    def part_done(self, part: _Part, error: BaseException | None) -> None:
        """One of the other parts is over."""
        fetched = part.range.length or 0
        if error is None:
            self.origin.learner.answered(part.seconds, fetched)
        if self.watch is not None and part.attempts:
            self.watch.observer.tell(self._event_of(part, part.range, 0 if error else fetched, error, self.watch))
        self._ended(error)

    def _ended(self, error: BaseException | None) -> None:
        self._under_way -= 1
        if error is not None and self._failure is None:
            self._failure = error
            self._stop()
        if not self._under_way:
            self._settle()

    def _settle(self) -> None:
        """All that was sent has ended: hand the bytes on, or begin anew, or fail."""
        self._others = []
        error, self._failure = self._failure, None
        if error is None:
            if self._memory is not None:
                self.value = Value(self._memory, self._version, self._size)
            self._forget()
            self.deliver(None)
            return
        self.origin.release(self.cost)
        self.cost = 0
        if isinstance(error, ChangedError) and self.if_match is None and self._races < MAX_RACES and self.waiting:
            self._races += 1
            self.lookups = self.attempts = 0
            self._stopped = self.cancelled = False
            self._forget()
            self._under_way = 1
            self.cost = self.flights[0].pipeline.spec.nbytes
            self.origin.proceed([self])
            return
        self._forget()
        self.deliver(error)

    def cancel(self) -> None:
        self.cancelled = True
        self._stop()

    def _stop(self) -> None:
        """Stop every part; those that nobody has taken end in the loop's next turn."""
        if self._stopped:
            return
        self._stopped = self.cancelled = True
        calls: list[Call] = [self, *self._others]
        for call in self.origin.withdraw(calls):
            asyncio.get_running_loop().call_soon(call.done, asyncio.CancelledError())
        for call in calls:
            Call.cancel(call)

    # --- what is told ----------------------------------------------------------------------------------------------

    def _note(self, watch: RequestWatch, fetched: int, error: BaseException | None) -> None:
        if watch.event is not None:  # of an earlier round
            watch.observer.tell(watch.event)
        watch.event = self._event_of(self, self._first, fetched, error, watch)

    def _event_of(
        self, call: Call, part: Range, fetched: int, error: BaseException | None, watch: RequestWatch
    ) -> RequestEvent:
        seconds = call.seconds or self.origin.now() - call.started
        return RequestEvent(
            "fetch",
            self.store_url,
            self.key,
            part,
            fetched - (self._vain if call is self else 0),
            fetched,
            seconds,
            call.attempts + (self.lookups if call is self else 0),
            error,
            call.started,
            max(0.0, call.started - watch.ready),
        )


class _Part(Call):
    """One of the parts behind the first."""

    __slots__ = ("_whole", "range")

    def __init__(self, whole: SplitFetch, part: Range) -> None:
        super().__init__(whole.policy, 0)
        self._whole = whole
        self.range = part

    async def send(self) -> None:
        value = await self._whole.ask(self.range)
        if value is None:
            raise self._whole._changed(self.range)
        self._whole.compare(value, self.range)

    def done(self, error: BaseException | None) -> None:
        self._whole.part_done(self, error)
