"""A store that refuses writes, even if the inner store is writeable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from typing_extensions import Buffer

from aiozarr.errors import UnsupportedOperationError
from aiozarr.model import Supports
from aiozarr.stores.wrappers.wrapper_store import OperationName, StoreOperation, WrapperStore

T = TypeVar("T")


class ReadOnlyStore(WrapperStore):
    """Refuses writes before any request is sent; reads go to the inner store.

    Closing it closes the inner store.

    Args:
        store: the store to protect.

    Raises:
        UnsupportedOperationError: by every operation that stores or removes values.
    """

    @property
    def supports(self) -> Supports:  # type: ignore[override]  # as in the base class
        """What the inner store supports, except for writes."""
        return replace(super().supports, writeable=False, conditional_writes=False, conditional_erases=False)

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        if operation.is_write:
            raise self._refused(operation.name, operation.key)
        return await call()

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        # The derived operation would read the present values first.
        raise self._refused("set_partial_values", None)

    async def probe_conditional_writes(self) -> bool:
        """Return False; a probe would write."""
        return False

    def _refused(self, operation: OperationName, key: str | None) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"the store was made read-only: no {operation}", store=self.url, key=key)
