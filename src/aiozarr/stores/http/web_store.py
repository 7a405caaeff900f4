"""Reading over HTTP: the part that all stores of web servers share.

A read runs without a task. A task costs as much as the rest of a small read: 20 to 25 µs (docs/design/004). Only a
response that needs further requests gets one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic, TypeVar

from aiozarr.errors import (
    AiozarrError,
    ChangedError,
    InvalidKeyError,
    LimitError,
    ShortReadError,
    StoreError,
    fill_location,
)
from aiozarr.http1.connection import Connection, Response, StaleConnectionError
from aiozarr.http1.endpoint_client import Request
from aiozarr.http1.response_check import (
    MAX_VALUE_BYTES,
    Accept,
    BodyPieces,
    EncodedRangeError,
    Expectation,
    Headers,
    over_limit,
)
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version, check_key, resolve_range
from aiozarr.stores.capabilities import (
    AllocateBuffer,
    FetchCallback,
    FetchIntoStore,
    NowaitStore,
    PendingFetch,
    ResponseHead,
    fetch_tail,
)
from aiozarr.stores.contract import Store
from aiozarr.stores.http.object_client import ObjectClient, is_clipped

ClientT = TypeVar("ClientT", bound=ObjectClient)

HEAD_REFUSED = frozenset({403, 405, 501})

_FIRST_BYTE = Range(0, 1)


class WebStore(FetchIntoStore, NowaitStore, Generic[ClientT]):
    """A store whose values are read by GET.

    A subclass sets `_client`, which authorises requests and interprets responses.
    """

    _client: ClientT

    def _client_key(self, key: str) -> str:
        """Return the name of the object `key` for the client.

        Raises:
            InvalidKeyError: it is not a valid key.
        """
        try:
            return check_key(key)
        except InvalidKeyError as error:  # only then is the URL composed, which takes a microsecond
            fill_location(error, store=self.url)
            raise

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        """Return the bytes of `key` in `range` (None: all), or None if nothing is stored.

        Args:
            key: the object's key.
            range: the wanted bytes, cut at the object's end.
            if_match: the version that the object must have. A weak one is compared with that of the response.
            max_bytes: the most bytes that are returned; None: 5 GiB. A longer response is refused because of its head,
                or when more bytes have come.

        Raises:
            ChangedError: the object has another version than `if_match`.
            LimitError: the bytes are more than `max_bytes`.
            StoreError: the bytes could not be read.
        """
        name = self._client_key(key)
        if isinstance(range, Suffix) and self.supports.partial_reads and not self.supports.suffix_reads:
            return await self._fetch_tail(key, range, if_match, max_bytes)
        expectation = self._expectation(range, if_match, max_bytes)
        response = self._client.request("GET", name, expectation)
        return await self._read(key, range, if_match, expectation, response)

    def _fetch_nowait(
        self,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        callback: FetchCallback,
        *,
        max_bytes: int | None = None,
    ) -> PendingFetch | None:
        name = self._client_key(key)
        if type(range) is Suffix and not self.supports.suffix_reads:
            return None
        expectation = self._expectation(range, if_match, max_bytes)
        request = self._client.authorise("GET", name, expectation)
        if request is None:
            return None
        read = NowaitRead(self, key, range, if_match, request, callback)
        read.connection = request.sender.send_nowait(request, read)
        return None if read.connection is None else read

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
        name, start = self._client_key(key), range.start

        def allocate_body(accept: Accept, headers: Headers) -> memoryview | BodyPieces | None:
            if accept.exact is None or accept.cut:
                return None
            first = 0 if accept_full and accept.exact == accept.size else start
            return allocate(ResponseHead(first, first + accept.exact, accept.size, self._client.version(headers)))

        expectation = self._expectation(range, if_match, max_bytes)
        expectation.accept_full, expectation.allocate = accept_full, allocate_body
        response = self._client.request("GET", name, expectation)
        try:
            value = await self._read(key, range, if_match, expectation, response)
        except EncodedRangeError:
            return await self.fetch(key, if_match=if_match, max_bytes=max_bytes)
        if (
            accept_full
            and value is not None
            and range.length is not None
            and len(memoryview(value.data)) > range.length
        ):
            self._mark_rangeless()
        return value

    async def _read(
        self,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        expectation: Expectation,
        pending: Awaitable[Response],
    ) -> Value | None:
        """Return the value of a pending response, or None if nothing is stored."""
        with self._located(key, range):
            try:
                response = await pending
            except ShortReadError as error:
                # A reader with memory of its own fetches the whole object, which takes one request less.
                if range is None or expectation.allocate is not None or not is_clipped(error):
                    raise
                return await self._fetch_by_size(key, range, if_match, expectation, error)
            if isinstance(response.action, Accept):
                return self._value(expectation, response, range)
            if response.status == 416 and range is not None:
                refusal = StoreError("the server refused the range, and reports no size", status=416)
                return await self._fetch_by_size(key, range, if_match, expectation, refusal)
            if self._client.is_missing(response):
                return None
            raise self._client.error(response)

    def _expectation(self, range: ByteRange | None, if_match: Version | None, max_bytes: int | None) -> Expectation:
        if range is None and if_match is None:
            return _whole_object(self._client.keep_encoding, max_bytes)
        expectation = Expectation(range, keep_encoding=self._client.keep_encoding)
        if max_bytes is not None:
            expectation.max_bytes = max_bytes
        if range is not None and range.length == 0:
            # HTTP cannot express an empty range, so its first byte is requested, and dropped.
            expectation.range, expectation.max_bytes = _FIRST_BYTE, max(1, expectation.max_bytes)
        if if_match is not None:
            expectation.etag, expectation.generation = if_match.etag, if_match.generation
        return expectation

    async def _fetch_tail(
        self, key: str, suffix: Suffix, if_match: Version | None, max_bytes: int | None
    ) -> Value | None:
        """Fetch the last bytes from a server without suffix ranges."""
        no_size = StoreError("the end of the object was not found: the server reports no size")

        async def fetch(tail: ByteRange, version: Version | None) -> Value | None:
            try:
                return await self.fetch(key, tail, if_match=version, max_bytes=max_bytes)
            except (LimitError, StoreError) as error:
                error.range = suffix  # the caller's range, in place of the one that was requested
                raise

        with self._located(key, suffix):
            return await fetch_tail(suffix, lambda: self._sized_entry(key, if_match, no_size), fetch, if_match=if_match)

    async def _fetch_by_size(
        self, key: str, range: ByteRange, if_match: Version | None, expectation: Expectation, error: StoreError
    ) -> Value | None:
        """Return the bytes of a range that reaches beyond the object's end, by its size; raise `error` without one."""
        entry = await self._sized_entry(key, if_match, error)
        if entry is None or entry.size is None:
            return None
        start, stop = resolve_range(entry.size, range)
        if start >= stop:
            return Value(b"", entry.version, entry.size)
        # Some servers refuse a suffix that is longer than the object.
        resolved = Range(start, stop - start)
        expectation = replace(expectation, range=resolved)
        if entry.version is not None:  # another version may be longer
            expectation.etag, expectation.generation = entry.version.etag, entry.version.generation
        response = await self._client.request("GET", self._client_key(key), expectation)
        if isinstance(response.action, Accept):
            value = self._value(expectation, response, resolved)
            return replace(value, size=entry.size)
        raise self._client.error(response)

    async def _sized_entry(self, key: str, if_match: Version | None, error: StoreError) -> Entry | None:
        """Return size and version of the object; raise `error` if the server reports no size."""
        entry = await self._stat(key)
        if entry is not None and if_match is not None and entry.version != if_match:
            raise ChangedError("the object was replaced", status=error.status)
        if entry is not None and entry.size is None:
            raise error
        return entry

    def _value(self, expectation: Expectation, response: Response, range: ByteRange | None) -> Value:
        accept = response.action
        assert type(accept) is Accept
        data, size = response.body, accept.size
        if range is not None:
            if accept.cut:
                whole = memoryview(data)
                size = len(whole)
                start, stop = resolve_range(size, range)
                if stop - start > expectation.max_bytes:  # the head contained no length
                    raise over_limit(stop - start, expectation.max_bytes)
                if stop - start < size:
                    data = bytes(whole[start:stop])
                    self._mark_rangeless()
            elif range.length == 0:
                data = b""
        if size is None and not accept.cut and (accept.exact is None or range is None):
            size = len(memoryview(data))  # the body is the whole object, because a part has an exact length
        return Value(data, self._client.version(response.headers), size, response.status)

    def _mark_rangeless(self) -> None:
        if self.supports.partial_reads:
            self.supports = replace(self.supports, partial_reads=False, suffix_reads=False)

    # --- size and version ----------------------------------------------------------------------------------------

    async def stat(self, key: str) -> Entry | None:
        """Return size and version of `key`, or None if nothing is stored."""
        with self._located(key, None):
            return await self._stat(key)

    async def _stat(self, key: str) -> Entry | None:
        """Send a HEAD, or a GET for the first byte if a HEAD is refused or not sufficient."""
        head, name = Expectation(head=True), self._client_key(key)
        if self._client.head_identifies_missing:
            response = await self._client.request("HEAD", name, head)
            action = response.action
            if response.status not in HEAD_REFUSED and not (isinstance(action, Accept) and action.size is None):
                return self._entry(key, head, response)
        expectation = Expectation(_FIRST_BYTE, keep_encoding=self._client.keep_encoding)
        response = await self._client.request("GET", name, expectation)
        if response.status == 416 and not self._client.head_identifies_missing:  # the object is empty
            response = await self._client.request("HEAD", name, head)
            if response.status == 404:  # without a body, it does not say that the object was removed meanwhile
                raise self._client.error(response)
            return self._entry(key, head, response)
        return self._entry(key, expectation, response)

    def _entry(self, key: str, expectation: Expectation, response: Response) -> Entry | None:
        """Return size and version of `key` from a response to a HEAD, or to a GET for its first byte."""
        if isinstance(response.action, Accept):
            value = self._value(expectation, response, _FIRST_BYTE)
            return Entry(key, value.size, value.version)
        if self._client.is_missing(response):
            return None
        raise self._client.error(response)

    # --- connections and errors ----------------------------------------------------------------------------------

    def _preconnect(self, requests: int) -> None:
        self._client.sender.preconnect(requests)

    def _located(self, key: str | None, range: ByteRange | None) -> LocatedAt:
        """Return a context that adds the store, and `key` and `range`, to errors, because clients do not know them."""
        return LocatedAt(self, key, range)

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other store uses; the store can be used again."""
        await self._client.aclose()


class LocatedAt:
    """`aiozarr.errors.located` for a store whose URL is composed only for errors, because that takes a microsecond."""

    __slots__ = ("_key", "_range", "_store")

    def __init__(self, store: Store, key: str | None, range: ByteRange | None) -> None:
        self._store = store
        self._key = key
        self._range = range

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, AiozarrError):
            fill_location(error, store=self._store.url, key=self._key, range=self._range)


@lru_cache(64)  # shared by all reads of whole objects, and never changed
def _whole_object(keep_encoding: bool, max_bytes: int | None) -> Expectation:
    return Expectation(max_bytes=MAX_VALUE_BYTES if max_bytes is None else max_bytes, keep_encoding=keep_encoding)


@dataclass(slots=True, eq=False)
class NowaitRead(Generic[ClientT]):
    """A GET whose response goes to `callback` when it comes.

    Attributes:
        connection: the connection over which it was sent.
    """

    _store: WebStore[ClientT]
    _key: str
    _range: ByteRange | None
    _if_match: Version | None
    _request: Request
    _callback: FetchCallback | None
    _task: asyncio.Task[None] | None = None
    connection: Connection | None = None

    def give_up(self) -> None:
        self._callback = None
        if self._task is not None:
            self._task.cancel()
        elif self.connection is not None and self.connection.is_serving(self):
            self.connection.abort()  # the rest of this response must not reach the next request

    # --- as a ResponseReceiver -----------------------------------------------------------------------------------

    def done(self) -> bool:
        return self._callback is None

    def set_result(self, response: Response) -> None:
        callback = self._callback
        assert callback is not None  # the connection asks `done` first
        if not self._store._client.is_value(self._request, response):
            self._continue(response)
            return
        try:
            value = self._store._value(self._request.expectation, response, self._range)
        except AiozarrError as error:
            self._fail(error)
            return
        self._callback = None
        callback.fetched(value)

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, StaleConnectionError):  # the request may be sent again
            self._continue(None)
        elif isinstance(error, StoreError) and self._store._client.can_recover(self._request, error):
            self._continue(error)
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            if isinstance(error, AiozarrError):
                fill_location(error, store=self._store.url, key=self._key, range=self._range)
            callback.failed(error)

    def _continue(self, outcome: Response | StoreError | None) -> None:
        self._task = asyncio.get_running_loop().create_task(self._finish(outcome))

    async def _finish(self, outcome: Response | StoreError | None) -> None:
        """Do the remaining steps, given a response or an error that does not end the read; None: send it again."""
        store, client, request = self._store, self._store._client, self._request
        if outcome is None:  # the connection was closed before the response
            response = client.request("GET", request.key, request.expectation)
        elif isinstance(outcome, StoreError):
            response = client.recover(request, outcome)
        else:
            response = client.resolve(request, outcome)
        try:
            value = await store._read(self._key, self._range, self._if_match, request.expectation, response)
        except Exception as error:
            self._fail(error)
            return
        finally:
            del outcome  # the traceback of an error holds this frame
        callback, self._callback = self._callback, None
        if callback is not None:
            callback.fetched(value)
