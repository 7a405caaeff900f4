"""Stores that receive the bytes of a range into memory of the caller."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiozarr.model import Range, Value, Version
from aiozarr.stores.contract import Store


@dataclass(slots=True)
class ResponseHead:
    """The head of a response.

    Attributes:
        start, stop: the range of the object in the body, in bytes.
        size: size of the object in bytes, or None if the response omits it.
        version: version of the object, or None if the response omits it.
    """

    start: int
    stop: int
    size: int | None
    version: Version | None


AllocateBuffer: TypeAlias = Callable[[ResponseHead], memoryview | None]
"""Returns the memory for the bytes that follow, of exactly their length, or None to leave that to the store."""


class FetchIntoStore(Store):
    """A store whose responses contain size and version of the object before its bytes."""

    @abstractmethod
    async def fetch_into(
        self,
        key: str,
        range: Range,
        allocate: AllocateBuffer,
        *,
        if_match: Version | None = None,
        accept_full: bool = False,
        max_bytes: int | None = None,
    ) -> Value | None:
        """Fetch as `fetch` does, into the memory that `allocate` returns; `data` of the value is that memory then.

        The store may receive into memory of its own without calling `allocate`. An error of `allocate` ends the
        request and is raised.

        Args:
            key: the object's key.
            range: the bytes, more than 0; cut at the object's end.
            allocate: called once for each response with a body, on the loop.
            if_match: the version that the object must have.
            accept_full: if the server sends the whole object instead of the range, receive all of it.
            max_bytes: as of `fetch`.
        """
