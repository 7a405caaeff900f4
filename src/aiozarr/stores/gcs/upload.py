"""Uploads to GCS: small values in one request, large ones in a resumable session.

Also parses responses: pages of listings, errors, and the CRC32C of objects.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import anyio

from aiozarr.errors import PreconditionFailedError, StoreError, UnauthenticatedError, UnsupportedOperationError
from aiozarr.http1.connection import RESUME_INCOMPLETE, Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import PieceReader, RequestTemplate
from aiozarr.http1.response_check import HASH_HEADER, Headers
from aiozarr.model import Entry, IfAbsent, Precondition, Version, is_unicode
from aiozarr.stores.blocking import undone_on_failure
from aiozarr.stores.bucket.bucket_client import SHORT_RESPONSE, BodyChecksum, BucketClient, checksum_of
from aiozarr.stores.bucket.listing import ListingPage, is_key, listing_error, parse_size
from aiozarr.stores.gcs.address import GcsEndpoint
from aiozarr.stores.gcs.credentials import HINT
from aiozarr.stores.http.missing_objects import error_code, names_container
from aiozarr.stores.http.object_client import HTML_PAGE, error_for, hide_request, is_html_page


def parse_page(body: bytes, prefix: str) -> ListingPage:
    """Parse a page.

    Raises:
        StoreError: it is not valid.
    """
    try:
        page: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise StoreError("the server's listing is not valid JSON", retryable=True) from error
    if not isinstance(page, dict):
        raise listing_error("is not a JSON object")
    token, items, prefixes = page.get("nextPageToken") or "", page.get("items") or [], page.get("prefixes") or []
    if not isinstance(token, str) or not is_unicode(token):
        raise listing_error("has an invalid token")
    if not isinstance(items, list):
        raise listing_error("has invalid items")
    if not isinstance(prefixes, list) or not all(isinstance(name, str) for name in prefixes):
        raise listing_error("has invalid prefixes")
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        raise listing_error("has an item without a name")
    entries = [_entry(item, item["name"]) for item in items if is_key(item["name"], prefix)]
    return ListingPage(entries, [name for name in prefixes if is_key(name.removesuffix("/"), prefix)], token)


def _entry(item: Mapping[str, Any], name: str) -> Entry:
    size, generation = item.get("size"), item.get("generation")
    if size is not None:
        size = parse_size("" if isinstance(size, bool) else str(size), name)
    if generation is not None and (isinstance(generation, bool) or not isinstance(generation, (str, int))):
        raise listing_error(f"has no generation for {name!r}")
    return Entry(name, size, Version(generation=str(generation)) if generation else None)


def gcs_error(status: int, headers: Mapping[bytes, bytes], body: bytes) -> StoreError:
    """Return the error for a response; the store adds its URL, the key and the range."""
    error = error_for(status, headers, body, None if error_code(body) else _reason(body))
    if status == 404 and names_container(headers, body):
        error.message = error.message.replace("not found", "the bucket does not exist", 1)
    if isinstance(error, UnauthenticatedError):
        error.message += f"; {HINT}"
    elif status == 400 and (b"UserProjectMissing" in body or b"requester pays" in body):
        error.message += "; requester_pays='PROJECT' names the project that pays"
    elif error.status == 400 and (b"BadDigest" in body or b"crc32c" in body.lower()):
        error.message = "the value was damaged on its way to the server, which refused it"
        error.retryable = True
    return error


def _reason(body: bytes) -> str | None:
    """Return the reason of an error of the JSON API, or None."""
    try:
        reasons: Any = json.loads(body)["error"].get("errors") or [{}]
        reason = reasons[0].get("reason")
        return reason[:300] if isinstance(reason, str) and reason else None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None


_CRC32C = re.compile(rb"(?:^|,)\s*crc32c=([A-Za-z0-9+/]{6}==)")


def stored_checksum(headers: Headers) -> BodyChecksum | None:
    """Return the CRC32C in the headers of a response, or None if they contain none."""
    stored = _CRC32C.search(headers.get(HASH_HEADER, b""))
    return None if stored is None else BodyChecksum("CRC32C", stored[1])


MAX_SINGLE_BYTES = 16 << 20
"""Larger values are uploaded in a session."""

MAX_JOINED_BYTES = 64 << 10
"""Larger values are not copied."""

PART_QUANTUM_BYTES = 256 << 10
"""Every part but the last has a multiple of this size."""

PART_BYTES = 16 << 20

MAX_FAULTS = 4
"""Consecutive faults, without a byte stored between them, after which a session is abandoned."""

FIRST_PAUSE = 0.2
"""Seconds before the state of a session is requested after a fault; doubled after each further fault."""

MAX_PAUSE = 10.0
"""Seconds. If the server asks for a longer wait, the whole write fails and the scheduler repeats it."""

_STORED_RANGE = re.compile(rb"bytes=0-(\d{1,19})")
_LOCATION = re.compile(r"(https?://[^/\s]+)(/\S*)")
_HTTPS_ORIGIN = re.compile(r"https://[a-z0-9.-]+")


async def upload(
    client: BucketClient, endpoint: GcsEndpoint, key: str, data: memoryview, precondition: Precondition | None
) -> Version | None:
    """Store `data` under `key`, and return its generation. The server refuses a value that was damaged in transit.

    Raises:
        PreconditionFailedError: `precondition` does not hold; nothing was written.
        StoreError: the value could not be stored, or no response came, and then it may be stored.
    """
    metadata = {"contentType": "application/octet-stream", "crc32c": await checksum_of("CRC32C", data)}
    condition, sent = condition_of(precondition), {**metadata, "size": str(data.nbytes)}

    async def post(kind: str, headers: dict[str, str], body: memoryview | PieceReader) -> Response:
        target = endpoint.upload_target(kind, key, **condition)
        return await client.call("POST", key, target=target, headers=headers, body=body)

    if data.nbytes <= MAX_SINGLE_BYTES:
        boundary = os.urandom(16).hex()
        content = {"Content-Type": f"multipart/related; boundary={boundary}"}
        body = _RelatedBody(metadata, data, boundary)
        response = await post("multipart", content, body.joined() if data.nbytes <= MAX_JOINED_BYTES else body)
        return _checked_version(response, sent, session=False)
    headers = {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": "application/octet-stream",
        "X-Upload-Content-Length": str(data.nbytes),
    }
    response = await post("resumable", headers, memoryview(json.dumps(metadata).encode()))
    if response.status not in (200, 201):
        raise _refusal(response, session=True)
    location = response.headers.get(b"location", b"").decode("latin-1")
    session = _UploadSession(client.sender, endpoint, key, session_target(location, endpoint), data)
    async with undone_on_failure(session.cancel):
        return _checked_version(await session.send(), sent, session=True)


def condition_of(precondition: Precondition | None) -> dict[str, str]:
    """Return the parameter of the query for a condition. Generation 0 means no object.

    Raises:
        UnsupportedOperationError: the version is of another kind of store.
    """
    if precondition is None:
        return {}
    if isinstance(precondition, IfAbsent):
        return {"ifGenerationMatch": "0"}
    if precondition.version.generation is None:
        raise UnsupportedOperationError("GCS conditions need a generation, which this version does not have")
    return {"ifGenerationMatch": precondition.version.generation}


class _RelatedBody:
    """The body of a request for an object and its metadata (RFC 2387)."""

    def __init__(self, metadata: dict[str, str], data: memoryview, boundary: str) -> None:
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(metadata)}\r\n"
            f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
        )
        self._views = [memoryview(head.encode()), data, memoryview(f"\r\n--{boundary}--\r\n".encode())]

    def joined(self) -> memoryview:
        """Return all of it, for one write to the connection."""
        return memoryview(b"".join(self._views))

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return sum(view.nbytes for view in self._views)

    async def read_into(self, start: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes from `start`."""
        for view in self._views:
            piece = view[start : start + memory.nbytes]
            memory[: piece.nbytes] = piece
            memory = memory[piece.nbytes :]
            start = max(start - view.nbytes, 0)


def session_target(location: str, endpoint: GcsEndpoint) -> str:
    """Return path and query of a session, which are a secret: they permit writes. They are sent to the server itself.

    An emulator may not know its own name, and Google has several.

    Raises:
        StoreError: the location is on another server.
    """
    found = _LOCATION.fullmatch(location)
    origin = "" if found is None else found[1]
    is_of_google = _HTTPS_ORIGIN.fullmatch(origin) is not None and origin.endswith(f".{endpoint.universe}")
    if found is None or (endpoint.universe and origin != endpoint.web.origin and not is_of_google):
        raise StoreError("the upload session is not on the server that opened it")
    return found[2]


class _UploadSession:
    """A running resumable upload."""

    def __init__(self, sender: EndpointClient, endpoint: GcsEndpoint, key: str, target: str, data: memoryview) -> None:
        self._sender = sender
        self._template = RequestTemplate(endpoint.web.authority, {})  # the target is all the authorisation
        self._key = key
        self._target = target
        self._data = data
        self._sent_bytes = self._stored_bytes = 0
        self._faults = 0

    async def send(self) -> Response:
        """Send the whole object, and return the response that ends the session.

        Raises:
            PreconditionFailedError, StoreError: as `upload`.
        """
        while True:
            try:
                response = await self._send_part()
                while response.status in (408, 429) or response.status >= 500:
                    response = await self._request_state(_refusal(response, session=True))
            except StoreError as error:
                if not error.retryable:
                    raise
                response = await self._request_state(error)
            if response.status != RESUME_INCOMPLETE:
                return response
            self._advance(response)

    async def cancel(self) -> None:
        """Have the server drop the stored parts, which it would otherwise do after a week."""
        await self._send("DELETE", {}, memoryview(b""))

    async def _send(self, method: str, headers: dict[str, str], body: memoryview | PieceReader) -> Response:
        request = Request(
            self._sender, method, self._key, self._target, self._template, SHORT_RESPONSE, headers=headers, body=body
        )
        response = await self._sender.send(request)
        response.body = hide_request(request, bytes(response.body))
        return response

    async def _send_part(self) -> Response:
        size = self._data.nbytes
        stop = min(self._stored_bytes + PART_BYTES, size)
        self._sent_bytes = max(self._sent_bytes, stop)
        # If all bytes were sent but the upload is not confirmed, ask for its status.
        part = f"{self._stored_bytes}-{stop - 1}" if stop > self._stored_bytes else "*"
        content = {"Content-Range": f"bytes {part}/{size}"}
        return await self._send("POST", content, self._data[self._stored_bytes : stop])

    async def _request_state(self, fault: StoreError) -> Response:
        """Request the state of the session, until a response comes or there were too many faults."""
        while True:
            self._faults += 1
            pause = fault.retry_after or FIRST_PAUSE * 2 ** (self._faults - 1)
            if self._faults > MAX_FAULTS or pause > MAX_PAUSE:
                raise fault
            await anyio.sleep(pause)
            try:
                return await self._send("PUT", {"Content-Range": f"bytes */{self._data.nbytes}"}, memoryview(b""))
            except StoreError as error:
                if not error.retryable:
                    raise
                fault = error

    def _advance(self, response: Response) -> None:
        """Continue after the bytes that the server has stored."""
        text = response.headers.get(b"range")
        match = None if text is None else _STORED_RANGE.fullmatch(text)
        stored = 0 if match is None else int(match[1]) + 1
        if stored > self._sent_bytes or (text is not None and match is None):
            raise StoreError("the server reports different bytes from those sent")
        if stored > self._stored_bytes:
            self._faults = 0
        else:
            self._faults += 1
            if self._faults > MAX_FAULTS:
                raise StoreError("the server does not store the bytes sent", retryable=True)
        self._stored_bytes = stored


def _checked_version(response: Response, metadata: Mapping[str, str], *, session: bool) -> Version | None:
    """Return the version of the object that a response to an upload reports, as `stored_version`."""
    if response.status not in (200, 201):
        raise _refusal(response, session=session, sent=session)
    body = bytes(response.body)
    if is_html_page(body):
        raise StoreError(f"{HTML_PAGE}: the value may not be stored", status=response.status, retryable=True)
    try:
        return stored_version(json.loads(body), metadata)
    except (ValueError, RecursionError):
        return None


def stored_version(resource: Any, metadata: Mapping[str, str]) -> Version | None:
    """Return the generation of an object that was just stored, or None if the server reports none.

    Raises:
        StoreError: the object differs from `metadata` in size or checksum.
    """
    if not isinstance(resource, dict):
        return None
    for name in ("size", "crc32c"):
        stored = resource.get(name)
        if stored is not None and str(stored) != metadata.get(name, str(stored)):
            raise StoreError(
                f"the server stored different bytes from those sent: it reports the {name} {stored!r}, but "
                f"{metadata[name]!r} was sent",
                retryable=True,
            )
    generation = resource.get("generation")
    return Version(generation=generation) if isinstance(generation, str) and generation else None


def _refusal(response: Response, *, session: bool, sent: bool = False) -> StoreError:
    if response.status == 412:
        return PreconditionFailedError("the stored version differs, or there is none", status=412)
    error = gcs_error(response.status, response.headers, bytes(response.body))
    if session:
        error.request_id = None  # it is the id of the session, which permits writes
    if response.status == 410 or (sent and response.status == 404):  # the session has expired: a new one may do
        error.retryable = True
    return error
