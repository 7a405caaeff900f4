"""The read of one shard in two phases: its index, then the inner chunks that are wanted, merged into few requests."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aiozarr.codecs import ShardIndex
from aiozarr.codecs.shard_index import EMPTY
from aiozarr.engine.cache.indexes import IndexEntry
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.plan import inner_parts
from aiozarr.engine.plan.whole_shard import whole_request
from aiozarr.engine.read.part_read import PartRead
from aiozarr.engine.request.bulk import BULK_FROM, Bulk, Wanted
from aiozarr.engine.request.flight import Flight, Sink, Token
from aiozarr.engine.request.index_fetch import IndexFetch, WholeShard
from aiozarr.engine.request.whole_fetch import WholeFetch
from aiozarr.engine.work.pool import BATCH_BYTES, Work
from aiozarr.errors import ChangedError, ChecksumError
from aiozarr.grid.projection import Part
from aiozarr.model import Version
from aiozarr.schedule.call import Call
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.read.job import ReadJob

MAX_ATTEMPTS = 4
"""How often a shard is read from its index on before its changes count as an error."""


class ShardRead:
    """One shard of one read: all its inner chunks come from one version of the object, or it is read again."""

    def __init__(
        self,
        job: ReadJob,
        layout: ArrayLayout,
        store: Store,
        key: str,
        out: NDArray[Any],
        projection: Part,
    ) -> None:
        stored = layout.object_of(projection)
        assert stored.shard is not None
        self.job = job
        self._stored = stored
        self._shard = stored.shard
        self._store = store
        self._key = key
        self.out = out
        self._projection = projection
        self._split: list[tuple[int, Part]] | None = None
        self._open = 0
        self._attempts = 0
        self._trouble: BaseException | None = None
        self._index_fetch: IndexFetch | None = None
        self._bulk: Bulk | None = None
        self._given_up = False
        self._too_large = False
        self._token: Hashable = (store.identity, key, layout.token)

    def split(self) -> None:
        """Sort the points of index arrays by inner chunk; in a worker, before the shard is begun."""
        self._split = list(inner_parts(self._stored, self._projection))

    def split_done(self, error: BaseException | None) -> None:
        """As `split` has ended."""
        self.job.splitting -= 1
        if self._given_up:
            return
        if error is not None:
            self._end(error)
            return
        self.begin()
        self.job.queue.offer(self.job)

    def _inner_parts(self) -> Iterable[tuple[int, Part]]:
        return inner_parts(self._stored, self._projection) if self._split is None else self._split

    def begin(self) -> None:
        """Ask for the index, or for all of a shard that is small; what is known of it already is used."""
        desk = self.job.desk
        self._attempts += 1
        self._trouble = None
        entry = desk.indexes.get(self._token)
        if entry is not None and self._is_checked(entry):
            self.index_ready(entry)
            return
        flying = self.job.sharing.on_terms(self._token)
        fetch = desk.index_fetches.get(flying)
        if fetch is not None:
            fetch.waiters.append(self)
            self._index_fetch = fetch
            return
        about = (self.job, self._store, self._key, self._shard, self._token, self, flying)
        bound = self._whole_bound() if entry is None else None
        self._index_fetch = IndexFetch(*about) if bound is None else WholeFetch(*about, bound)
        first = self._attempts == 1 and self._split is None
        self.job.push(self._index_fetch, None if first else self.job.now())

    def _whole_bound(self) -> int | None:
        """Return how many bytes to ask for where the shard is best fetched whole."""
        if self._too_large:
            return None
        ranges = self._store.supports.partial_reads
        return whole_request(self._shard, self._projection, self._count_inner, self.job.economy, ranges=ranges)

    def _count_inner(self) -> int:
        return len(self._projection.within(self._stored.inner_axes)) if self._split is None else len(self._split)

    def _is_checked(self, entry: IndexEntry) -> bool:
        """Return whether using a kept index sends a request that insists on its version, or did so lately.

        A chunk of that version in the cache of chunks is no older than settings allow. Where everything wanted is empty
        no request would be sent, and a newer shard would go unnoticed.
        """
        index = entry.index
        if index is None:
            return False
        return any(index.locate(position) is not None for position, _ in self._inner_parts())

    def index_ready(self, entry: IndexEntry, whole: WholeShard | None = None) -> None:
        self._index_fetch = None
        if self._given_up:
            return
        if entry.index is not None:
            self._ask(entry, whole)
        elif (error := self.job.missing_error(self._store, self._key)) is not None:
            self._end(error)
            return
        else:
            self._open = 1
            self.job.fill([Sink(self, self.out, self._projection)], self._stored.spec.fill_value, self._store)
        self.job.queue.offer(self.job)

    def whole_refused(self) -> None:
        self._index_fetch = None
        if not self._given_up:
            self._too_large = True
            self._attempts -= 1
            self.begin()
            self.job.queue.offer(self.job)

    def index_failed(self, error: BaseException) -> None:
        self._index_fetch = None
        if isinstance(error, ChecksumError) and self._attempts == 1 and not self._given_up:
            # As for chunks: damaged once may be damaged on the way.
            self.begin()
            self.job.queue.offer(self.job)
        else:
            self._end(error)

    def _ask(self, entry: IndexEntry, whole: WholeShard | None = None) -> None:
        """Send for the inner chunks that `entry` locates, unless `whole` has them; others read as the fill value."""
        assert entry.index is not None
        job, version = self.job, entry.version
        wanted: list[Wanted] = []
        empty: list[Sink] = []
        object_token = Token((self._token, version))
        if whole is None and self._ask_bulk(entry.index, object_token, version):
            return
        # Without a version nothing would tell whether a chunk that was kept belongs to the shard of today.
        keep = version is not None and not version.weak
        for position, part in self._inner_parts():
            located = entry.index.locate(position)
            sink = Sink(self, self.out, part, job)
            self._open += 1
            if located is None:
                empty.append(sink)
                continue
            token = (object_token, position)
            if keep and job.sharing.serve(job, sink, token):
                continue
            assert located.length is not None
            runs = None if whole is not None else self._runs(sink, token, located.length, versioned=version is not None)
            if runs is not None:
                wanted += [Wanted(flight, located.start + start, length) for flight, start, length in runs]
                continue
            flight = job.sharing.wait_for(job, sink, token, self._shard.inner, keep=keep)
            if flight is not None:
                wanted.append(Wanted(flight, located.start, located.length))
        if empty:
            job.fill(empty, self._stored.spec.fill_value, self._store)
        if whole is not None:
            for each in wanted:
                whole.add(*each)
        elif wanted:
            job.desk.gathering.add(job, self._store, self._key, object_token, version, wanted)

    def _ask_bulk(self, index: ShardIndex, object_token: Hashable, version: Version | None) -> bool:
        """As `_ask`, for many chunks that nobody else wants at the moment; return whether it has sent for them."""
        job, inner = self.job, self._shard.inner
        others = job.desk.bulks.get(job.sharing.on_terms(object_token))
        if others is not None:
            positions = [position for position, _ in self._inner_parts()]
            for bulk in list(others):
                bulk.part(positions)
            return False
        if job.sharing.keeps or self._count_inner() < BULK_FROM:
            return False
        numbered = list(self._inner_parts())
        versioned = version is not None
        if inner.raw is not None and any(job.parts.ranges(part, inner, versioned=versioned) for _, part in numbered):
            return False
        positions = [position for position, _ in numbered]
        if any(job.sharing.flies((object_token, position)) for position in positions):
            return False
        offsets, sizes = index.offsets[positions].tolist(), index.lengths[positions].tolist()
        stored = [at for at, start in enumerate(offsets) if start != EMPTY]
        lengths = [sizes[at] for at in stored]
        if len(stored) < BULK_FROM or max(lengths) > job.economy.max_request_bytes:
            return False
        if len(stored) < len(numbered):
            empty = [Sink(self, self.out, numbered[at][1], job) for at, start in enumerate(offsets) if start == EMPTY]
            job.fill(empty, self._stored.spec.fill_value, self._store)
        self._open += len(numbered)
        self._bulk = Bulk(
            job,
            self,
            self.out,
            inner,
            object_token,
            [positions[at] for at in stored],
            [numbered[at][1] for at in stored],
            [offsets[at] for at in stored],
            lengths,
        )
        job.desk.gathering.add_bulk(self._bulk, self._store, self._key, version)
        return True

    def _runs(
        self, sink: Sink, token: Hashable, length: int, *, versioned: bool
    ) -> list[tuple[Flight, int, int]] | None:
        """Return what is to be fetched of an inner chunk that is not compressed; None: all of it."""
        job, inner = self.job, self._shard.inner
        # One that is not as long as it should be is an error, which decoding it tells.
        if inner.raw is None or length != inner.raw.nbytes or job.sharing.keeps or job.sharing.flies(token):
            return None
        ranges = job.parts.ranges(sink.projection, inner, versioned=versioned)
        return None if ranges is None else PartRead(job, self._store, self._key, sink, inner, ranges).flights(token)

    # --- as the owner of a bulk ------------------------------------------------------------------------------------

    def bulk_landed(self, count: int, nbytes: int) -> None:
        self._open -= count
        self.job.placed(count, nbytes)
        self._check()
        self.job.check_end()

    def bulk_failed(self, count: int, error: BaseException) -> None:
        self._open -= count
        self._judge(error)
        self.job.check_end()

    def absent(self, key: str) -> BaseException | None:
        return self.job.missing_error(self._store, key)

    # --- as a waiter -----------------------------------------------------------------------------------------------

    def landed(self, sink: Sink) -> None:
        self._open -= 1
        self.job.sink_closed(sink, landed=True)
        self._check()

    def failed(self, sink: Sink, error: BaseException) -> None:
        self._open -= 1
        self.job.sink_closed(sink, landed=False)
        self._judge(error)

    def _judge(self, error: BaseException) -> None:
        if isinstance(error, ChangedError) or (isinstance(error, ChecksumError) and self._attempts == 1):
            self._trouble = error
            self._check()
        else:
            self._end(error)

    @property
    def gave_up(self) -> bool:
        return self.job.stopped

    def missing(self, sink: Sink, key: str) -> BaseException | None:
        return self.job.missing_error(self._store, key)

    def unpadded(self, sink: Sink) -> None:
        """Return None: inner chunks are stored whole."""

    def adopt(self, request: Call) -> None:
        """Send `request`, which another reader has left unsent."""
        self.job.adopt(request)

    def give_up(self) -> None:
        """The read has been stopped."""
        self._given_up = True
        self._trouble = None
        if self._index_fetch is not None:
            fetch, self._index_fetch = self._index_fetch, None
            fetch.leave(self)
            self.job.watch(fetch)
        if self._bulk is not None:
            bulk, self._bulk = self._bulk, None
            bulk.give_up()
        self.job.shard_closed(self, landed=False)

    def _check(self) -> None:
        if self._open or self._given_up:
            return
        self._bulk = None
        if self._trouble is None:
            self.job.shard_closed(self, landed=True)
        elif self._attempts >= MAX_ATTEMPTS:
            self._end(self._trouble)
        else:
            # All of it again: what landed before the change must not stand beside what comes after it.
            self.job.desk.indexes.drop(self._token)
            self.job.desk.chunk_caches.drop(self._store.place_of(self._key))
            self.begin()
            self.job.queue.offer(self.job)

    def _end(self, error: BaseException) -> None:
        if not self._given_up:
            self.job.stop(error)


class Split(Work):
    """Have a shard sort its points before it is begun."""

    __slots__ = ("shard",)

    def __init__(self, shard: ShardRead) -> None:
        super().__init__(BATCH_BYTES)
        self.shard = shard

    def run(self) -> None:
        self.shard.split()

    def finished(self) -> None:
        self.shard.split_done(self.error)
