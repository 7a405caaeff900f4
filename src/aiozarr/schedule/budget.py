"""How many requests and bytes one origin may have in flight: more after successes, fewer after signs of overload."""

from __future__ import annotations

from aiozarr.fd_limit import open_file_limit

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
        """A caller with a fixed limit begins. The smallest such limit holds, and nothing adapts meanwhile."""
        self._caps[requests] = self._caps.get(requests, 0) + 1
        self._settle()

    def uncap(self, requests: int) -> None:
        """A caller with a fixed limit has ended."""
        self._caps[requests] -= 1
        if not self._caps[requests]:
            del self._caps[requests]
        self._settle()

    @property
    def is_capped(self) -> bool:
        """True while callers with a fixed limit are at work."""
        return bool(self._caps)

    def has_bytes_for(self, cost: int, max_bytes: int) -> bool:
        """Return whether a request of `cost` bytes may be sent while at most `max_bytes` are in flight."""
        # A request larger than the whole budget is sent alone.
        in_flight = self.bytes_in_flight
        return in_flight + cost <= max_bytes or in_flight <= 0

    def _settle(self) -> None:
        self.limit = min(self._caps) if self._caps else self._adaptive
        self.growth_room = 0 if self._caps else min(self._adaptive, self._ceiling - self._adaptive)

    def succeeded(self) -> None:
        """A request has succeeded."""
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
        """A request sent at `sent_at` was throttled or timed out. Signs from one round trip count once."""
        self._clean = 0
        if sent_at < self._halved_at:
            return
        self._halved_at = now
        self._adaptive = max(FLOOR, self._adaptive // 2)
        self._settle()
