"""Reading over HTTP: the part that all stores behind a web server share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aiozarr.errors import AiozarrError, ChangedError, InvalidKeyError, StoreError
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version, check_key, resolve_range
from aiozarr.stores.http.errors import error_for
from aiozarr.stores.http.prompt import PromptRead
from aiozarr.stores.lane.judge import Accept, EncodedRangeError, Want, etag_of
from aiozarr.stores.prompt import PromptStore, Sent, Taker
from aiozarr.stores.receiving import Arrival, Receive, ReceivingStore

if TYPE_CHECKING:
    from aiozarr.stores.lane import Answer, Connection
    from aiozarr.stores.lane.head import Headers

HEAD_REFUSED = frozenset({403, 405, 501})

_FIRST_BYTE = Range(0, 1)

ATTEMPTS_AT_END = 3
"""How often the end of an object is looked for that is replaced between its size and its bytes."""


class WebStore(ReceivingStore, PromptStore):
    """A store whose values are read by GET.

    A subclass says how a request is sent (`_ask`) and which 404 means that the object itself is missing (`_lacks`).
    """

    _raw: ClassVar[bool] = False  # whether an encoded body is the value as it was stored
    _whole: ClassVar[Want] = Want()

    @abstractmethod
    async def _ask(self, method: str, key: str, want: Want) -> Answer:
        """Send a request for `key` and return its answer, judged."""

    @abstractmethod
    def _begin(self, key: str, want: Want, read: PromptRead) -> Connection | None:
        """Send a GET for `key` by a connection that is at hand and return that; None: `_ask` is the way."""

    @abstractmethod
    async def _follow(self, key: str, want: Want, answer: Answer, read: PromptRead) -> Answer:
        """Return what `_ask` would, given the answer to `_begin`, which is no value as it stands."""

    @abstractmethod
    def _lacks(self, answer: Answer) -> bool:
        """Return whether a 404 says that the object is not there (and not its bucket, or its server's mind)."""

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        """Return the bytes of `key` in `range` (None: all), or None where nothing is stored.

        Args:
            key: the object's key.
            range: the bytes wanted; cut at the object's end.
            if_match: the version that the object must have. A weak one is compared with the answer's, and not sent.

        Raises:
            ChangedError: the object has another version than `if_match`.
            LimitError: the answer is longer than 5 GiB; it was not received.
            StoreError: the bytes could not be had.
        """
        self._check_key(key)
        if isinstance(range, Suffix) and self.supports.partial_reads and not self.supports.suffix_reads:
            return await self._fetch_end(key, range, if_match)
        want = self._want(range, if_match)
        return await self._read(key, range, if_match, want, self._ask("GET", key, want))

    def begin_fetch(self, key: str, range: ByteRange | None, if_match: Version | None, taker: Taker) -> Sent | None:
        self._check_key(key)
        if type(range) is Suffix and not self.supports.suffix_reads:
            return None
        want = self._want(range, if_match)
        read = PromptRead(self, key, range, if_match, want, taker)
        read.connection = self._begin(key, want, read)
        return None if read.connection is None else read

    async def _take(
        self, key: str, range: ByteRange | None, if_match: Version | None, want: Want, answer: Answer, read: PromptRead
    ) -> Value | None:
        """Return or raise what `fetch` would, given the answer to a request that has been sent."""
        return await self._read(key, range, if_match, want, self._follow(key, want, answer, read))

    async def _read(
        self, key: str, range: ByteRange | None, if_match: Version | None, want: Want, asked: Awaitable[Answer]
    ) -> Value | None:
        try:
            answer = await asked
            if isinstance(answer.verdict, Accept):
                return self._value(answer, answer.verdict, range)
            return await self._no_value(key, range, if_match, want, answer)
        except StoreError as error:
            raise self._located(error, key, range)  # noqa: B904  # the same error, now with its place

    def _want(self, range: ByteRange | None, if_match: Version | None) -> Want:
        if range is None and if_match is None:
            return self._whole
        want = Want(_askable(range), raw=self._raw)
        if if_match is not None:
            want.etag, want.generation = if_match.etag, if_match.generation
        return want

    def _check_key(self, key: str) -> None:
        """Check `key`; the store's URL, which takes a microsecond to put together, is asked for only if it is none."""
        try:
            check_key(key)
        except InvalidKeyError as error:
            error.store = self.url
            raise

    async def fetch_into(
        self, key: str, range: Range, receive: Receive, *, if_match: Version | None = None, or_all: bool = False
    ) -> Value | None:
        check_key(key, store=self.url)
        start = range.start

        def place(accept: Accept, headers: Headers) -> memoryview | None:
            if accept.exact is None or accept.cut:
                return None
            at = 0 if or_all and accept.exact == accept.size else start
            return receive(Arrival(at, at + accept.exact, accept.size, self._version(headers)))

        want = Want(range, raw=self._raw, or_all=or_all, receive=place)
        if if_match is not None:
            want.etag, want.generation = if_match.etag, if_match.generation
        try:
            answer = await self._ask("GET", key, want)
            if not isinstance(answer.verdict, Accept):
                return await self._no_value(key, range, if_match, want, answer)
            value = self._value(answer, answer.verdict, range)
            if or_all and range.length is not None and len(memoryview(value.data)) > range.length:
                self._mark_rangeless()
            return value
        except EncodedRangeError:
            return await self.fetch(key, if_match=if_match)
        except StoreError as error:
            raise self._located(error, key, range)  # noqa: B904  # the same error, now with its place

    async def _fetch_end(self, key: str, suffix: Suffix, match: Version | None) -> Value | None:
        """Fetch the last bytes by their place: the size is asked for, and then a range of that very version."""
        attempt = 0
        while True:
            attempt += 1
            entry = await self.stat(key)
            if entry is None:
                return None
            if match is not None and entry.version != match:
                raise ChangedError("the object was replaced", store=self.url, key=key, range=suffix)
            if entry.size is None:
                raise StoreError("the server tells no size to find the end by", store=self.url, key=key, range=suffix)
            start = max(0, entry.size - suffix.length)
            if start == entry.size:
                return Value(b"", entry.version, entry.size)
            try:
                return await self.fetch(key, Range(start, entry.size - start), if_match=match or entry.version)
            except ChangedError:
                if match is not None or attempt == ATTEMPTS_AT_END:
                    raise

    async def stat(self, key: str) -> Entry | None:
        """Return size and version of `key`, or None where nothing is stored."""
        check_key(key, store=self.url)
        try:
            return await self._stat(key)
        except StoreError as error:
            raise self._located(error, key, None)  # noqa: B904  # the same error, now with its place

    async def _no_value(
        self, key: str, byte_range: ByteRange | None, match: Version | None, want: Want, answer: Answer
    ) -> Value | None:
        if answer.status == 416 and byte_range is not None:
            return await self._fetch_beyond(key, byte_range, match, want)
        if answer.status == 404 and self._lacks(answer):
            return None
        raise self._error(answer)

    async def _fetch_beyond(self, key: str, byte_range: ByteRange, match: Version | None, want: Want) -> Value | None:
        """Resolve a range that the server could not satisfy against the object's size."""
        entry = await self._stat(key)
        if entry is None:
            return None
        if match is not None and entry.version != match:
            raise ChangedError("the object was replaced", status=416)
        if entry.size is None:
            raise StoreError("the server refused the range and tells no size", status=416)
        start, stop = resolve_range(entry.size, byte_range)
        if start >= stop:
            return Value(b"", entry.version, entry.size)
        # Some servers refuse a suffix that is longer than the object.
        answer = await self._ask("GET", key, replace(want, range=Range(start, stop - start)))
        if isinstance(answer.verdict, Accept):
            return self._value(answer, answer.verdict, Range(start, stop - start))
        raise self._error(answer)

    def _value(self, answer: Answer, accept: Accept, byte_range: ByteRange | None) -> Value:
        data, size = answer.body, accept.size
        if byte_range is not None:
            if accept.cut:
                whole = memoryview(data)
                size = len(whole)
                start, stop = resolve_range(size, byte_range)
                if stop - start < size:
                    data = bytes(whole[start:stop])
                    self._mark_rangeless()
            elif byte_range.length == 0:
                data = b""
        if not accept.cut and (accept.exact is None or (size is None and byte_range is None)):
            size = len(memoryview(data))  # all of it: a part says how long it is
        return Value(data, self._version(answer.headers), size)

    def _version(self, headers: Headers) -> Version | None:
        """Return the version of the object that an answer with these headers is about."""
        etag = etag_of(headers)
        return None if etag is None else Version(etag)

    def _mark_rangeless(self) -> None:
        if self.supports.partial_reads:
            self.supports = replace(self.supports, partial_reads=False, suffix_reads=False)

    # --- size and version ----------------------------------------------------------------------------------------

    async def _stat(self, key: str) -> Entry | None:
        """HEAD; where a server refuses it or tells no size, the first byte."""
        answer = await self._ask("HEAD", key, Want(head=True))
        if isinstance(answer.verdict, Accept) and answer.verdict.size is not None:
            return Entry(key, answer.verdict.size, self._version(answer.headers))
        if isinstance(answer.verdict, Accept) or answer.status in HEAD_REFUSED:
            return await self._stat_by_byte(key)
        if answer.status == 404 and self._lacks(answer):
            return None
        raise self._error(answer)

    async def _stat_by_byte(self, key: str) -> Entry | None:
        answer = await self._ask("GET", key, Want(_FIRST_BYTE, raw=self._raw))
        if isinstance(answer.verdict, Accept):
            value = self._value(answer, answer.verdict, _FIRST_BYTE)
            return Entry(key, value.size, value.version)
        if answer.status == 404 and self._lacks(answer):
            return None
        raise self._error(answer)

    # --- errors --------------------------------------------------------------------------------------------------

    def _error(self, answer: Answer) -> AiozarrError:
        return error_for(answer.status, answer.headers, bytes(answer.body))

    def _located(self, error: StoreError, key: str | None, byte_range: ByteRange | None) -> StoreError:
        error.store, error.key, error.range = self.url, key, byte_range
        return error


def _askable(byte_range: ByteRange | None) -> ByteRange | None:
    """Return a range that HTTP can say: of an empty one, the first byte, which is then dropped."""
    return _FIRST_BYTE if byte_range is not None and byte_range.length == 0 else byte_range
