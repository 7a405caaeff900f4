"""All origins of one I/O thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from aiozarr.schedule.origin import Origin


class Scheduler:
    """All origins of one I/O thread."""

    def __init__(self, after_answers: Callable[[], None] | None = None) -> None:
        self._after_answers = after_answers
        self._origins: dict[Hashable, Origin] = {}

    def origin(self, key: Hashable) -> Origin:
        """Return the one queue of an origin."""
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = Origin(after_answers=self._after_answers)
        return origin

    async def close(self) -> None:
        """Stop everything that is under way."""
        for origin in self._origins.values():
            await origin.close()
        self._origins.clear()
