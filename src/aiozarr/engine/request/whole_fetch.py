"""The request for a whole shard, made once for all who wait for its index: what they want of it is cut out of it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from aiozarr.codecs import ShardLayout
from aiozarr.engine.cache.indexes import IndexEntry
from aiozarr.engine.plan.whole_shard import is_whole
from aiozarr.engine.request.fetch import ChunkFetch
from aiozarr.engine.request.flight import Flight
from aiozarr.engine.request.index_fetch import IndexFetch, IndexWaiter
from aiozarr.model import Range, resolve_range
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.job import Job


class WholeFetch(IndexFetch):
    """Fetch a shard of at most `bound` bytes. No more than that is asked for: a larger one is read in two phases."""

    __slots__ = ("_bound", "_chunks", "_wanted")

    def __init__(
        self,
        job: Job,
        store: Store,
        key: str,
        layout: ShardLayout,
        token: Hashable,
        waiter: IndexWaiter,
        flying: Hashable,
        bound: int,
    ) -> None:
        super().__init__(job, store, key, layout, token, waiter, flying)
        self.range = asked = Range(0, bound)
        self.cost = self._bound = bound
        self._wanted = 0
        # It takes over with the answer: the way of inner chunks to the workers is that of any other.
        self._chunks = ChunkFetch(job, store, key, asked, [], cost=0)

    def add(self, flight: Flight, start: int, length: int) -> None:
        """Give `flight` its bytes, from `start` of the shard on, once all who wait have said what they want."""
        flight.start, flight.stop = start, start + length
        flight.request = self._chunks
        self._chunks.flights.append(flight)
        self._wanted += length

    def wanted(self, fetched: int) -> int:
        return min(self._wanted, fetched)

    def done(self, error: BaseException | None) -> None:
        current = self._close()
        waiters, self.waiters = self.waiters, []
        refused = self.value is not None and not is_whole(self.value, self._bound)
        failure = error
        if error is None and not refused:
            failure = self._decode_if_needed()
        if failure is not None or refused:
            self._settle(error)
            for waiter in waiters:
                if failure is not None:
                    waiter.index_failed(failure)
                else:
                    waiter.whole_refused()
            error = failure = None  # their tracebacks may lead here
            self.gone()
            return
        assert self.entry is not None
        if current:
            self._keep(self.entry)
        for waiter in waiters:
            waiter.index_ready(self.entry, self)
        if not current:
            self._hide()
        if self._chunks.flights:
            self._hand_on()
        else:
            self._settle(None)
        self.gone()

    def _hide(self) -> None:
        """What has come may be older than what this process has stored since: nobody else joins it, nothing is kept."""
        flights = self.desk.flights
        for flight in self._chunks.flights:
            if flights.get(flight.token) is flight:
                del flights[flight.token]

    def _settle(self, error: BaseException | None) -> None:
        """The request is over, and nothing of what it brought is needed any more."""
        self.account(error)
        if error is None:
            self.origin.release(self.cost)
        self.value = None

    def _hand_on(self) -> None:
        """Leave the bytes, and what there is to be told of them, to the inner chunks."""
        chunks = self._chunks
        self.account(None)
        chunks.value, chunks.cost, self.value = self.value, self.cost, None
        chunks.watch, self.watch = self.watch, None
        chunks.waiting = len(chunks.flights)
        chunks.deliver(None)

    def _decode(self) -> IndexEntry:
        value = self.value
        if value is None or not is_whole(value, self._bound):
            return IndexEntry(None, None)
        data = memoryview(value.data)
        start, stop = resolve_range(data.nbytes, self.layout.index_range)
        entry = self._parse(data[start:stop], data.nbytes, value.version)
        self._wanted = self.layout.index_nbytes
        return entry
