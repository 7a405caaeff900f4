"""A store that cannot be written to, whatever the inner one can."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from aiozarr.errors import UnsupportedOperationError
from aiozarr.model import Supports
from aiozarr.stores.wrappers.base import Operation, WrapperStore

T = TypeVar("T")


class ReadOnlyStore(WrapperStore):
    """Refuses writes before anything is sent; reads go to the inner store.

    Closing it closes the inner store.

    Args:
        store: the store to protect.

    Raises:
        UnsupportedOperationError: by every operation that stores or removes values.
    """

    @property
    def supports(self) -> Supports:  # type: ignore[override]  # as in the base class
        """What the inner store can do, but for writing."""
        return replace(self._store.supports, writeable=False, conditional_writes=False)

    async def _carry(self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        if operation.writes:
            key = operation.key
            raise UnsupportedOperationError(
                f"the store was made read-only: no {operation.name}", store=self.url, key=key
            )
        return await call()

    async def probe_conditional_writes(self) -> bool:
        """Return False; a probe would write."""
        return False
