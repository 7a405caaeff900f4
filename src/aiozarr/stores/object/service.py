"""One cloud's way to one bucket: what `ObjectStore` asks of it, with the full keys of objects."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import ClassVar

from aiozarr.errors import StoreError
from aiozarr.model import Entry, Precondition, Supports, Version
from aiozarr.stores.http.prompt import PromptRead
from aiozarr.stores.lane import Answer, Connection, Want, etag_of
from aiozarr.stores.lane.head import Headers
from aiozarr.stores.object.answers import NO_ANSWER, is_page
from aiozarr.stores.tasks import each_bounded

PAGE = 1000
"""Keys of one page of a listing, and of one bulk delete: as many as the clouds allow."""


BRIEF = Want(max_bytes=1 << 20)
"""What is wanted of answers that bring no value, such as those to deletes."""


class Service(ABC):
    """One bucket, or container, of a cloud and the credentials that are used for it.

    Keys and prefixes are those of the objects in the bucket, and are known to be valid. Errors are typed; store, key
    and range are added by the store. A service may be used from any number of loops and threads.

    Attributes:
        supports: what the store can do; `conditional_writes` is None where it takes a probe to know.
        head_tells: whether the answer to a HEAD tells a missing object from a missing bucket.
        unstorable: finds what the keys of this cloud cannot contain.
    """

    supports: Supports
    head_tells: ClassVar[bool] = False
    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\x00-\x1f\x7f]")

    @property
    @abstractmethod
    def url(self) -> str:
        """The canonical URL of the bucket, without a slash at its end and without secrets."""

    @property
    @abstractmethod
    def origin(self) -> Hashable:
        """The server, and what tells these credentials from others."""

    @property
    @abstractmethod
    def identity(self) -> Hashable:
        """Equal for services that see the same objects: cloud, server, bucket, and what tells the credentials."""

    # --- reading -------------------------------------------------------------------------------------------------

    @abstractmethod
    async def ask(self, method: str, key: str, want: Want) -> Answer:
        """Send a GET or HEAD for `key`, authorised, and return its answer, judged by `want`."""

    def begin(self, key: str, want: Want, read: PromptRead) -> Connection | None:
        """Send a GET for `key`, authorised, by a connection that is at hand; None: `ask` is the way.

        An answer that is a value is one as it stands.
        """
        return None

    def prepare(self, requests: int) -> None:
        """Open connections for so many requests at once, without waiting for them."""
        return

    async def follow(self, key: str, want: Want, answer: Answer, read: PromptRead) -> Answer:
        """Return what `ask` would, given the answer to `begin`, which is no value."""
        return answer

    @abstractmethod
    def lacks(self, answer: Answer) -> bool:
        """Return whether a 404 says that the object is not there, and not its bucket."""

    def version(self, headers: Headers) -> Version | None:
        """Return the version of the object that an answer with these headers is about."""
        etag = etag_of(headers)
        return None if etag is None else Version(etag)

    # --- writing -------------------------------------------------------------------------------------------------

    @abstractmethod
    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        """Store `data` (flat bytes) under `key`, whole or not at all, and return its version, where it is told.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
        """

    @abstractmethod
    async def delete(self, key: str) -> None:
        """Remove `key`; a key that is not stored is no error."""

    @abstractmethod
    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        """Remove up to `PAGE` keys, and return the errors of those that could not be removed.

        Raises:
            StoreError: none of them could be.
        """

    # --- listing -------------------------------------------------------------------------------------------------

    @abstractmethod
    def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        """Iterate over the objects whose keys start with `prefix`, a page at a time."""

    @abstractmethod
    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""

    # --- deletes, where they go one by one -----------------------------------------------------------------------

    def has_deleted(self, answer: Answer) -> bool:
        """Return whether the answer to a DELETE says that the key is not there any more.

        Raises:
            StoreError: it is nobody's who knows.
        """
        if answer.status not in _DELETED:
            return answer.status == 404 and self.lacks(answer)
        if is_page(bytes(answer.body)):
            raise StoreError(f"{NO_ANSWER}: the key may still be there", status=answer.status)
        return True

    async def delete_singly(self, keys: Sequence[str], width: int) -> dict[str, StoreError]:
        """Delete `keys`, `width` at a time; return those that are left and why, in their order."""
        failed: dict[str, StoreError] = {}

        async def remove(key: str) -> None:
            try:
                await self.delete(key)
            except StoreError as error:
                failed[key] = error

        await each_bounded(remove, keys, width=width)
        return {key: failed[key] for key in keys if key in failed}

    # --- life ----------------------------------------------------------------------------------------------------

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections of the running loop that nobody else uses."""


_DELETED = frozenset({200, 202, 204})
