"""Chunks that are ranges of objects in other stores: where they are, and requests to several origins by one read."""

from __future__ import annotations

from collections import deque

from aiozarr.engine.operation import Operation
from aiozarr.schedule.requests import RequestQueue, RequestSource, ScheduledRequest
from aiozarr.stores.capabilities import LocatingStore, Location
from aiozarr.stores.contract import Store

MAX_PENDING_LOCATED = 256
"""As `MAX_PENDING_RANGES`, for reads of located chunks: a thousand neighbours come in four requests, and decoding still
begins before the last of them."""

MAX_WAITING_REQUESTS = 64
"""Requests that wait for another origin before a read begins no further objects."""


def locate(store: Store, key: str) -> Location | None:
    """Return where the value of `key` is; None if it is requested by its key.

    Raises:
        LookupError: `LocatingStore.prepare` must be called first.
    """
    location = store.locate(key) if isinstance(store, LocatingStore) else None
    return location if location is not None and location.length else None


def locate_prepared(store: Store, key: str) -> Location | None:
    """As `locate`, after `prepare`, which may have failed: the request by its key raises the error then."""
    try:
        return locate(store, key)
    except LookupError:
        return None


class OriginRequests(RequestSource):
    """Requests of a read that wait in the queue of another origin than the read itself.

    Args:
        operation: the read.
        queue: the queue of the origin.
    """

    def __init__(self, operation: Operation, queue: RequestQueue) -> None:
        self.max_requests = operation.max_requests
        self.max_bytes = operation.max_bytes
        self.queue = queue
        self.ready: deque[ScheduledRequest] = deque()
        self._operation = operation
        queue.register(self)

    def add(self, request: ScheduledRequest) -> None:
        """Send `request` as soon as the queue has room."""
        self.ready.append(request)
        self.queue.wake(self)

    def next(self) -> ScheduledRequest | None:
        if len(self.ready) == MAX_WAITING_REQUESTS:
            self._operation.resume()
        return self.ready.popleft() if self.ready else None

    def pending(self) -> int:
        return len(self.ready)

    @property
    def is_full(self) -> bool:
        """True if the read should begin nothing else."""
        return len(self.ready) >= MAX_WAITING_REQUESTS

    def take_all(self) -> list[ScheduledRequest]:
        """Return the requests that were not sent, which are no longer this source's."""
        unsent = list(self.ready)
        self.ready.clear()
        return unsent
