"""A call that can be carried out on the loop, or whole in a worker where its store blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aiozarr.engine.request.observed import RequestWatch
from aiozarr.engine.work.pool import Work
from aiozarr.errors import StoreError, UnauthenticatedError
from aiozarr.schedule.call import Call
from aiozarr.schedule.origin import Origin
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.job import Job


def means_missing(error: StoreError, settings: Settings) -> bool:
    """Return whether `settings` take this refusal for "nothing is stored there".

    What a 404 means the store has said already: that of a bucket, or behind a redirect, is no missing object.
    Credentials that are not accepted say nothing of an object either, but for a 401, which settings may name.
    """
    if isinstance(error, UnauthenticatedError) and error.status != 401:
        return False
    return error.status is not None and error.status != 404 and error.status in settings.missing_status


class Errand(Call):
    """One stored object, or a part of it, that is to be fetched or stored.

    Attributes:
        fills_batch: True where a worker's batch needs nothing beside it.
        line: where its work stands in line before the workers.
        watch: notes on it, where somebody observes.
    """

    __slots__ = ("_watchers", "desk", "fills_batch", "key", "line", "origin", "settings", "store", "watch")

    def __init__(self, job: Job, store: Store, key: str, cost: int) -> None:
        super().__init__(job.policy, cost)
        self.desk = job.desk
        self.origin: Origin = job.queue
        self.store = store
        self.key = key
        self.settings = job.settings
        self.watch = None if job.observer is None else RequestWatch(job.observer, job.ready_at)
        self.fills_batch = False
        self.line = job.line
        self._watchers: list[Callable[[], None]] | None = None  # most have none

    @property
    def store_url(self) -> str:
        """The store's URL, without secrets."""
        return self.store.url

    @abstractmethod
    def send_now(self, store: BlockingStore) -> None:
        """As `send`, in a worker."""

    def begin_now(self) -> Sequence[Work]:
        """The errand goes to a worker: return the work that follows it there. On the loop."""
        return ()

    def unpack_now(self, works: Sequence[Work]) -> None:
        """The answer is there: do what follows, in the worker."""

    def finish_now(self, works: Sequence[Work], error: BaseException | None) -> None:
        """The worker is done. On the loop."""
        self.done(error)

    def when_gone(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when all of it is over."""
        if self._watchers is None:
            self._watchers = []
        self._watchers.append(watcher)

    def gone(self) -> None:
        """All of it is over: tell who observes, and those who waited for the end of a cancelled errand."""
        if self.watch is not None:
            self.watch.close()
        if self._watchers is not None:
            watchers, self._watchers = self._watchers, None
            for watcher in watchers:
                watcher()
