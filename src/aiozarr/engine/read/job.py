"""A read: walks its plan lazily, asks for chunks one by one as the queue has room, and ends when all have landed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.desk import Desk
from aiozarr.engine.job import Job
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.part_plan import PartPlan
from aiozarr.engine.plan.split_plan import NEVER, split_limit
from aiozarr.engine.progress import Progress
from aiozarr.engine.read.direct_read import DirectRead, Place
from aiozarr.engine.read.part_read import ask_for_part
from aiozarr.engine.read.read import Read
from aiozarr.engine.read.shard_read import ShardRead, Split
from aiozarr.engine.read.sharing import Sharing
from aiozarr.engine.request.fetch import ChunkFetch, Fetch
from aiozarr.engine.request.flight import Flight, Request, Sink
from aiozarr.engine.request.gathering import MAX_WAITING
from aiozarr.engine.request.local_queue import BATCH_CALLS
from aiozarr.engine.request.split_fetch import SplitFetch
from aiozarr.engine.request.unpack import Fill
from aiozarr.engine.work.pool import Work
from aiozarr.engine.work.present import Presenting, extent_of
from aiozarr.errors import ChecksumError, MissingChunkError
from aiozarr.grid.projection import Part
from aiozarr.grid.touched import LONG
from aiozarr.model import Range, Version
from aiozarr.schedule.call import Call
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

MAX_ANNOUNCED = 64
"""A read of no more stored objects lets others join all of them from its beginning; as many requests may be in flight
at first."""


class ReadJob(Job):
    """All reads of one caller from one origin, as a source of requests. Lives on the I/O loop."""

    def __init__(
        self,
        desk: Desk,
        reads: list[Read],
        *,
        settings: Settings,
        recorder: Report | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        projections = [read.parts for read in reads]
        super().__init__(
            desk,
            desk.queue_of(reads[0].store),
            settings=settings,
            recorder=recorder,
            progress=progress,
            total=sum(map(len, projections)),
            bytes_total=sum([read.out.nbytes for read in reads]),
        )
        self.economy = self.queue.economy(settings)
        self.parts = PartPlan(self.economy, blocking=self.queue.blocking)
        # Parts of a file would all be read by the same disk.
        self._split_above = NEVER if self.queue.blocking else settings.max_request_bytes
        self.sharing = Sharing(desk, settings)
        # Ranges that wait for the end of this turn of the loop.
        self.gathering = 0
        self._begun = self._placed = 0
        self._plan: Iterator[tuple[Read, Part]] = (
            (read, part) for read, whole in zip(reads, projections, strict=True) for part in whole
        )
        self._planned = False
        # Shards whose points are being sorted: no more of them at a time than there are threads to do it.
        self.splitting = 0
        self._put_back: tuple[Read, Part] | None = None
        self._left = self.bytes_total
        self._direct: set[DirectRead] = set()
        self._ready: deque[Fetch] = deque()
        self._sinks: set[Sink] = set()
        self._shards: set[ShardRead] = set()
        self._dying: set[Fetch] = set()
        # Pieces of bulks that workers have.
        self.at_work = 0
        self._repeated: dict[str, Request] = {}
        fresh = [read.fresh for read in reads if read.fresh is not None]
        self._presenting = Presenting(desk.pool, fresh, extent_of(reads[0].out, projections[0]) if fresh else 0)

    async def run(self) -> None:
        self._presenting.begin(over=self.check_end, led=self.proceed)
        await super().run()

    def announce(self) -> None:
        """Begin all of a small read at once: who wants the same joins it, however late its turn comes.

        A large one begins what it has requests for, and others join that.
        """
        if self.queue.blocking or self.total > MAX_ANNOUNCED:
            return
        try:
            while self.may_begin() and not self._is_busy() and (step := self._next_step()) is not None:
                self._begun += 1
                self._begin(*step)
        except Exception as error:
            self.stop(error)

    # --- as a source -----------------------------------------------------------------------------------------------

    def take(self) -> Call | None:
        if self.queue.blocking and self._presenting.leads:
            return None
        while not self.stopped:
            if self._ready:
                return self._ready.popleft()
            if not self.may_begin() or self._is_busy():
                return None
            step = self._next_step()
            if step is None:
                self._planned = True
                break
            if self.queue.blocking and step[0].layout.shard is None and not self.sharing.keeps:
                return self._take_run(*step)
            self._begun += 1
            self._begin(*step)
        self.check_end()
        return None

    def _next_step(self) -> tuple[Read, Part] | None:
        step, self._put_back = self._put_back, None
        return step or next(self._plan, None)

    def _take_run(self, read: Read, projection: Part) -> DirectRead:
        """Return as many chunks of one array as make a batch, in one errand."""
        layout = read.layout
        nbytes = layout.object_of(projection).spec.nbytes
        places = [Place(*self.target(read, projection))]
        # The last runs are short: no thread is at work much longer than the others.
        whole = self.queue.share(self._left)
        room = whole - nbytes
        while room > 0 and len(places) < BATCH_CALLS and self.may_begin():
            step = self._next_step()
            if step is None or step[0] is not read:
                self._put_back = step
                break
            if layout.single is None:
                nbytes = layout.object_of(step[1]).spec.nbytes
            places.append(Place(*self.target(*step)))
            room -= nbytes
        self._begun += len(places)
        self._left -= whole - room
        errand = DirectRead(self, read, places, whole - room)
        self._direct.add(errand)
        return errand

    def pending(self) -> int:
        return len(self._ready) + self.total - self._begun

    def _is_busy(self) -> bool:
        """Return whether so much is at work besides requests that what is begun next would only hold up others."""
        return self.splitting >= self.desk.pool.threads or self.sharing.is_busy or self.gathering >= MAX_WAITING

    def may_begin(self) -> bool:
        """Return whether another stored object may be asked for."""
        return True

    def target(self, read: Read, projection: Part) -> tuple[NDArray[Any], Part]:
        """Return the array that a stored object's elements go to, and their place in it."""
        return read.out, projection

    def completed(self, out: NDArray[Any]) -> None:
        """All of a stored object's elements are in `out`."""

    def push(self, fetch: Fetch, ready: float | None = None) -> None:
        """Send `fetch` as soon as the queue has room.

        Whoever observes learns that it could have been sent since `ready`; None: since the read began.
        """
        if ready is not None and fetch.watch is not None:
            fetch.watch.ready = ready
        self._ready.append(fetch)

    def adopt(self, request: Call) -> None:
        assert isinstance(request, Fetch)
        self.push(request)
        self.queue.offer(self)

    def _begin(self, read: Read, projection: Part) -> None:
        key = read.prefix + read.layout.key_encoding.encode(projection.coords)
        out, placed = self.target(read, projection)
        if read.layout.shard is not None:
            shard = ShardRead(self, read.layout, read.store, key, out, placed)
            self._shards.add(shard)
            if placed.listed < LONG:
                shard.begin()
            else:
                self.splitting += 1
                self.desk.pool.submit(Split(shard))
            return
        raw = read.layout.largest.pipeline.raw is not None
        if not (raw and ask_for_part(self, read, key, Sink(self, out, placed, read))):
            self.want(read, key, out, placed)

    def want(self, read: Read, key: str, out: NDArray[Any], projection: Part) -> None:
        """Send for a whole chunk, unless it is at hand or on its way."""
        token = (read.token, key)
        pipeline = read.layout.object_of(projection).pipeline
        sink = Sink(self, out, projection, read)
        if self.sharing.serve(self, sink, token):
            return
        flight = self.sharing.wait_for(self, sink, token, pipeline)
        if flight is not None:
            self.push(self.fetch(read.store, key, None, [flight], pipeline.spec.nbytes))

    def fetch(
        self,
        store: Store,
        key: str,
        byte_range: Range | None,
        flights: list[Flight],
        cost: int,
        if_match: Version | None = None,
    ) -> ChunkFetch:
        """Return the request for the bytes of `flights`, of which there may be about `cost`; more than one if large."""
        told = byte_range is None or if_match is not None
        if (
            cost > self._split_above
            and len(flights) == 1
            and told
            and self.desk.tells_versions(store)
            and (limit := split_limit(store, self.settings)) < cost
        ):
            return SplitFetch(self, store, key, byte_range, flights[0], cost=cost, limit=limit, if_match=if_match)
        return ChunkFetch(self, store, key, byte_range, flights, cost=cost, if_match=if_match)

    def proceed(self) -> None:
        """Something that it has waited for is over: there may be more to begin."""
        if not self._ended:
            self.queue.offer(self)

    def expect(self, sink: Sink) -> None:
        """The job does not end before `sink` has landed or failed."""
        self._sinks.add(sink)

    def fill(self, sinks: list[Sink], fill_value: NDArray[Any], store: Store) -> None:
        """Give `sinks` the fill value, which `store` holds nothing for."""
        self._sinks.update(sinks)
        self.submit(Fill(sinks, fill_value), store)

    def submit(self, work: Work, store: Store) -> None:
        """Have a worker do `work` on elements of an array in `store`."""
        self.desk.pool.submit(work if self.observer is None else self.observer.timed(work, store.url), self.line)

    # --- what comes back -------------------------------------------------------------------------------------------

    def landed(self, sink: Sink) -> None:
        self.done += 1
        self.completed(sink.out)
        self.sink_closed(sink, landed=True)

    def failed(self, sink: Sink, error: BaseException) -> None:
        self._sinks.discard(sink)
        request = sink.flight.request if sink.flight is not None else None
        if self._error is None and isinstance(error, ChecksumError) and self._may_repeat(request):
            # Bytes can be damaged on their way: they are fetched once more before they count as damaged in the store.
            assert request is not None
            self.ready_at = self.now()
            self.want(sink.origin, request.key, sink.out, sink.projection)
            self.queue.offer(self)
            return
        self.stop(error)

    def _may_repeat(self, request: Request | None) -> bool:
        """Return whether `request` is the first for its key that brought damaged bytes; several sinks may say so."""
        return request is not None and self._repeated.setdefault(request.key, request) is request

    def direct_done(self, errand: DirectRead, error: BaseException | None) -> None:
        """A worker is through with a run of chunks."""
        self._direct.discard(errand)
        if error is not None:
            self.stop(error)
            return
        if not self.stopped:
            self.done += len(errand.places)
            self._placed += len(errand.places)
            for place in errand.places:
                self.completed(place.out)
            if self.watched:
                self.advanced(sum([each.projection.size * each.out.dtype.itemsize for each in errand.places]))
        self.check_end()

    @property
    def gave_up(self) -> bool:
        return self.stopped

    def missing(self, sink: Sink, key: str) -> BaseException | None:
        return self.missing_error(sink.origin.store, key)

    def unpadded(self, sink: Sink) -> CodecPipeline | None:
        layout: ArrayLayout = sink.origin.layout
        return layout.unpadded(sink.projection)

    def missing_error(self, store: Store, key: str) -> BaseException | None:
        """Return the error for an object that is not stored; None where it reads as the fill value."""
        if self.settings.missing == "fill":
            return None
        return MissingChunkError(
            f"the chunk {key!r} is not stored, and Settings.missing is 'raise' (store {store.url})",
            store=store.url,
            key=key,
        )

    def sink_closed(self, sink: Sink, *, landed: bool) -> None:
        """`sink` waits no longer."""
        self._sinks.discard(sink)
        if landed:
            self._placed += 1
            self.advanced(sink.projection.size * sink.out.dtype.itemsize if self.watched else 0)
        self.check_end()

    def placed(self, count: int, nbytes: int) -> None:
        """So many chunks of a bulk are in place."""
        self._placed += count
        self.advanced(nbytes)

    def shard_closed(self, shard: ShardRead, *, landed: bool) -> None:
        """All of `shard` is in place, or given up."""
        self._shards.discard(shard)
        if landed:
            self.done += 1
            self.completed(shard.out)
            self.advanced(0)
        self.check_end()

    # --- the end ---------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        self._presenting.stop()
        for errand in self._direct:
            errand.cancel()
        for shard in list(self._shards):
            shard.give_up()
        for sink in list(self._sinks):
            self._leave(sink)
        ready, self._ready = self._ready, deque()
        for fetch in ready:
            heir = fetch.heir()
            if heir is None:
                fetch.done(asyncio.CancelledError())
            else:
                heir.adopt(fetch)

    def idle(self) -> bool:
        if self._sinks or self._shards or self._direct or self._dying or self.at_work:
            return False
        if self.complete():
            self._presenting.stop()
        return not self._presenting.under_way

    def complete(self) -> bool:
        return self._planned and not self._ready

    def report(self) -> None:
        if self.recorder is not None:
            # Of a read that was given up not everything has come that it waited for.
            cached = min(self.sharing.cached, self._placed)
            shared = min(self.sharing.shared, self._placed - cached)
            self.recorder.operation(chunks=self._placed, shared=shared, cached=cached)

    def _leave(self, sink: Sink) -> None:
        flight = sink.flight
        if flight is None or flight.dispatched:
            return  # a worker has it, for a moment
        flight.sinks.remove(sink)
        self._sinks.discard(sink)
        if not flight.sinks:
            if self.desk.flights.get(flight.token) is flight:
                del self.desk.flights[flight.token]
            request = flight.request
            if request is not None:
                assert isinstance(request, Fetch)
                request.abandoned()
                self.watch(request)

    def watch(self, request: Fetch) -> None:
        """The job does not end before a request that it has cancelled is over."""
        if request.cancelled and request not in self._dying:
            self._dying.add(request)
            request.when_gone(lambda: self._gone(request))

    def _gone(self, request: Fetch) -> None:
        self._dying.discard(request)
        self.check_end()
