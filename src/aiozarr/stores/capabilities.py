"""Abilities of some stores beyond the contract: optional protocols, and the probe of conditional writes."""

from __future__ import annotations

import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from aiozarr.errors import ChangedError, PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, IfAbsent, IfMatch, Precondition, Range, Suffix, Value, Version
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.http1.request import BodyReader
    from aiozarr.http1.response_check import BodyPieces


PROBE_PREFIX = "__aiozarr_probe_"
"""The prefix of objects that test conditional writes. The time in seconds and a random number follow."""


class FetchCallback(Protocol):
    """Receives the outcome of a request: exactly one of these is called, once, on the loop. They must not raise."""

    def fetched(self, value: Value | None) -> None:
        """Accept `value`, which `fetch` would have returned."""

    def failed(self, error: Exception) -> None:
        """Accept `error`, which `fetch` would have raised."""


class PendingFetch(Protocol):
    """A request that was sent and has not ended."""

    def give_up(self) -> None:
        """Abandon the request. Its callback is not called any more."""


class NowaitStore(Store):
    """A store that often has an idle connection, so that a read needs neither a task nor a future."""

    @abstractmethod
    def _fetch_nowait(
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

    def _preconnect(self, requests: int) -> None:
        """Open connections for `requests` requests at once, without waiting. Must not raise.

        Errors are raised later, by the request that needs the connection.
        """
        return


class ResponseHead(NamedTuple):
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


AllocateBuffer: TypeAlias = "Callable[[ResponseHead], memoryview | BodyPieces | None]"
"""Returns memory of exactly the length of the bytes that follow, or None to let the store allocate it.

A large body may be received in pieces, one piece of memory after the other; `data` of the value is empty then.
"""


class FetchIntoStore(Store):
    """A store whose responses contain size and version of the object before its bytes."""

    @abstractmethod
    async def _fetch_into(
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


class Location(NamedTuple):
    """The bytes of another object that are the value of a key.

    Attributes:
        store: the store of the object.
        key: its key there.
        start: the first byte.
        length: the number of bytes.
    """

    store: Store
    key: str
    start: int
    length: int


class LocatingStore(Store):
    """A store whose values are ranges of objects in other stores, so that ranges of several keys can be merged."""

    @abstractmethod
    async def prepare(self, key: str) -> None:
        """Read the references that `locate` needs for `key`.

        Raises what `fetch` raises.
        """

    @abstractmethod
    def locate(self, key: str) -> Location | None:
        """Return the location of the value of `key`, without waiting.

        Returns: None if nothing is stored, and for values that are not ranges of a known length.

        Raises:
            LookupError: `prepare` must be called first.
        """

    def limit_documents(self, max_bytes: int | None) -> None:
        """Bound the bytes of each document of references that is read from now on, stored and decoded.

        None: the bounds of the store. Stores without documents have none.
        """


class CopyFromStore(Store):
    """A store that may have its server copy an object of another store."""

    @abstractmethod
    def _can_copy_from(self, source: Store) -> bool:
        """Return whether the server of this store may copy objects of `source`, because it is the server of both."""

    @abstractmethod
    async def _copy_from(
        self, source: Store, source_key: str, key: str, *, size: int, if_match: Version | None = None
    ) -> Version | None:
        """Store the object `source_key` of `source` under `key`, whole or not at all.

        Args:
            source: a store for which `_can_copy_from` is true.
            source_key: the key there.
            key: the key here.
            size: the size of the object.
            if_match: the version that the object must have.

        Returns: the version, or None if the server reports none.

        Raises:
            ChangedError: the object has another version, or is gone.
            UnsupportedOperationError: this server does not copy such objects.
            StoreError: it could not be copied.
        """


class UploadedPart(NamedTuple):
    """A part of an upload that the server has.

    Attributes:
        etag: the server's identifier of the part.
        checksum: its CRC32C, if it was sent with one.
    """

    etag: str
    checksum: str | None = None


class UploadStore(Store):
    """A store that accepts a large object in pieces of one request, or in parts that are separate requests."""

    @abstractmethod
    def _can_upload(self, nbytes: int) -> bool:
        """Return whether these methods may store an object of this size."""

    @abstractmethod
    def _upload_part_bytes(self, nbytes: int, *, conditional: bool = False) -> int | None:
        """Return the size of the parts of an object of this size, or None if it is uploaded in one request.

        Args:
            nbytes: the size of the object.
            conditional: whether the upload has a precondition.
        """

    @abstractmethod
    async def _upload(self, key: str, body: BodyReader, *, precondition: Precondition | None = None) -> Version | None:
        """Store an object, whole or not at all.

        Returns: its version.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was stored.
            StoreError: it could not be stored, or no response came, and then it may be stored.
        """

    @abstractmethod
    async def _begin_parts(self, key: str) -> str:
        """Begin an upload in parts.

        Returns: its id. The parts are stored, and cost money, until they are completed or aborted.

        Raises what `upload` raises.
        """

    @abstractmethod
    async def _upload_part(self, key: str, upload_id: str, number: int, body: BodyReader) -> UploadedPart:
        """Store the part `number`, from 0 on. It may be stored again.

        Raises what `upload` raises.
        """

    @abstractmethod
    async def _complete_parts(
        self, key: str, upload_id: str, parts: Sequence[UploadedPart], *, precondition: Precondition | None = None
    ) -> Version | None:
        """Make an object of the parts.

        Returns: its version, or None if the server reports none.

        Raises what `upload` raises.
        """

    @abstractmethod
    async def _abort_parts(self, key: str, upload_id: str) -> None:
        """Remove the parts. Nothing is stored then.

        Raises what `upload` raises.
        """


class ProbedStore(Store):
    """A store whose `supports.conditional_writes` is None until its server was probed.

    Some servers send 200 and ignore the condition. Others refuse the right version too, so a write that must succeed is
    part of the test. Its object is removed at the end.
    """

    async def probe_conditional_writes(self) -> bool:
        return await self._probe_below("")

    async def _probe_below(self, prefix: str) -> bool:
        if self.supports.conditional_writes is None:
            put = lambda key, value, condition: self.set(key, value, precondition=condition)  # noqa: E731
            holds = await conditions_hold(put, self.erase, prefix)
            self.supports = replace(self.supports, conditional_writes=holds)
        return bool(self.supports.conditional_writes)


async def conditions_hold(
    put: Callable[[str, bytes, Precondition], Awaitable[Version | None]],
    erase: Callable[[str], Awaitable[None]],
    prefix: str,
) -> bool:
    """Return whether writes that must fail do fail, and writes that must succeed do succeed.

    Args:
        put: stores a value under a key and a condition, and returns its version.
        erase: removes a key.
        prefix: where an object may be stored for the test.
    """
    # By the time, `clean` distinguishes the object of a killed process from that of a running test.
    key = f"{prefix}{PROBE_PREFIX}{int(time.time()):x}-{os.urandom(8).hex()}"

    is_stored = True

    async def try_put(value: bytes, condition: Precondition) -> Version | None:
        """Return the version that was written, or None if the server refused or reported none."""
        try:
            return await put(key, value, condition)
        except PreconditionFailedError:
            return None
        except UnsupportedOperationError:
            nonlocal is_stored
            is_stored = value != b"1"  # the first write stored nothing
            return None

    try:
        first = await try_put(b"1", IfAbsent())
        if first is None or await try_put(b"2", IfAbsent()) is not None:
            return False
        second = await try_put(b"3", IfMatch(first))
        return second is not None and await try_put(b"4", IfMatch(first)) is None
    finally:
        if is_stored:
            try:
                await erase(key)
            except StoreError as error:  # the write that needs the answer may succeed
                warnings.warn(f"{key!r}, a test of conditional writes, cannot be removed: {error}", stacklevel=2)


def locate(store: Store, key: str) -> Location | None:
    """Return the location of the value of `key`; None if it is requested by its key.

    Raises:
        LookupError: `LocatingStore.prepare` must be called first.
    """
    location = store.locate(key) if isinstance(store, LocatingStore) else None
    return location if location is not None and location.length else None


def locate_prepared(store: Store, key: str) -> Location | None:
    """Do as `locate`, after `prepare`; if that failed, the request by the key raises the error."""
    try:
        return locate(store, key)
    except LookupError:
        return None


MAX_TAIL_ATTEMPTS = 4
"""Attempts to read the end of an object that is replaced between the requests for its size and for its bytes."""


async def fetch_tail(
    suffix: Suffix,
    stat: Callable[[], Awaitable[Entry | None]],
    fetch: Callable[[ByteRange, Version | None], Awaitable[Value | None]],
    *,
    if_match: Version | None,
    known: Entry | None = None,
    on_changed: Callable[[], object] | None = None,
) -> Value | None:
    """Fetch the last bytes of an object. The range is requested of the version that had the size.

    If the object was replaced in between, both begin again.

    Args:
        suffix: the number of bytes, cut at the object's beginning.
        stat: returns size and version of the object, or None if it is not stored.
        fetch: fetches a range of the given version of the object. It gets `suffix` itself if `stat` reports no size.
        if_match: the version that the object must have.
        known: size and version that were seen before, in place of the first `stat`.
        on_changed: called before the size is looked up again.

    Returns: the bytes, or None if the object is not stored.

    Raises:
        ChangedError: the object is replaced again and again, or does not have the version `if_match`.
    """
    attempts = 0
    while True:
        entry, is_known, known = known, bool(known and known.size), None
        if entry is None or not is_known:
            attempts += 1
            entry = await stat()
        if entry is None:
            return None
        if entry.size is None:
            return await fetch(suffix, if_match)
        start = max(0, entry.size - suffix.length)
        if start == entry.size:
            return Value(b"", entry.version, entry.size)
        is_last = not is_known and (if_match is not None or attempts == MAX_TAIL_ATTEMPTS)
        try:
            value = await fetch(Range(start, entry.size - start), if_match or entry.version)
        except ChangedError:
            if is_last:
                raise
        else:
            if value is None or value.size in (None, entry.size):
                return value
            if is_last:
                raise ChangedError("the object changed while its size was being determined")
        if on_changed is not None:
            on_changed()
