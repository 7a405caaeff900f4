"""The client of one bucket of a cloud: what `ObjectStore` needs, with the full keys of objects."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

from aiozarr.common.concurrency import for_each
from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import Request
from aiozarr.http1.request import BodyReader, check_headers
from aiozarr.http1.response_check import Accept, Expectation, Headers
from aiozarr.model import Entry, IfAbsent, Precondition, Supports, Version
from aiozarr.stores.bucket.body_checksum import BodyChecksum
from aiozarr.stores.bucket.listing import ListingPage, collect_names, entries_of_pages, iterate_pages
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.errors import HTML_PAGE, is_html_page
from aiozarr.stores.http.object_client import ObjectClient
from aiozarr.stores.schemes import BUCKET_CLIENTS

PAGE_SIZE = 1000
"""Keys of one page of a listing, and of one bulk delete: the clouds' own limit."""

SHORT_RESPONSE = Expectation(max_bytes=1 << 20)
"""The expectation of responses without a value, such as those to deletes."""

DELETE_CONCURRENCY = 32
"""Keys that are removed at once, by a request each."""

_DELETED = frozenset({200, 202, 204})


class BucketClient(ObjectClient):
    """One bucket, or container, of a cloud and the credentials that are used for it.

    Keys and prefixes are those of the objects in the bucket, and are already checked.

    Attributes:
        url: the canonical URL of the bucket, without a slash at its end and without secrets.
        origin: the URL of the server, and an identity of the credentials.
        identity: equal for clients that see the same objects: cloud, server, bucket, and an identity of the
            credentials.
        tokens: the source of the tokens that authorise requests.
        supports: the operations of the store; `conditional_writes` is None if only a probe can tell.
        unstorable: matches the characters that keys of this cloud cannot contain.
    """

    url: str
    origin: tuple[str, Hashable]
    identity: Hashable
    tokens: TokenSource[Any]
    supports: Supports
    keep_encoding = True
    head_identifies_missing = False
    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\x00-\x1f\x7f]")

    # --- authorising ---------------------------------------------------------------------------------------------

    @abstractmethod
    def build(self, token: Any, method: str, key: str, expectation: Expectation) -> Request:
        """Return a request that `token` authorises. Each client has further arguments; `key` is `""` for the bucket."""

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        token = self.tokens.cached()
        return None if token is None else self.build(token, method, key, expectation)

    async def authorise_later(self, method: str, key: str, expectation: Expectation, **more: Any) -> Request:
        """Return the request of `build` with its further arguments `more`, after waiting for a token if necessary."""
        return self.build(await self.tokens.token(), method, key, expectation, **more)

    async def call(self, method: str, key: str, expectation: Expectation = SHORT_RESPONSE, **more: Any) -> Response:
        """Send the request of `build` with its further arguments `more`, and return its interpreted response."""
        return await self.exchange(lambda: self.authorise_later(method, key, expectation, **more))

    # --- checksums of values -------------------------------------------------------------------------------------

    def stored_checksum(self, headers: Headers) -> BodyChecksum | None:
        """Return the checksum of the whole object from the headers of a response, or None if they contain none."""
        return None

    def is_value(self, request: Request, response: Response) -> bool:
        if not super().is_value(request, response):
            return False
        checksum = self.stored_checksum(response.headers) if is_whole_object(request, response) else None
        return checksum is None or (
            checksum.is_quick(memoryview(response.body).nbytes) and checksum.matches(response.body)
        )

    async def interpret(self, request: Request, response: Response) -> Response:
        if isinstance(response.action, Accept) and is_whole_object(request, response):
            checksum = self.stored_checksum(response.headers)
            if checksum is not None:
                await checksum.verify(response.body)
        return response

    # --- writing -------------------------------------------------------------------------------------------------

    @abstractmethod
    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        """Store `data` (flat bytes) under `key`, completely or not at all.

        Returns:
            the version of the stored value, or None if the server reports none.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
        """

    async def delete(self, key: str) -> None:
        """Remove `key`; a key that is not stored is no error."""
        response = await self.request("DELETE", key, SHORT_RESPONSE)
        if not self.has_deleted(response):
            raise self.error(response)

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        """Remove up to `PAGE_SIZE` keys, and return the errors of those that could not be removed, in their order.

        Raises:
            StoreError: no key could be removed.
        """
        failed: dict[str, StoreError] = {}

        async def remove(key: str) -> None:
            try:
                await self.delete(key)
            except StoreError as error:
                failed[key] = error

        await for_each(remove, keys, concurrency=DELETE_CONCURRENCY)
        if keys and len(failed) == len(set(keys)):
            raise failed[keys[0]]
        return {key: failed[key] for key in keys if key in failed}

    @property
    def can_copy(self) -> bool:
        """Whether `copy_object` may have the server copy."""
        return True

    @abstractmethod
    async def copy_object(
        self, source: BucketClient, source_key: str, key: str, *, size: int, if_match: Version | None
    ) -> Version | None:
        """Have the server copy `source_key` of `source`, a client of this class, server and credentials, to `key`.

        Raises:
            ChangedError: the object has another version than `if_match`, or is gone.
            UnsupportedOperationError: this server does not copy such objects.
        """

    def can_upload(self, nbytes: int) -> bool:
        """Return whether the methods below may store an object of this size; `UploadStore` says what they do."""
        return False

    def upload_part_bytes(self, nbytes: int, *, conditional: bool) -> int | None:
        """Return the size of the parts of an object of this size, or None if it is uploaded in one request."""
        return None

    async def upload(self, key: str, body: BodyReader, precondition: Precondition | None) -> Version | None:
        """Store an object."""
        raise NotImplementedError

    async def begin_parts(self, key: str) -> str:
        """Begin an upload in parts, and return its id."""
        raise NotImplementedError

    async def upload_part(self, key: str, upload_id: str, number: int, body: BodyReader) -> UploadedPart:
        """Store the part `number`, from 0 on."""
        raise NotImplementedError

    async def complete_parts(
        self, key: str, upload_id: str, parts: Sequence[UploadedPart], precondition: Precondition | None
    ) -> Version | None:
        """Make an object of the parts."""
        raise NotImplementedError

    async def abort_parts(self, key: str, upload_id: str) -> None:
        """Remove the parts."""
        raise NotImplementedError

    # --- listing -------------------------------------------------------------------------------------------------

    @abstractmethod
    async def page(self, prefix: str, delimiter: str, token: str) -> ListingPage:
        """Return a page of the objects whose keys start with `prefix`.

        Args:
            prefix: the beginning of the keys.
            delimiter: `"/"`: keys that contain it after the prefix are reported as their prefixes; `""`: all keys are.
            token: the continuation token of the page; `""` for the first page.
        """

    def pages(self, prefix: str) -> AsyncGenerator[Sequence[Entry], None]:
        """Iterate over the objects whose keys start with `prefix`, a page at a time."""
        return entries_of_pages(iterate_pages(lambda token: self.page(prefix, "", token)))

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""
        return await collect_names(iterate_pages(lambda token: self.page(prefix, "/", token)))

    # --- deletes of single keys ----------------------------------------------------------------------------------

    def has_deleted(self, response: Response) -> bool:
        """Return whether the response to a DELETE means that the key is not stored any more.

        Raises:
            StoreError: the response does not come from the cloud.
        """
        if response.status not in _DELETED:
            return response.status == 404 and self.is_missing(response)
        if is_html_page(bytes(response.body)):
            raise StoreError(f"{HTML_PAGE}: the key may still be stored", status=response.status)
        return True


def is_whole_object(request: Request, response: Response) -> bool:
    """Return whether the body of a response is all of the object that was requested."""
    if request.method != "GET" or not request.key or request.expectation.head:
        return False
    if response.status == 200:
        return True
    # A range may be as long as the object: small shards are read by one.
    action = response.action
    return response.status == 206 and isinstance(action, Accept) and action.size == memoryview(response.body).nbytes


def condition_headers(precondition: Precondition | None) -> dict[str, str]:
    """Return the header of a condition.

    Raises:
        UnsupportedOperationError: the version is a weak one.
    """
    if precondition is None:
        return {}
    if isinstance(precondition, IfAbsent):
        return {"if-none-match": "*"}
    version = precondition.version
    if version.weak or version.etag is None:
        raise UnsupportedOperationError("a weak version cannot be a condition")
    return check_headers({"if-match": version.etag})


def open_bucket(url: str, storage_options: Mapping[str, Any]) -> tuple[BucketClient, str]:
    """Return the client of the bucket in `url`, and the root below it: `""`, or a prefix ending with `/`.

    Raises:
        ValueError: the URL or an option is not valid, or options contradict each other.
        TypeError: an unknown option; the message lists the known ones.
    """
    scheme, separator, _ = url.partition("://")
    module = BUCKET_CLIENTS.get(scheme.lower())
    if not separator or module is None:
        known = ", ".join(f"{name}://" for name in BUCKET_CLIENTS)
        raise ValueError(f"the URL of an object store is scheme://bucket/path, with one of these schemes: {known}")
    opened: tuple[BucketClient, str] = import_module(module).open_bucket(url, storage_options)
    return opened
