"""The store in a bucket of a cloud: keys below a prefix, read and written by the client of the bucket."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from aiozarr.errors import EraseError, InvalidKeyError, StoreError, UnsupportedOperationError, fill_location
from aiozarr.http1.connection import Response
from aiozarr.http1.request import BodyReader
from aiozarr.http1.response_check import Expectation
from aiozarr.model import ByteRange, Entry, Precondition, Value, Version, check_key, check_prefix
from aiozarr.stores.bucket.bucket_client import PAGE_SIZE, BucketClient, open_bucket
from aiozarr.stores.bucket.listing import ListingPage
from aiozarr.stores.capabilities import CopyFromStore, ProbedStore, UploadedPart, UploadStore
from aiozarr.stores.contract import Store, byte_view, directory_url, split_root, with_root
from aiozarr.stores.http.object_client import BAD_REQUEST, HTML_PAGE, UNKNOWN_HEADER_CODES, is_html_page
from aiozarr.stores.http.web_store import WebStore

if TYPE_CHECKING:
    from typing_extensions import Buffer


T = TypeVar("T")

# The forms in which servers without conditional writes refuse the header of a condition, besides 405 and 501.
_REFUSED_CONDITION = re.compile(f"{re.escape(BAD_REQUEST)}(?:: (?:{'|'.join(UNKNOWN_HEADER_CODES)}))?(?:,|$)")


class ObjectStore(WebStore[BucketClient], CopyFromStore, ProbedStore, UploadStore):
    """Values of a bucket, below a prefix: `s3://bucket/prefix`.

    A 404 of the object itself means that the value is missing; a missing bucket, a refusal and a redirect are errors.
    """

    def __init__(self, url: str, **storage_options: Any) -> None:
        """Describe the store; nothing is connected before the first operation.

        Args:
            url: `s3://bucket/prefix`; the prefix is used unchanged, without percent-encoding.
            storage_options: see "Storage options" in the documentation; fsspec's names are known too.
                Missing ones are found as by the cloud's own tools: in environment, profiles, roles.

        Raises:
            TypeError: an unknown option; the message has the nearest known option.
            ValueError: the URL or an option is not valid, or options contradict each other.
            InvalidKeyError: this cloud cannot store keys with this prefix.
        """
        self._client, self._root = open_bucket(url, storage_options)
        self._check_storable(self._root)
        self._given = dict(storage_options)
        self.supports = self._client.supports

    @property
    def url(self) -> str:
        """The URL of the bucket and prefix, unchanged except for a slash after `.zip`, which would name an archive."""
        return self.url_of("")

    def url_of(self, path: str) -> str:
        """Return the URL of `path`, not percent-encoded, like all bucket URLs."""
        return directory_url(f"{self._client.url}/{self._root}{path}".rstrip("/"))

    @property
    def server(self) -> str:
        """The URL of the server, without the bucket."""
        return self._client.origin[0]

    @property
    def origin(self) -> Hashable:
        """The server, and an identity of the credentials."""
        return self._client.origin

    @property
    def identity(self) -> Hashable:
        """Server, bucket, prefix, and an identity of the credentials."""
        return (type(self), self._client.identity, self._root)

    def object_identity(self, key: str) -> Hashable:
        """Server, bucket, and the full key."""
        return (ObjectStore, self._client.identity, self._root + key)

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the store of the prefix above; both share their connections, and closing either closes them."""
        root, name = split_root(self._root)
        return (with_root(self, _root=root), name) if name else None

    def child_store(self, path: str) -> Store:
        """Return the store of the prefix `path` below this store's prefix; both share their connections."""
        return with_root(self, _root=f"{self._client_key(path)}/")

    def __reduce__(self) -> tuple[Any, ...]:
        # Secrets in options are pickled. The other process finds the others again.
        return (partial(type(self), self.url, **self._given), (), {"supports": self.supports})

    # --- reading -------------------------------------------------------------------------------------------------

    def _client_key(self, key: str) -> str:
        """Return the object's key in the bucket, if the cloud can store it."""
        super()._client_key(key)
        self._check_storable(key)
        return self._root + key

    def _value(self, expectation: Expectation, response: Response, range: ByteRange | None) -> Value:
        value = super()._value(expectation, response, range)
        if value.version is None and is_html_page(bytes(memoryview(response.body)[:100])):  # clouds send versions
            raise StoreError(HTML_PAGE, status=response.status)
        return value

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `value` under `key`, whole or not at all, and return its version.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
            UnsupportedOperationError: the server was found to ignore conditions, or the version is weak.
            StoreError: the value could not be stored, or no response was received, in which case it may be stored.
        """
        return await self._write(key, precondition, lambda name: self._client.put(name, byte_view(value), precondition))

    def _check_condition(self, key: str, precondition: Precondition | None) -> None:
        if precondition is not None and self.supports.conditional_writes is False:
            check_key(key, store=self.url)
            raise UnsupportedOperationError("this server ignores the conditions of writes", store=self.url, key=key)

    async def _on(self, key: str, operation: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of an operation of the client on the object of `key`; errors name store and key."""
        with self._located(key, None):
            return await operation(self._client_key(key))

    async def _write(self, key: str, condition: Precondition | None, operation: Callable[[str], Awaitable[T]]) -> T:
        """Do as `_on` for a write with this condition."""
        self._check_condition(key, condition)
        try:
            return await self._on(key, operation)
        except StoreError as error:
            if condition is None or error.retryable or not _REFUSED_CONDITION.match(error.message):
                raise
            reason = f"the server refuses a condition of a write ({error.message})"
            raise UnsupportedOperationError(reason, store=self.url, key=key, status=error.status) from error

    def _can_copy_from(self, source: Store) -> bool:
        """Return whether `source` is in the same cloud, with the same credentials."""
        if not isinstance(source, ObjectStore) or type(source._client) is not type(self._client):
            return False
        return self._client.can_copy and source.origin == self.origin

    async def _copy_from(
        self, source: Store, source_key: str, key: str, *, size: int, if_match: Version | None = None
    ) -> Version | None:
        """Have the server copy an object of `source`; see `CopyFromStore`."""
        if not isinstance(source, ObjectStore):
            raise UnsupportedOperationError("the server can only copy objects within one cloud", store=self.url)
        with self._located(key, None):
            name, copied = self._client_key(key), source._client_key(source_key)
            return await self._client.copy_object(source._client, copied, name, size=size, if_match=if_match)

    def _can_upload(self, nbytes: int) -> bool:
        """Return whether an object of this size may be uploaded in pieces; see `UploadStore`."""
        return self._client.can_upload(nbytes)

    def _upload_part_bytes(self, nbytes: int, *, conditional: bool = False) -> int | None:
        """Return the size of the parts of an object of this size, or None if it is uploaded in one request."""
        return self._client.upload_part_bytes(nbytes, conditional=conditional)

    async def _upload(self, key: str, body: BodyReader, *, precondition: Precondition | None = None) -> Version | None:
        """Store an object in pieces; see `UploadStore`."""
        return await self._write(key, precondition, lambda name: self._client.upload(name, body, precondition))

    async def _begin_parts(self, key: str) -> str:
        """Begin an upload in parts; see `UploadStore`."""
        return await self._on(key, self._client.begin_parts)

    async def _upload_part(self, key: str, upload_id: str, number: int, body: BodyReader) -> UploadedPart:
        """Store a part; see `UploadStore`."""
        return await self._on(key, lambda name: self._client.upload_part(name, upload_id, number, body))

    async def _complete_parts(
        self, key: str, upload_id: str, parts: Sequence[UploadedPart], *, precondition: Precondition | None = None
    ) -> Version | None:
        """Make an object of its parts; see `UploadStore`."""
        complete = lambda name: self._client.complete_parts(name, upload_id, parts, precondition)  # noqa: E731
        return await self._write(key, precondition, complete)

    async def _abort_parts(self, key: str, upload_id: str) -> None:
        """Remove the parts of an upload; see `UploadStore`."""
        await self._on(key, lambda name: self._client.abort_parts(name, upload_id))

    async def erase(self, key: str) -> None:
        """Remove `key`. A missing key is not an error."""
        await self._on(key, self._client.delete)

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`, up to a thousand per request if the cloud supports it.

        Raises:
            EraseError: some keys could not be removed, which the error names; all others were removed.
            StoreError: nothing could be removed.
        """
        checked = [check_key(key, store=self.url) for key in keys]
        failed: dict[str, StoreError] = {}
        for start in range(0, len(checked), PAGE_SIZE):
            failed |= await self._erase_page(checked[start : start + PAGE_SIZE])
        self._raise(failed)

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, page by page as the listing streams in.

        Raises:
            EraseError: some keys could not be removed, which the error names; all others were removed.
            StoreError: the listing failed, or nothing could be removed.
        """
        check_prefix(prefix, store=self.url)
        skip = len(self._root)
        failed: dict[str, StoreError] = {}
        async with aclosing(self._pages(prefix)) as pages:
            async for page in pages:
                failed |= await self._erase_page([entry.key[skip:] for entry in page.entries])
        self._raise(failed)

    async def _erase_page(self, keys: list[str]) -> dict[str, StoreError]:
        if not keys:
            return {}
        with self._located(None, None):
            failed = await self._client.delete_many([self._client_key(key) for key in keys])
        skip = len(self._root)
        for key, error in failed.items():
            fill_location(error, store=self.url, key=key[skip:])
        return {key[skip:]: error for key, error in failed.items()}

    def _raise(self, failed: Mapping[str, StoreError]) -> None:
        if failed:
            raise EraseError.from_failures(failed, self.url)

    # --- listing -------------------------------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all objects whose keys start with `prefix`, as the pages of the listing stream in."""
        check_prefix(prefix, store=self.url)
        return self._entries(prefix)

    async def _entries(self, prefix: str) -> AsyncIterator[Entry]:
        skip = len(self._root)
        async with aclosing(self._pages(prefix)) as pages:
            async for page in pages:
                for entry in page.entries:
                    yield Entry(entry.key[skip:], entry.size, entry.version) if skip else entry

    async def _pages(self, prefix: str, delimiter: str = "") -> AsyncGenerator[ListingPage, None]:
        """Iterate over the pages of a listing, whose keys begin with the root."""
        with self._located(None, None):
            async with aclosing(self._client.pages(self._root + prefix, delimiter)) as pages:
                async for page in pages:
                    yield page

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""
        check_prefix(prefix, store=self.url)
        skip = len(self._root)
        keys: list[str] = []
        prefixes: set[str] = set()  # one may be on several pages
        async with aclosing(self._pages(prefix, "/")) as pages:
            async for page in pages:
                keys += [entry.key[skip:] for entry in page.entries]
                prefixes.update(name[skip:] for name in page.prefixes)
        return sorted(keys), sorted(prefixes)

    # --- keys and life -------------------------------------------------------------------------------------------

    def _check_storable(self, key: str) -> None:
        unstorable = self._client.unstorable.search(key)
        if unstorable is not None:
            found = unstorable[0]
            rule = "no part of a key ends with a dot" if found == "." else f"keys hold no {found!r}"
            reason = f"in this object store {rule}: see character {unstorable.start() + 1}"
            raise InvalidKeyError(reason, store=self.url, key=key)
