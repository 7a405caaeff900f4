"""Stores that send a request in the very call that asks for it: no task waits for the answer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from aiozarr.model import ByteRange, Value, Version
from aiozarr.stores.contract import Store


class Taker(Protocol):
    """Who is told how a request has ended: by one of these, once, on the loop. They must not raise."""

    def fetched(self, value: Value | None) -> None:
        """This is what `fetch` would have returned."""

    def failed(self, error: Exception) -> None:
        """This is what `fetch` would have raised."""


class Sent(Protocol):
    """A request that is under way."""

    def give_up(self) -> None:
        """Nobody waits for it any more, and nobody is told how it ends."""


class PromptStore(Store):
    """A store whose connections are often at hand: a read then needs no task and no future of its own."""

    @abstractmethod
    def begin_fetch(self, key: str, range: ByteRange | None, if_match: Version | None, taker: Taker) -> Sent | None:
        """As `fetch`, but send the request at once and return; `taker` is told later, never from within this call.

        None: something would have to be waited for first, such as a connection. Nothing was sent, and `fetch` is the
        way. What `fetch` raises for its arguments, this may raise.
        """

    def prepare(self, requests: int) -> None:
        """So many requests may soon be under way at once: open connections for them, without waiting. Must not raise.

        Whatever is in the way, the request that needs a connection says so.
        """
        return
