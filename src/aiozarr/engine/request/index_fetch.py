"""The request for a shard's index, made once for all who wait for it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

from typing_extensions import Buffer

from aiozarr.codecs import ShardIndex, ShardLayout
from aiozarr.engine.cache.indexes import IndexEntry
from aiozarr.engine.request.fetch import Fetch
from aiozarr.engine.request.flight import Flight, Waiter
from aiozarr.engine.work.pool import Work
from aiozarr.errors import CodecError
from aiozarr.model import Version
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.job import Job


class IndexWaiter(Protocol):
    """Who waits for a shard's index. Called on the loop, once."""

    def index_ready(self, entry: IndexEntry, whole: WholeShard | None = None) -> None:
        """The index is there, or it is known that there is no shard; `whole`: inner chunks are there as well."""

    def whole_refused(self) -> None:
        """The shard was to be fetched whole and has turned out too large for that."""

    def index_failed(self, error: BaseException) -> None:
        """It could not be had."""

    @property
    def job(self) -> Waiter:
        """The read that the shard belongs to."""
        ...


class WholeShard(Protocol):
    """A shard that was fetched whole with its index."""

    def add(self, flight: Flight, start: int, length: int) -> None:
        """Give `flight` its bytes, from `start` of the shard on, once all who wait have said what they want."""


class IndexFetch(Fetch):
    """Fetch and decode the index of one shard.

    Attributes:
        token: its name among those that are kept.
        flying: its name among those that are on their way.
    """

    __slots__ = ("entry", "flying", "layout", "token", "waiters")

    def __init__(
        self,
        job: Job,
        store: Store,
        key: str,
        layout: ShardLayout,
        token: Hashable,
        waiter: IndexWaiter,
        flying: Hashable,
    ) -> None:
        super().__init__(job, store, key, layout.index_range, None, layout.index_nbytes)
        self.layout = layout
        self.token = token
        self.entry: IndexEntry | None = None
        self.waiters: list[IndexWaiter] = [waiter]
        self.flying = flying
        job.desk.index_fetches[flying] = self

    def unpack_now(self, works: Sequence[Work]) -> None:
        self.entry = self._decode()

    def done(self, error: BaseException | None) -> None:
        self.account(error)
        current = self._close()
        if error is None:
            error = self._decode_if_needed()
            self.origin.release(self.cost)
        self.value = None
        waiters, self.waiters = self.waiters, []
        if error is not None:
            for waiter in waiters:
                waiter.index_failed(error)
        else:
            assert self.entry is not None
            if current:
                self._keep(self.entry)
            for waiter in waiters:
                waiter.index_ready(self.entry)
        error = None  # its traceback may lead here
        self.gone()

    def heir(self) -> Waiter | None:
        return self.waiters[0].job if self.waiters else None

    def leave(self, waiter: IndexWaiter) -> None:
        """`waiter` no longer waits; without any the request is cancelled."""
        if waiter not in self.waiters:
            return  # the answer is being handed out: what one waiter does with it may end another
        self.waiters.remove(waiter)
        if not self.waiters:
            self._close()
            self.cancel()

    def _close(self) -> bool:
        """Nobody joins it any more; return whether anybody could until now: this process has not changed the shard."""
        fetches = self.desk.index_fetches
        if fetches.get(self.flying) is not self:
            return False
        del fetches[self.flying]
        return True

    def _decode_if_needed(self) -> CodecError | None:
        """Decode the index unless a worker has done so; return what is wrong with it."""
        try:
            self.entry = self.entry or self._decode()
        except CodecError as error:
            return error
        return None

    def _keep(self, entry: IndexEntry) -> None:
        version: Version | None = entry.version
        if version is not None and not version.weak and self.store.supports.conditional_reads:
            self.desk.indexes.put(self.token, entry, self.settings.index_cache_bytes)

    def _decode(self) -> IndexEntry:
        value = self.value
        if value is None:
            return IndexEntry(None, None)
        return self._parse(value.data, value.size, value.version)

    def _parse(self, data: Buffer, size: int | None, version: Version | None) -> IndexEntry:
        try:
            index: ShardIndex = self.layout.parse_index(data, size, strict=self.settings.strict)
        except CodecError as error:
            error.store, error.key, error.range = self.store_url, self.key, self.layout.index_range
            raise
        return IndexEntry(index, version)
