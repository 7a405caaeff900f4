"""Stores that put the bytes of a range where whoever asks for them wants them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiozarr.model import Range, Value, Version
from aiozarr.stores.contract import Store


@dataclass(slots=True)
class Arrival:
    """Bytes that are about to come: their place in the object, and what is known of it from the head of the answer.

    Attributes:
        start, stop: which bytes of the object.
        size: the size of the object; None: not told.
        version: the version of the object; None: not told.
    """

    start: int
    stop: int
    size: int | None
    version: Version | None


Receive: TypeAlias = Callable[[Arrival], memoryview | None]
"""Gives the memory for bytes that are about to come, as long as they are; None leaves that to the store."""


class ReceivingStore(Store):
    """A store whose answers tell size and version of an object before its bytes come."""

    @abstractmethod
    async def fetch_into(
        self, key: str, range: Range, receive: Receive, *, if_match: Version | None = None, or_all: bool = False
    ) -> Value | None:
        """As `fetch`, the bytes in the memory that `receive` gives, where `data` of the value is that very memory.

        `receive` may not be asked, and then the bytes are in memory of the store's. What it raises ends the request.

        Args:
            key: the object's key.
            range: the bytes wanted, more than 0; cut at the object's end.
            receive: called once for each answer that brings them, on the loop.
            if_match: the version that the object must have.
            or_all: where the server sends the whole object in place of the range, take all of it.
        """
