"""The store in a bucket: the lane reads by signed URLs, and obstore signs, lists, writes and deletes."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from aiozarr.errors import (
    InvalidKeyError,
    PreconditionFailedError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.model import Entry, IfAbsent, Precondition, Range, Supports, Version, check_key, check_prefix
from aiozarr.stores.contract import Store, byte_view, rooted_at, split_root
from aiozarr.stores.http.errors import EXPIRED_CODES, error_code
from aiozarr.stores.http.read import WebStore
from aiozarr.stores.http.url import fingerprint
from aiozarr.stores.lane import Accept, Answer, Want
from aiozarr.stores.options import s3_options
from aiozarr.stores.s3.address import (
    Source,
    find_place,
    find_region,
    find_source,
    parse_url,
    sends_found_credentials_openly,
)
from aiozarr.stores.s3.client import has_credential_files
from aiozarr.stores.s3.errors import call, translated
from aiozarr.stores.s3.link import S3Link, ask_region
from aiozarr.stores.s3.probe import conditions_hold

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

_DELETED = frozenset({200, 202, 204})
_NOT_IN_BULK = frozenset({None, 200, 405, 500, 501})

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

PAGE = 1000
"""Keys of one page of a listing, and of one bulk delete: as many as S3 allows."""

ERASERS = 16
"""Deletes at once, where keys are removed one by one."""

SINGLE_PUT_BYTES = 64 << 20
"""Larger values go up in parts, unless a condition binds them into one request."""

PART_BYTES = 16 << 20
MAX_PARTS = 10_000

SLOWEST_BYTES_PER_SECOND = 64 << 10
"""A write is given the time that it takes at this rate, besides `idle_timeout`."""


class ObjectStore(WebStore):
    """Values of a bucket, below a prefix: `s3://bucket/prefix`.

    A 404 of the object itself says that the value is missing; a missing bucket, a refusal and a redirect are errors.
    After a fork, a process whose parent used S3 gets `ForkedProcessError`.
    """

    _raw: ClassVar[bool] = True
    _whole: ClassVar[Want] = Want(raw=True)

    def __init__(self, url: str, **storage_options: Any) -> None:
        """Describe the store; nothing is connected before the first operation.

        Args:
            url: `s3://bucket/prefix`; the prefix is taken as it is, without percent-encoding.
            storage_options: `anon`, `key`, `secret`, `token`, `profile`, `endpoint_url`, `region`, `requester_pays`,
                and what `S3Options` has besides; fsspec's and obstore's names of the same are known too. What is not
                given comes from the environment (`AWS_ENDPOINT_URL_S3`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, ...),
                credentials also from profiles and roles.

        Raises:
            TypeError: an unknown option; the message lists the known ones.
            ValueError: the URL or an option is not valid, or options contradict each other.
        """
        self._bucket, self._root = parse_url(url)
        self._given = dict(storage_options)
        self._options = options = s3_options(storage_options)
        self._source: Source = find_source(options, os.environ, has_credential_files())
        place = find_place(self._bucket, options, os.environ)
        self._region_known = not place.aws or find_region(options, os.environ) is not None
        self._link = S3Link(place, options, self._source)
        self._origin = place.web.origin
        self._fingerprint = self._credentials_fingerprint()
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self.supports = Supports(
            writeable=True, listable=True, conditional_reads=True, conditional_writes=True if place.aws else None
        )
        if sends_found_credentials_openly(place, options, self._source):
            warnings.warn(
                f"credentials that were found, not given, sign requests to {place.web.origin} without TLS", stacklevel=2
            )

    def _credentials_fingerprint(self) -> str:
        options, source = self._options, self._source
        if source == "given":
            return fingerprint({"key": options.key or "", "secret": options.secret or "", "token": options.token or ""})
        if source == "environment":
            return fingerprint({"environment": os.environ.get("AWS_ACCESS_KEY_ID", "")})
        return f"{source}:{options.profile or os.environ.get('AWS_PROFILE', '')}" if source == "profile" else source

    @property
    def url(self) -> str:
        """`s3://bucket/prefix`, without a slash at its end."""
        return f"s3://{self._bucket}/{self._root}".rstrip("/")

    @property
    def origin(self) -> Hashable:
        """The server, and what tells these credentials from others."""
        return (self._origin, self._fingerprint)

    @property
    def identity(self) -> Hashable:
        """Server, bucket, prefix, and what tells these credentials from others."""
        return (type(self), self._origin, self._bucket, self._root, self._fingerprint)

    def rooted_above(self) -> tuple[Store, str] | None:
        """Return the store of the prefix above; it shares this one's connections, which closing either closes."""
        root, name = split_root(self._root)
        return (rooted_at(self, _root=root), name) if name else None

    def __reduce__(self) -> tuple[Any, ...]:
        # Secrets that were given travel; those that were found are found again on the other side.
        return (_open, (type(self), self.url, self._given, self.supports))

    # --- reading -------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, key: str, want: Want) -> Answer:
        link = self._link if self._region_known else await self._ready()
        answer = await link.ask(method, self._full(key), want)
        if isinstance(answer.verdict, Accept):
            return answer
        region = answer.headers.get(b"x-amz-bucket-region", b"").decode("latin-1")
        if answer.status in (301, 307, 400) and self._move(region):
            return await self._link.ask(method, self._full(key), want)
        if _expired(answer) and link.renew():
            return await link.ask(method, self._full(key), want)
        return answer

    def _lacks(self, answer: Answer) -> bool:
        return error_code(bytes(answer.body)) in (None, "NoSuchKey")

    async def _stat(self, key: str) -> Entry | None:
        """The first byte: a HEAD could not tell a missing object from a missing bucket."""
        answer = await self._ask("GET", key, Want(Range(0, 1), raw=True))
        if answer.status == 416:  # it has no first byte
            answer = await self._ask("HEAD", key, Want(head=True))
        if isinstance(answer.verdict, Accept):
            value = self._value(answer, answer.verdict, Range(0, 1))
            return Entry(key, value.size, value.version)
        if answer.status == 404 and self._lacks(answer):
            return None
        raise self._error(answer)

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `value` under `key`, whole or not at all, and return its version.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
            UnsupportedOperationError: the server was found to ignore conditions, or the version is a weak one.
            StoreError: the value could not be stored, or no answer came, and then it may be stored.
        """
        check_key(key, store=self.url)
        if precondition is not None and self.supports.conditional_writes is False:
            raise UnsupportedOperationError("this server ignores conditions of writes", store=self.url, key=key)
        return await self._put(key, value, _mode(precondition, self.url, key))

    async def _put(self, key: str, value: Buffer, mode: Any) -> Version | None:
        import obstore

        data = byte_view(value)
        full = self._full(key)
        link = await self._ready()
        client = link.client()
        result = await self._done(
            lambda: obstore.put_async(
                client,
                full,
                data,
                mode=mode,
                use_multipart=mode == "overwrite" and data.nbytes > SINGLE_PUT_BYTES,
                chunk_size=max(PART_BYTES, -(-data.nbytes // MAX_PARTS)),
            ),
            key,
            data.nbytes,
        )
        return _version(result["e_tag"])

    async def erase(self, key: str) -> None:
        """Remove `key`; a key that is not stored is no error."""
        check_key(key, store=self.url)
        try:
            # The client library has bulk deletes only, which not every server knows.
            answer = await self._ask("DELETE", key, Want())
            if answer.status not in _DELETED and not (answer.status == 404 and self._lacks(answer)):
                raise self._error(answer)
        except StoreError as error:
            raise self._located(error, key, None)  # noqa: B904  # the same error, now with its place

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`, a thousand in a request.

        Raises:
            StoreError: a key could not be removed; the error names the first such key, after all others were tried.
        """
        pending: list[str] = []
        for key in keys:
            pending.append(check_key(key, store=self.url))
            if len(pending) == PAGE:
                await self._erase_page(pending)
                pending = []
        await self._erase_page(pending)

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, page by page as the listing streams in."""
        check_prefix(prefix, store=self.url)
        async for page in self._pages(prefix):
            await self._erase_page([entry.key for entry in page])

    async def _erase_page(self, keys: list[str]) -> None:
        import obstore

        if not keys:
            return
        client = (await self._ready()).client()
        full = [self._full(key) for key in keys]
        try:
            await self._done(lambda: obstore.delete_async(client, full), keys[0])
        except StoreError as error:
            if error.status not in _NOT_IN_BULK:
                raise
            # The library tells one error for all; only one by one is it seen which keys are left.
            await self._erase_singly(keys)

    async def _erase_singly(self, keys: list[str]) -> None:
        pending = iter(keys)
        failed: list[StoreError] = []

        async def work() -> None:
            for key in pending:
                try:
                    await self.erase(key)
                except StoreError as error:
                    failed.append(error)

        await asyncio.gather(*(work() for _ in range(ERASERS)))
        if failed:
            raise failed[0]

    # --- listing -------------------------------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all objects whose keys start with `prefix`, as the pages of the listing stream in."""
        check_prefix(prefix, store=self.url)
        return self._entries(prefix)

    async def _entries(self, prefix: str) -> AsyncIterator[Entry]:
        async for page in self._pages(prefix):
            for entry in page:
                yield entry

    async def _pages(self, prefix: str) -> AsyncIterator[list[Entry]]:
        import obstore

        client = (await self._ready()).lister()
        full = self._root + prefix
        with translated(self.url, None):
            # Its request is under way until the stream is dropped, and a traceback may keep frames and arguments.
            held = [obstore.list(client, full or None, chunk_size=PAGE)]
        try:
            while (page := await self._done(lambda: anext(held[0], None), None)) is not None:
                yield [self._entry(found) for found in page if found["path"].startswith(full)]
        finally:
            held.clear()

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""
        check_prefix(prefix, store=self.url)
        import obstore

        client = (await self._ready()).client()
        full = self._root + prefix
        found = await self._done(lambda: obstore.list_with_delimiter_async(client, full or None), None)
        skip = len(self._root)
        keys = [entry["path"][skip:] for entry in found["objects"] if entry["path"].startswith(full)]
        return sorted(keys), sorted(f"{name[skip:]}/" for name in found["common_prefixes"])

    def _entry(self, found: Mapping[str, Any]) -> Entry:
        return Entry(found["path"][len(self._root) :], found["size"], _version(found["e_tag"]))

    # --- what this server can do ---------------------------------------------------------------------------------

    async def probe_conditional_writes(self) -> bool:
        """Return whether the server heeds conditions of writes, found out once by writing; no object is left behind.

        Some servers answer 200 and ignore the condition; others refuse the right version too, so a write that must
        succeed is part of the probe. AWS itself is trusted.
        """
        if self.supports.conditional_writes is None:
            key = f"__aiozarr_probe_{secrets.token_hex(8)}"
            try:
                holds = await conditions_hold(lambda value, mode: self._try(key, value, mode))
            finally:
                await self.erase(key)
            self.supports = replace(self.supports, conditional_writes=holds)
        return bool(self.supports.conditional_writes)

    async def _try(self, key: str, value: bytes, mode: Any) -> str | None:
        """Write under a condition and return the ETag; None where the server refuses, or tells no ETag."""
        try:
            version = await self._put(key, value, mode)
        except (PreconditionFailedError, UnsupportedOperationError):
            return None
        return None if version is None else version.etag

    def _full(self, key: str) -> str:
        """Return the object's key in the bucket; the client library takes none with control characters."""
        if _CONTROL.search(key):
            raise InvalidKeyError("an object store's key has no control characters", store=self.url, key=key)
        return self._root + key

    # --- connections ---------------------------------------------------------------------------------------------

    async def _ready(self) -> S3Link:
        """Return the way to the bucket, after its region is known."""
        if not self._region_known:
            loop = asyncio.get_running_loop()
            async with self._locks.setdefault(loop, asyncio.Lock()):
                if not self._region_known:
                    self._move(await ask_region(self, self._bucket))
                    self._region_known = True
        return self._link

    def _move(self, region: str | None) -> bool:
        """Go to the bucket's own region; False where there is nothing to change."""
        place = self._link.place
        if not region or not place.aws or region == place.region:
            return False
        options = replace(self._options, region=region)
        self._link = S3Link(find_place(self._bucket, options, os.environ), options, self._source)
        return True

    async def _done(self, operation: Callable[[], Awaitable[T]], key: str | None, nbytes: int = 0) -> T:
        """Await an operation of the client library for as long as it may take."""
        seconds = self._link.pool_origin.idle_timeout * 2 + nbytes / SLOWEST_BYTES_PER_SECOND
        return await call(operation, seconds, self.url, key)

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other store uses; the store can be used again."""
        await self._link.aclose()


def _open(kind: type[ObjectStore], url: str, options: Mapping[str, Any], supports: Supports) -> ObjectStore:
    store = kind(url, **options)
    store.supports = supports
    return store


def _mode(precondition: Precondition | None, store: str, key: str) -> Any:
    match precondition:
        case None:
            return "overwrite"
        case IfAbsent():
            return "create"
        case _:
            version = precondition.version
            if version.weak or version.etag is None:
                raise UnsupportedOperationError("a weak version cannot be a condition", store=store, key=key)
            return {"e_tag": version.etag}


def _version(etag: str | None) -> Version | None:
    if not etag or etag == '""':  # some servers tell none after an upload in parts
        return None
    return Version(etag if etag.endswith('"') else f'"{etag}"')


def _expired(answer: Answer) -> bool:
    if answer.status not in (400, 401, 403):
        return False
    body = bytes(answer.body)
    return error_code(body) in EXPIRED_CODES or b"Request has expired" in body
