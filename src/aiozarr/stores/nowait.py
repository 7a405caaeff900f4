"""Stores that send a request within the call itself, so that no task has to wait for the response."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from aiozarr.model import ByteRange, Value, Version
from aiozarr.stores.contract import Store


class FetchCallback(Protocol):
    """Receives the outcome of a request: exactly one of these is called, once, on the loop. They must not raise."""

    def fetched(self, value: Value | None) -> None:
        """The request succeeded with `value`, which `fetch` would have returned."""

    def failed(self, error: Exception) -> None:
        """The request failed with `error`, which `fetch` would have raised."""


class PendingFetch(Protocol):
    """A request that was sent and has not ended."""

    def give_up(self) -> None:
        """Abandon the request. Its callback is not called any more."""


class NowaitStore(Store):
    """A store that often has an idle connection: a read then needs neither a task nor a future."""

    @abstractmethod
    def fetch_nowait(
        self,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        callback: FetchCallback,
        *,
        max_bytes: int | None = None,
    ) -> PendingFetch | None:
        """Send the request of `fetch` now, without waiting. `callback` is called later, never within this call.

        Returns:
            The pending request, or None if the store would have to wait for something first, such as a connection.
            Nothing was sent then; use `fetch`.

        Raises what `fetch` raises for its arguments.
        """

    def preconnect(self, requests: int) -> None:
        """Open connections for `requests` requests at once, without waiting. Must not raise.

        Errors are raised later, by the request that needs the connection.
        """
        return
