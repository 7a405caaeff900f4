"""How many requests and bytes one origin may have in flight: more on clean round trips, less on refusals."""

from __future__ import annotations

from aiozarr.stores.files import open_file_limit

START = 64
CEILING = 512
FLOOR = 1


class Budget:
    """The requests and bytes of one origin. Not thread-safe: it lives on the I/O thread.

    The limit starts at 64, doubles when a whole limit's worth of requests came back clean while the limit was in use,
    and is halved on a sign of overload, at most once per round trip. A fixed limit of a caller caps it from above.

    Attributes:
        limit: how many requests may be in flight.
        headroom: how many more there may be after a clean round trip.
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
        """A caller with a fixed limit begins; the smallest of those at work holds, and nothing adapts meanwhile."""
        self._caps[requests] = self._caps.get(requests, 0) + 1
        self._settle()

    def uncap(self, requests: int) -> None:
        """A caller with a fixed limit has ended."""
        self._caps[requests] -= 1
        if not self._caps[requests]:
            del self._caps[requests]
        self._settle()

    def _settle(self) -> None:
        self.limit = min(self._caps) if self._caps else self._adaptive
        self.headroom = 0 if self._caps else min(self._adaptive, self._ceiling - self._adaptive)

    def succeeded(self) -> None:
        """A request came back clean."""
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
        """A request sent at `sent_at` was refused or timed out; later refusals of the same round trip count once."""
        self._clean = 0
        if sent_at < self._halved_at:
            return
        self._halved_at = now
        self._adaptive = max(FLOOR, self._adaptive // 2)
        self._settle()
