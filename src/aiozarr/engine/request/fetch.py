"""The request for one object's bytes, whole or one range, with the chunks it carries; sent by loop or worker."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aiozarr.engine.request.errand import Errand, means_missing
from aiozarr.engine.request.flight import Flight, Waiter
from aiozarr.engine.request.observed import RequestWatch, TimedUnpack
from aiozarr.engine.request.unpack import Unpack
from aiozarr.engine.work.pool import Work, finish, run_quietly
from aiozarr.errors import ChangedError, ShortReadError, StoreError
from aiozarr.model import ByteRange, Range, Suffix, Value, Version
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store
from aiozarr.stores.prompt import PromptStore, Sent

if TYPE_CHECKING:
    from aiozarr.engine.job import Job

MAX_RACES = 4
"""How often the end of an object is looked for that is replaced between its size and its bytes."""


class Fetch(Errand):
    """Fetch bytes of one object. What is done with them is a subclass's matter."""

    __slots__ = ("if_match", "lookups", "range", "value")

    def __init__(
        self,
        job: Job,
        store: Store,
        key: str,
        byte_range: ByteRange | None,
        if_match: Version | None,
        cost: int,
    ) -> None:
        super().__init__(job, store, key, cost)
        self.range = byte_range
        self.if_match = if_match
        self.value: Value | None = None
        self.lookups = 0  # requests besides the one for the bytes

    def begin(self) -> Sent | None:
        store = self.store
        if not isinstance(store, PromptStore) or (type(self.range) is Suffix and not store.supports.suffix_reads):
            return None
        return store.begin_fetch(self.key, self.range, self._condition(), self)

    def prepare(self, requests: int) -> None:
        if isinstance(self.store, PromptStore):
            self.store.prepare(requests)

    def fetched(self, value: Value | None) -> None:
        """What was begun has come."""
        self.value = value
        try:
            self._check()
        except StoreError as error:
            self.origin.ended(self, error)
        else:
            self.origin.ended(self, None)

    def failed(self, error: Exception) -> None:
        """What was begun has not come."""
        if isinstance(error, StoreError) and means_missing(error, self.settings):
            self.fetched(None)
        else:
            self.origin.ended(self, error)

    def cancel(self) -> None:
        super().cancel()
        if self.under_way is not None:
            self.origin.give_up(self)

    async def send(self) -> None:
        store, supports = self.store, self.store.supports
        try:
            if type(self.range) is Suffix and supports.partial_reads and not supports.suffix_reads:
                self.value = await self._fetch_end(self.range)
            else:
                self.value = await store.fetch(self.key, self.range, if_match=self._condition())
        except StoreError as error:
            if not means_missing(error, self.settings):
                raise
            self.value = None
        self._check()

    async def _fetch_end(self, suffix: Suffix) -> Value | None:
        """Fetch the last bytes by their place, from a store that refuses suffix ranges.

        The size is asked for unless it is known; the range is of the version that had that size, or all begins anew.
        """
        store, sizes = self.store, self.desk.sizes
        race = 1
        while True:
            entry = sizes.get(store, self.key)
            known = entry is not None and self.if_match in (None, entry.version)
            if not known:
                self.lookups += 1
                entry = await store.stat(self.key)
            if entry is None:
                return None
            if entry.size is None:
                return await store.fetch(self.key, suffix, if_match=self._condition())
            start = max(0, entry.size - suffix.length)
            condition = self._condition() or (entry.version if self._can_condition(entry.version) else None)
            try:
                value = await store.fetch(self.key, Range(start, entry.size - start), if_match=condition)
            except ChangedError:
                if not known and (self.if_match is not None or race == MAX_RACES):
                    raise
            else:
                if value is None or value.size in (None, entry.size):
                    sizes.note(store, self.key, entry.size if value else None, entry.version)
                    return value
                if race == MAX_RACES:
                    raise ChangedError("the object changes while its end is looked for", store=store.url, key=self.key)
            sizes.drop(store, self.key)
            self.lookups += 1
            race += not known

    def send_now(self, store: BlockingStore) -> None:
        try:
            self.value = store.fetch_now(self.key, self.range, if_match=self._condition())
        except StoreError as error:
            if not means_missing(error, self.settings):
                raise
            self.value = None
        self._check()

    def _condition(self) -> Version | None:
        return self.if_match if self._can_condition(self.if_match) else None

    def _can_condition(self, version: Version | None) -> bool:
        return version is not None and not version.weak and self.store.supports.conditional_reads

    def _check(self) -> None:
        """Whatever the store checked: the answer is of the expected version and as long as the range."""
        value = self.value
        if self.if_match is not None and (
            value is None or (value.version is not None and value.version != self.if_match)
        ):
            raise ChangedError(
                "the object was replaced while it was being read", store=self.store_url, key=self.key, range=self.range
            )
        if value is not None and type(self.range) is Range and self.range.length is not None:
            got = memoryview(value.data).nbytes
            if got != self.range.length and self.if_match is not None:
                raise ShortReadError(
                    f"{got} bytes came where {self.range.length} were asked for",
                    store=self.store_url,
                    key=self.key,
                    range=self.range,
                )

    def wanted(self, fetched: int) -> int:
        """Return how many of the `fetched` bytes somebody needs."""
        return fetched

    def account(self, error: BaseException | None) -> None:
        """The request has ended: count its bytes, and note it where somebody observes."""
        fetched = 0 if self.value is None else memoryview(self.value.data).nbytes
        if error is None:
            self.origin.budget.bytes_in_flight += fetched - self.cost
            self.cost = fetched
            self.origin.learner.answered(self.seconds, fetched)
        if self.watch is not None and self.attempts:
            self._note(self.watch, fetched, error)

    def _note(self, watch: RequestWatch, fetched: int, error: BaseException | None) -> None:
        if self.lookups:
            looked = RequestEvent("stat", self.store_url, self.key, None, 0, 0, 0.0, self.lookups, None, self.started)
            watch.observer.tell(looked, retries=0)
        wanted = self.wanted(fetched) if error is None else 0
        watch.event = RequestEvent(
            "fetch",
            self.store_url,
            self.key,
            self.range,
            # Chunks may share bytes, which come once.
            min(wanted, fetched),
            fetched,
            # A cancelled request has been cut off.
            self.seconds or self.origin.now() - self.started,
            self.attempts,
            error,
            self.started,
            self.started - watch.ready,
        )

    def may_carry(self, key: str, place: Hashable) -> bool:
        """Return whether it may bring bytes of the object `key`, which is at `place`."""
        # The keys of one object, seen from several roots, end alike; only then is its place worth the time.
        alike = self.key.endswith(key) or key.endswith(self.key)
        return alike and self.store.place_of(self.key) == place

    def abandoned(self) -> None:
        """One of the request's flights has nobody left who waits for it."""

    def heir(self) -> Waiter | None:
        """Return another reader who waits for what this request brings."""
        return None


class ChunkFetch(Fetch):
    """Fetch the bytes of one or more chunks of one object, and hand them to the workers."""

    __slots__ = ("flights", "open", "waiting")

    def __init__(
        self,
        job: Job,
        store: Store,
        key: str,
        byte_range: Range | None,
        flights: list[Flight],
        *,
        cost: int,
        if_match: Version | None = None,
    ) -> None:
        super().__init__(job, store, key, byte_range, if_match, cost)
        self.flights = flights
        self.open = self.waiting = len(flights)
        for flight in flights:
            flight.request = self

    @property
    def start(self) -> int | None:
        """Where the range begins in the object; None for a whole object."""
        return self.range.start if type(self.range) is Range else None

    def wanted(self, fetched: int) -> int:
        if self.range is None:
            return fetched
        return sum([flight.stop - flight.start for flight in self.flights if flight.stop is not None])

    def dispatch(self) -> Sequence[Work]:
        """Return the work that is left of the flights; who joins them now is late."""
        works: list[Work] = []
        watch = self.watch
        for flight in self.flights:
            flight.dispatched = True
            if flight.sinks:
                works.append(Unpack(flight, None) if watch is None else TimedUnpack(flight, watch))
        self.open = len(works)
        return works

    def load(self, works: Sequence[Work]) -> Sequence[Work]:
        """Give each piece of work its bytes of the answer."""
        value = self.value
        if value is None:
            return works
        view = None if self.range is None else memoryview(value.data)
        for work in works:
            assert isinstance(work, Unpack)
            work.data = value.data if view is None else view[work.flight.start : work.flight.stop]
        return works

    def begin_now(self) -> Sequence[Work]:
        return self.dispatch()

    def unpack_now(self, works: Sequence[Work]) -> None:
        for work in self.load(works):
            run_quietly(work)

    def finish_now(self, works: Sequence[Work], error: BaseException | None) -> None:
        self.account(error)
        self.value = None
        if error is not None:
            self._fail(works, error)
        else:
            finish(works)

    def done(self, error: BaseException | None) -> None:
        self.account(error)
        self.deliver(error)

    def deliver(self, error: BaseException | None) -> None:
        """Hand what has come to the workers, or fail."""
        works = self.dispatch()
        if error is not None:
            self._fail(works, error)
            return
        if not works:
            self.origin.release(self.cost)
            self.gone()
            return
        self.load(works)
        self.value = None
        for work in works:
            self.desk.pool.submit(work, self.line)

    def _fail(self, works: Sequence[Work], error: BaseException) -> None:
        # Who fails may ask again, and must not join what has failed.
        for flight in self.flights:
            self._close(flight)
        for work in works:
            assert isinstance(work, Unpack)
            for sink in work.flight.take_sinks():
                sink.waiter.failed(sink, error)
                sink.flight = None
        self.flights.clear()
        self.gone()

    def _close(self, flight: Flight) -> bool:
        """Nobody joins `flight` any more; return whether anybody could until now."""
        flights = self.desk.flights
        if flights.get(flight.token) is not flight:
            return False
        del flights[flight.token]
        return True

    def heir(self) -> Waiter | None:
        for flight in self.flights:
            for sink in flight.sinks:
                return sink.waiter
        return None

    def landed(self, flight: Flight, chunk: NDArray[Any] | None) -> None:
        # What nobody could join may have been changed by this process since its bytes were read.
        if self._close(flight) and chunk is not None and flight.keepers:
            now = asyncio.get_running_loop().time()
            for cache, name in flight.keepers.items():
                cache.put(name, self.store, self.key, chunk, now)

    def unpack(self, work: Work) -> None:
        watch = self.watch
        self.desk.pool.submit(work if watch is None else watch.observer.timed(work, self.store_url), self.line)

    def unpacked(self) -> None:
        self.open -= 1
        if not self.open:
            self.origin.release(self.cost)
            self.flights.clear()
            self.gone()

    def abandoned(self) -> None:
        self.waiting -= 1
        if not self.waiting:
            self.cancel()
