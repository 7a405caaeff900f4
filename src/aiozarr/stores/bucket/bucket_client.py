"""The client of one bucket of a cloud: the operations that `ObjectStore` needs, with the full keys of objects.

The checksum of a whole object, if a response contains it, is compared with the body that was received.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from typing_extensions import Buffer

from aiozarr.common.concurrency import for_each, map_concurrently
from aiozarr.errors import ChangedError, StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import Request
from aiozarr.http1.request import BodyReader, check_headers
from aiozarr.http1.response_check import Accept, Expectation, Headers
from aiozarr.model import IfAbsent, Precondition, Supports, Version
from aiozarr.stores.blocking import in_thread, undone_on_failure
from aiozarr.stores.bucket.listing import MAX_PAGE_BYTES, ListingPage, iterate_pages
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.object_client import HTML_PAGE, ObjectClient, is_html_page
from aiozarr.stores.schemes import BUCKET_CLIENTS

HASHED_BYTES = 1 << 20
"""Bytes that are copied at once for a library that accepts only `bytes`."""

MAX_HASH_ON_LOOP_BYTES = 1 << 20
"""Longer bodies are hashed in a thread; the CRC of this much takes 0.1 ms."""

MAX_SHA_ON_LOOP_BYTES = 1 << 17
"""The same for SHA-1 and SHA-256."""


class BodyChecksum(NamedTuple):
    """A checksum of a whole object: the name of its algorithm, in `ALGORITHMS`, and its value in base64."""

    algorithm: str
    value: bytes

    def is_quick(self, nbytes: int) -> bool:
        """Return whether a body of this size is hashed on the loop."""
        return nbytes <= (MAX_SHA_ON_LOOP_BYTES if self.algorithm.startswith("SHA") else MAX_HASH_ON_LOOP_BYTES)

    def matches(self, body: Buffer) -> bool:
        """Return whether `body` has this checksum, or no installed package can compute it. It blocks."""
        compute = ALGORITHMS[self.algorithm]()
        return compute is None or compute(memoryview(body)) == self.value

    async def verify(self, body: Buffer, origin: str = "received") -> None:
        """Check that `body` has this checksum; a long one in a thread.

        Raises:
            StoreError: it has another one; retryable. The message calls the bytes `origin`.
        """
        quick = self.is_quick(memoryview(body).nbytes)
        if not (self.matches(body) if quick else await in_thread(lambda: self.matches(body))):
            raise StoreError(
                f"the {origin} bytes do not have the {self.algorithm} that the server reports", retryable=True
            )


def crc32c_base64(view: memoryview) -> bytes:
    """Return the CRC32C of contiguous bytes as object stores write it: big-endian, in base64; 0.1 ms for 1 MiB."""
    # Imported here because a store that is only read does not need it.
    import google_crc32c

    # The library accepts bytes and no memoryviews.
    value, whole = 0, view.obj
    if isinstance(whole, bytes) and len(whole) == view.nbytes:
        return base64.b64encode(google_crc32c.value(whole).to_bytes(4, "big"))
    for start in range(0, view.nbytes, HASHED_BYTES):
        value = google_crc32c.extend(value, bytes(view[start : start + HASHED_BYTES]))
    return base64.b64encode(value.to_bytes(4, "big"))


async def checksum_of(algorithm: str, data: Buffer) -> str:
    """Return a checksum of `data` in base64, by an algorithm of `ALGORITHMS` whose package is installed.

    The checksum of large data is computed in a thread.
    """
    view, compute = memoryview(data), ALGORITHMS[algorithm]()
    assert compute is not None
    if BodyChecksum(algorithm, b"").is_quick(view.nbytes):
        return compute(view).decode()
    return (await in_thread(lambda: compute(view))).decode()


@lru_cache(maxsize=1)
def _find_crc64nvme() -> Callable[[memoryview], bytes] | None:
    """Return the function of awscrt, if it is installed; it is too large to be required, and Python is too slow."""
    try:
        crc64nvme: Callable[[memoryview], int] = import_module("awscrt.checksums").crc64nvme
    except (ImportError, AttributeError):  # not installed, or a version before it had this checksum
        return None
    return lambda view: base64.b64encode(crc64nvme(view).to_bytes(8, "big"))


ALGORITHMS: dict[str, Callable[[], Callable[[memoryview], bytes] | None]] = {
    "CRC32C": lambda: crc32c_base64,
    "CRC32": lambda: lambda view: base64.b64encode(zlib.crc32(view).to_bytes(4, "big")),
    "CRC64NVME": _find_crc64nvme,
    "SHA1": lambda: lambda view: base64.b64encode(hashlib.sha1(view, usedforsecurity=False).digest()),
    "SHA256": lambda: lambda view: base64.b64encode(hashlib.sha256(view).digest()),
}
"""By algorithm, a function that returns the function of the checksum, or None if no installed package has it."""

PAGE_SIZE = 1000
"""Keys of one page of a listing, and of one bulk delete, which is the limit of the clouds."""

SHORT_RESPONSE = Expectation(max_bytes=1 << 20)
"""The expectation of responses without a value, such as those to deletes."""

LONG_RESPONSE = Expectation(max_bytes=MAX_PAGE_BYTES)

SINGLE_UPLOAD_BYTES = 64 << 20
"""Larger values are uploaded in parts, which can be sent side by side."""

PART_BYTES = 16 << 20
PART_CONCURRENCY = 8

BUCKET_SUPPORTS = Supports(writable=True, listable=True, conditional_reads=True, bounded_reads=True)

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
        max_parts: the most parts of an upload.
        copy_refusals: the statuses with which this cloud refuses to copy an object.
    """

    url: str
    origin: tuple[str, Hashable]
    identity: Hashable
    tokens: TokenSource[Any]
    supports: Supports
    keep_encoding = True
    head_identifies_missing = False
    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\x00-\x1f\x7f]")
    max_parts: ClassVar[int] = 10_000
    copy_refusals: ClassVar[frozenset[int]] = frozenset({400, 403, 405, 501})

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

    @staticmethod
    def stored_checksum(headers: Headers) -> BodyChecksum | None:
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

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        """Store `data` (flat bytes) under `key`, completely or not at all.

        Returns:
            the version of the stored value, or None if the server reports none.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
        """
        part_bytes = self.upload_part_bytes(data.nbytes, conditional=precondition is not None)
        if part_bytes is None:
            return await self.upload(key, data, precondition)
        condition_headers(precondition)  # a weak version is refused before anything is sent
        upload_id = await self.begin_parts(key)

        async def send_part(start: int, stop: int) -> UploadedPart:
            return await self.upload_part(key, upload_id, start // part_bytes, data[start:stop])

        return await self.upload_parts(key, upload_id, data.nbytes, part_bytes, send_part, precondition)

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

    def copy_error(self, response: Response) -> StoreError:
        """Return the error for a response that does not confirm a copy."""
        status = response.status
        if status == 412 or self.is_missing(response):
            return ChangedError("the object was replaced or removed before it was copied", status=status)
        error = self.error(response)
        if status in self.copy_refusals:
            return UnsupportedOperationError(f"the server does not copy: {error}", status=status)
        return error

    def can_upload(self, nbytes: int) -> bool:
        """Return whether the methods below, which are those of `UploadStore`, may store an object of this size."""
        return False

    def upload_part_bytes(self, nbytes: int, *, conditional: bool) -> int | None:
        """Return the size of the parts of an object of this size, or None if it is uploaded in one request."""
        # A probe tests the conditions of single requests only.
        is_single = nbytes <= SINGLE_UPLOAD_BYTES or (conditional and not self.supports.conditional_writes)
        return None if is_single else self.part_bytes(nbytes, PART_BYTES)

    def part_bytes(self, nbytes: int, least: int) -> int:
        """Return the size of the parts of an object: `least`, or more if there would be too many parts."""
        return max(least, -(-nbytes // self.max_parts))

    async def upload_parts(
        self,
        key: str,
        upload_id: str,
        nbytes: int,
        part_bytes: int,
        send_part: Callable[[int, int], Awaitable[UploadedPart]],
        precondition: Precondition | None = None,
    ) -> Version | None:
        """Store an object in parts, whole or not at all.

        Args:
            key: the object.
            upload_id: the upload, which has begun.
            nbytes: the size of the object.
            part_bytes: the size of the parts; the last one may be smaller.
            send_part: stores a part, given its start and stop in the object.
            precondition: the condition of the request that makes the object of its parts.
        """
        async with undone_on_failure(lambda: self.abort_parts(key, upload_id)):
            parts = await map_concurrently(
                lambda start: send_part(start, min(start + part_bytes, nbytes)),
                range(0, nbytes, part_bytes),
                concurrency=PART_CONCURRENCY,
            )
            return await self.complete_parts(key, upload_id, parts, precondition)

    async def upload(
        self, key: str, body: memoryview | BodyReader, precondition: Precondition | None
    ) -> Version | None:
        """Store an object."""
        raise NotImplementedError

    async def begin_parts(self, key: str) -> str:
        """Begin an upload in parts, and return its id."""
        raise NotImplementedError

    async def upload_part(self, key: str, upload_id: str, number: int, body: memoryview | BodyReader) -> UploadedPart:
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
    def page_parameters(self, prefix: str, delimiter: str, token: str) -> dict[str, str]:
        """Return the further arguments of `build` for a page, given the arguments of `page`."""

    @staticmethod
    @abstractmethod
    def parse_page(body: bytes, prefix: str) -> ListingPage:
        """Parse a page.

        Raises:
            StoreError: it is not valid.
        """

    async def page(self, prefix: str, delimiter: str, token: str) -> ListingPage:
        """Return a page of the objects whose keys start with `prefix`.

        Args:
            prefix: the beginning of the keys.
            delimiter: `"/"`: keys that contain it after the prefix are reported as their prefixes; `""`: all keys are.
            token: the continuation token of the page; `""` for the first page.
        """
        parameters = self.page_parameters(prefix, delimiter, token)
        response = await self.call("GET", "", LONG_RESPONSE, **parameters)
        if not isinstance(response.action, Accept):
            raise self.error(response)
        return self.parse_page(bytes(response.body), prefix)

    def pages(self, prefix: str, delimiter: str) -> AsyncGenerator[ListingPage, None]:
        """Iterate over the pages of a listing, given the arguments of `page`."""
        return iterate_pages(lambda token: self.page(prefix, delimiter, token))

    # --- deletes of single keys ----------------------------------------------------------------------------------

    def has_deleted(self, response: Response) -> bool:
        """Return whether the response to a DELETE means that the key is not stored any more.

        Raises:
            StoreError: the response does not come from the cloud.
        """
        if response.status not in _DELETED:
            return self.is_missing(response)
        if is_html_page(bytes(response.body)):
            raise StoreError(f"{HTML_PAGE}: the key may still be stored", status=response.status)
        return True


async def check_stored(stored: BodyChecksum | None, body: memoryview | BodyReader, sent: str | None = None) -> None:
    """Check the checksum that the response to an upload reports, if it reports one.

    Args:
        stored: the checksum in the response.
        body: the body that was sent. One that is read while it is sent is not read again for this.
        sent: the checksum that was sent with it, or None.

    Raises:
        StoreError: the server stored other bytes; retryable.
    """
    if stored is not None and stored.value.decode("latin-1") != sent and (isinstance(body, memoryview) or sent):
        await stored.verify(body if isinstance(body, memoryview) else b"", "sent")


def is_whole_object(request: Request, response: Response) -> bool:
    """Return whether the body of a response is all of the object that was requested."""
    if request.method != "GET" or not request.key or request.expectation.head:
        return False
    if response.status not in (200, 206):
        return False
    if response.status == 200 and b"content-range" not in response.headers:
        return True
    # A range may be as long as the object, such as a small shard. rclone sends it with status 200.
    action = response.action
    return isinstance(action, Accept) and action.size == memoryview(response.body).nbytes


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
        TypeError: an unknown option; the message has the nearest known option.
    """
    scheme, separator, _ = url.partition("://")
    module = BUCKET_CLIENTS.get(scheme.lower())
    if not separator or module is None:
        known = ", ".join(f"{name}://" for name in BUCKET_CLIENTS)
        raise ValueError(f"the URL of an object store is scheme://bucket/path, with one of these schemes: {known}")
    opened: tuple[BucketClient, str] = import_module(module).open_bucket(url, storage_options)
    return opened
