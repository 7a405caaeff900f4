"""The admission of requests: which request is sent next, and when. Plain values and calls, without an event loop.

The budget of an origin limits its requests and bytes in flight: more after successes, fewer after signs of overload.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from aiozarr.common.concurrency import open_file_limit
from aiozarr.errors import StoreError
from aiozarr.schedule.requests import RequestSource, ScheduledRequest, is_overload

START = 64
CEILING = 512
FLOOR = 1


class Budget:
    """The requests and bytes of one origin. Not thread-safe: it lives on the I/O thread.

    The limit starts at 64. It doubles after as many successes as the limit while it is in use. It is halved on a sign
    of overload, at most once per round trip. Fixed limits of callers replace it; the smallest of them holds.

    Attributes:
        limit: how many requests may be in flight.
        growth_room: how many more there may be after the next growth.
        in_flight: requests in flight.
        bytes_in_flight: bytes of requests in flight, and of responses that are still in memory.
    """

    def __init__(self, ceiling: int | None = None) -> None:
        self._ceiling = min(CEILING, open_file_limit()) if ceiling is None else ceiling
        self._adaptive = min(START, self._ceiling)
        self._clean = 0
        self._halved_at = float("-inf")
        self._caps: dict[int, int] = {}
        self.in_flight = 0
        self.bytes_in_flight = 0
        self._settle()

    def cap(self, requests: int) -> None:
        """Add the fixed limit of a caller. The smallest fixed limit holds, and nothing adapts meanwhile."""
        self._caps[requests] = self._caps.get(requests, 0) + 1
        self._settle()

    def uncap(self, requests: int) -> None:
        """Remove the fixed limit of a caller that has ended."""
        self._caps[requests] -= 1
        if not self._caps[requests]:
            del self._caps[requests]
        self._settle()

    @property
    def is_capped(self) -> bool:
        """True while callers with a fixed limit are at work."""
        return bool(self._caps)

    def has_bytes_for(self, held: int, max_bytes: int) -> bool:
        """Return whether a request that holds `held` bytes may be sent while at most `max_bytes` are in flight."""
        # A request larger than the whole budget is sent alone.
        in_flight = self.bytes_in_flight
        return in_flight + held <= max_bytes or in_flight <= 0

    def _settle(self) -> None:
        self.limit = min(self._caps) if self._caps else self._adaptive
        self.growth_room = 0 if self._caps else min(self._adaptive, self._ceiling - self._adaptive)

    def succeeded(self) -> None:
        """Count a request that has succeeded, and raise the limit after enough of them."""
        if self._caps or self._adaptive >= self._ceiling:
            return
        # Only a limit that is in use says anything about a higher one.
        if self.in_flight >= self.limit - 1:
            self._clean += 1
            if self._clean >= self._adaptive:
                self._clean = 0
                self._adaptive = min(2 * self._adaptive, self._ceiling)
                self._settle()

    def overloaded(self, sent_at: float, now: float) -> None:
        """Lower the limit because a request sent at `sent_at` was throttled or timed out, once per round trip."""
        self._clean = 0
        if sent_at < self._halved_at:
            return
        self._halved_at = now
        self._adaptive = max(FLOOR, self._adaptive // 2)
        self._settle()


class AdmissionQueue:
    """The requests of one origin: a budget of requests and bytes in flight, and the sources that have requests.

    The order of admission:
        1. Prepaid requests: their bytes are counted already, and their responses free the bytes.
        2. The request that waits for bytes. No other source overtakes it.
        3. The sources in turn, one request each.

    Only this class changes the budget.

    Attributes:
        failing_since: when the first request was sent since which the server has refused all; None after a success.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self._preconnect = PreconnectPolicy()
        self._sources: deque[RequestSource] = deque()
        self._queued: set[RequestSource] = set()  # the same sources, for a quick look-up
        self._waiting_for_bytes: tuple[RequestSource, ScheduledRequest] | None = None
        self._prepaid: deque[ScheduledRequest] = deque()
        self._registered: dict[RequestSource, float] = {}
        self.failing_since: float | None = None

    def register(self, source: RequestSource, now: float = 0.0) -> None:
        """Register a source. Its fixed limit of requests holds from now on."""
        if now:
            self._registered[source] = now
        if source.max_requests is not None:
            self.budget.cap(source.max_requests)
        if not self.budget.in_flight:
            self._preconnect.requested = 0  # connections may close while no request is in flight

    def unregister(self, source: RequestSource) -> bool:
        """Remove a source that has ended.

        Returns: whether other sources have said that they have requests, or a request waits.
        """
        self._registered.pop(source, None)
        if source.max_requests is not None:
            self.budget.uncap(source.max_requests)
        self._discard(source)
        return bool(self._prepaid or self._sources or self._waiting_for_bytes)

    def add(self, source: RequestSource) -> None:
        """Take requests from `source`, in turn with others, until its `next` returns None."""
        if source not in self._queued:
            self._queued.add(source)
            self._sources.append(source)

    def add_prepaid(self, requests: Iterable[ScheduledRequest]) -> None:
        """Admit `requests` before all others. Their bytes are counted already."""
        self._prepaid.extend(requests)

    def withdraw(self, request: ScheduledRequest) -> bool:
        """Remove a request that waits for bytes, or a prepaid one.

        Returns: whether it was there, and not admitted.
        """
        if self._waiting_for_bytes is not None and self._waiting_for_bytes[1] is request:
            self._waiting_for_bytes = None
            return True
        if request in self._prepaid:
            self._prepaid.remove(request)
            return True
        return False

    @property
    def is_idle(self) -> bool:
        """True if there is no request to admit, none in flight, and no limit of a source."""
        budget = self.budget
        has_requests = self._prepaid or self._sources or self._waiting_for_bytes
        return not (has_requests or budget.in_flight or budget.bytes_in_flight or budget.is_capped)

    def __repr__(self) -> str:
        budget = self.budget
        counts = {
            "in_flight": budget.in_flight,
            "bytes_in_flight": budget.bytes_in_flight,
            "sources": len(self._sources),
            "waiting_for_bytes": int(self._waiting_for_bytes is not None),
            "prepaid": len(self._prepaid),
            "is_capped": budget.is_capped,
        }
        return f"AdmissionQueue({', '.join([f'{name}={count}' for name, count in counts.items()])})"

    def admit(self) -> ScheduledRequest | None:
        """Take the next request and count it.

        Returns: the request, which the caller must send and `finish`. None if the budget has no room, or if no source
            has a request.
        """
        budget = self.budget
        if budget.in_flight >= budget.limit:
            return None
        if self._prepaid:
            request = self._prepaid.popleft()
        elif self._waiting_for_bytes is not None:
            source, request = self._waiting_for_bytes
            if not budget.has_bytes_for(request.held, source.max_bytes):
                return None
            self._waiting_for_bytes = None
        else:
            taken = self._take_from_sources()
            if taken is None:
                return None
            request = taken
        budget.in_flight += 1
        budget.bytes_in_flight += request.held
        return request

    def _take_from_sources(self) -> ScheduledRequest | None:
        """Return the next request of the sources if the budget has bytes for it, else let it wait for them."""
        sources = self._sources
        while sources:
            source = sources[0]
            request = source.next()
            if request is None:
                # `next` of a source that has ended unregisters it.
                self._discard(source)
                continue
            sources.rotate(-1)
            request.queued_since = self._registered.get(source, 0.0)
            if self.budget.has_bytes_for(request.held, source.max_bytes):
                return request
            self._waiting_for_bytes = (source, request)
            return None
        return None

    def _discard(self, source: RequestSource) -> None:
        if source in self._queued:
            self._queued.discard(source)
            self._sources.remove(source)

    def finish(self, request: ScheduledRequest, succeeded: bool) -> None:
        """End an admitted request. If it succeeded, its bytes stay counted until they are given back by `charge`."""
        budget = self.budget
        if succeeded:
            self.failing_since = None
            budget.succeeded()
        budget.in_flight -= 1
        if not succeeded:
            budget.bytes_in_flight -= request.held

    def attempt_failed(self, error: StoreError, sent_at: float, now: float) -> None:
        """Lower the limit if an attempt that was sent at `sent_at` failed because the server is overloaded."""
        if is_overload(error):
            if self.failing_since is None:
                self.failing_since = sent_at
            self.budget.overloaded(sent_at, now)

    def waited(self, request: ScheduledRequest, now: float) -> float:
        """Return how long a request has waited until `now` while the server refused all others."""
        since = self.failing_since
        return 0.0 if since is None else max(0.0, now - max(since, request.queued_since))

    def charge(self, nbytes: int) -> bool:
        """Count `nbytes` more bytes in flight, or fewer if negative.

        Returns: whether a request waits for bytes that are free now.
        """
        self.budget.bytes_in_flight += nbytes
        return nbytes < 0 and self._waiting_for_bytes is not None

    def pending(self, enough: int) -> int:
        """Return how many requests there are to admit, or any number from `enough` up if there are that many."""
        count = len(self._prepaid) + (self._waiting_for_bytes is not None)
        for source in self._sources:
            if count >= enough:
                break
            count += source.pending()
        return count

    def connections_to_open(self) -> int:
        """Return for how many concurrent requests the store should have connections open, or 0 for no change."""
        budget = self.budget
        return self._preconnect.consider(budget, self.pending) if budget.in_flight >= budget.limit else 0


class PreconnectPolicy:
    """Opens connections while the limit is in use, for the requests that the next growth of the limit admits.

    A connection takes a round trip or more. Opened together with the first responses, it is ready when the limit
    grows.

    Attributes:
        requested: for how many concurrent requests connections were opened.
    """

    def __init__(self) -> None:
        self.requested = 0

    def consider(self, budget: Budget, pending: Callable[[int], int]) -> int:
        """Decide after a request was admitted.

        Args:
            budget: the budget of the origin.
            pending: returns how many requests there are to admit, given a number that is enough.

        Returns: the number of concurrent requests to open connections for, or 0 for no change.
        """
        growth = budget.growth_room
        if not growth or budget.in_flight < budget.limit or self.requested >= budget.limit + growth:
            return 0
        requests = budget.limit + min(growth, pending(growth))
        if requests <= max(self.requested, budget.limit):
            return 0
        self.requested = requests
        return requests
