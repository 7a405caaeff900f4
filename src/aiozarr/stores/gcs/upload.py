"""Uploads: small values in one request, large ones in a resumable session."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import Any

import anyio

from aiozarr.errors import PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.model import IfAbsent, Precondition, Version
from aiozarr.stores.gcs.address import GcsEndpoint
from aiozarr.stores.gcs.authoriser import GcsAuthoriser
from aiozarr.stores.gcs.responses import gcs_error
from aiozarr.stores.gcs.upload_client import UploadResponse
from aiozarr.stores.http.errors import HTML_PAGE, is_html_page
from aiozarr.stores.object.body_checksum import crc32c_of

MAX_SINGLE_BYTES = 16 << 20
"""Larger values are uploaded in a session."""

PART_QUANTUM_BYTES = 256 << 10
"""Every part but the last has a multiple of this size."""

PART_BYTES = 16 << 20

MAX_FAULTS = 4
"""Consecutive faults, without a byte stored between them, after which a session is abandoned."""

FIRST_PAUSE = 0.2
"""Seconds before the state of a session is requested after a fault; doubled after each further fault."""

MAX_PAUSE = 10.0
"""Seconds. If the server asks for a longer wait, the whole write fails and the scheduler repeats it."""

CANCEL_SECONDS = 5.0

_STORED_RANGE = re.compile(rb"bytes=0-(\d{1,19})")


async def upload(
    authoriser: GcsAuthoriser, key: str, data: memoryview, precondition: Precondition | None
) -> Version | None:
    """Store `data` under `key`, and return its generation. The server refuses a value that was damaged on its way.

    Raises:
        PreconditionFailedError: `precondition` does not hold; nothing was written.
        StoreError: the value could not be stored, or no response came, and then it may be stored.
    """
    metadata = {"contentType": "application/octet-stream", "crc32c": (await crc32c_of(data)).decode("ascii")}
    condition = condition_of(precondition)
    if data.nbytes <= MAX_SINGLE_BYTES:
        return await _upload_single(authoriser, key, data, metadata, condition)
    session = await _open_session(authoriser, key, data.nbytes, metadata, condition)
    try:
        return await _UploadSession(authoriser, session, data).send()
    except BaseException:
        with anyio.move_on_after(CANCEL_SECONDS, shield=True):
            await _cancel_session(authoriser, session)
        raise


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
        raise UnsupportedOperationError("a condition of GCS needs a generation, and this version has none")
    return {"ifGenerationMatch": precondition.version.generation}


async def _upload_single(
    authoriser: GcsAuthoriser, key: str, data: memoryview, metadata: dict[str, str], condition: dict[str, str]
) -> Version | None:
    boundary = os.urandom(16).hex()
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(metadata)}\r\n"
        f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    )
    tail = f"\r\n--{boundary}--\r\n"
    parts = [memoryview(head.encode()), data, memoryview(tail.encode())]
    content = {"Content-Type": f"multipart/related; boundary={boundary}"}
    response = await _authorised(
        authoriser, authoriser.endpoint.upload_url("multipart", key, **condition), content, parts
    )
    return _stored_version(response, session=False)


async def _open_session(
    authoriser: GcsAuthoriser, key: str, size: int, metadata: dict[str, str], condition: dict[str, str]
) -> str:
    """Open a session and return its URL, which is a secret: it permits writes."""
    content = {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": "application/octet-stream",
        "X-Upload-Content-Length": str(size),
    }
    url = authoriser.endpoint.upload_url("resumable", key, **condition)
    response = await _authorised(authoriser, url, content, [memoryview(json.dumps(metadata).encode())])
    if response.status not in (200, 201):
        raise _refusal(response, session=True)
    location = response.headers.get(b"location", b"").decode("latin-1")
    return checked_session(location, authoriser.endpoint)


def checked_session(location: str, endpoint: GcsEndpoint) -> str:
    """Return the URL of a session, if it is on the server itself.

    An emulator may not know its own name: the address of the bucket's endpoint replaces it.

    Raises:
        StoreError: it is on another server.
    """
    origin, found = endpoint.web.origin, location.split("/", 3)
    if len(found) == 4 and found[1] == "" and found[0] in ("http:", "https:"):
        there = f"{found[0]}//{found[2]}"
        if there == origin or (endpoint.google and re.fullmatch(r"https://[a-z0-9.-]+\.googleapis\.com", there)):
            return location
        if not endpoint.google:
            return f"{origin}/{found[3]}"
    raise StoreError("the server opened no upload session of its own")


async def _authorised(
    authoriser: GcsAuthoriser, url: str, content: dict[str, str], parts: list[memoryview]
) -> UploadResponse:
    token = await authoriser.token()
    response = await authoriser.upload_client().send("POST", url, {**authoriser.headers(token), **content}, parts)
    if response.status == 401 and token and authoriser.tokens.record_refusal(token):
        response = await authoriser.upload_client().send(
            "POST", url, {**authoriser.headers(await authoriser.token()), **content}, parts
        )
    return response


async def _cancel_session(authoriser: GcsAuthoriser, session: str) -> None:
    """Let the server drop the stored parts; otherwise it does so after a week."""
    with suppress(StoreError):
        await authoriser.upload_client().send("DELETE", session, {}, [])


class _UploadSession:
    """A running resumable upload."""

    def __init__(self, authoriser: GcsAuthoriser, url: str, data: memoryview) -> None:
        self._authoriser = authoriser
        self._url = url
        self._data = data
        self._stored_bytes = 0
        self._faults = 0

    async def send(self) -> Version | None:
        """Send all of it.

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
            if response.status != 308:
                return _stored_version(response, session=True)
            self._advance(response)

    async def _send_part(self) -> UploadResponse:
        size = self._data.nbytes
        stop = min(self._stored_bytes + PART_BYTES, size)
        # Where the server has all of it, and has not response so, it is asked to.
        part = f"{self._stored_bytes}-{stop - 1}" if stop > self._stored_bytes else "*"
        content = {"Content-Range": f"bytes {part}/{size}"}
        # Not by PUT: aiohttp would repeat it by itself after a lost connection, without asking for the stored bytes.
        return await self._authoriser.upload_client().send(
            "POST", self._url, content, [self._data[self._stored_bytes : stop]]
        )

    async def _request_state(self, fault: StoreError) -> UploadResponse:
        """Request the state of the session, until a response comes or there were too many faults."""
        while True:
            self._faults += 1
            pause = fault.retry_after or FIRST_PAUSE * 2 ** (self._faults - 1)
            if self._faults > MAX_FAULTS or pause > MAX_PAUSE:
                raise fault
            await anyio.sleep(pause)
            try:
                content = {"Content-Range": f"bytes */{self._data.nbytes}"}
                return await self._authoriser.upload_client().send("PUT", self._url, content, [])
            except StoreError as error:
                if not error.retryable:
                    raise
                fault = error

    def _advance(self, response: UploadResponse) -> None:
        """Continue after the bytes that the server has stored."""
        text = response.headers.get(b"range")
        match = None if text is None else _STORED_RANGE.fullmatch(text)
        stored = 0 if match is None else int(match[1]) + 1
        if stored > self._data.nbytes or (text is not None and match is None):
            raise StoreError("the server reports other bytes than were sent")
        if stored > self._stored_bytes:
            self._faults = 0
        else:
            self._faults += 1
            if self._faults > MAX_FAULTS:
                raise StoreError("the server stores none of the bytes that are sent", retryable=True)
        self._stored_bytes = stored


def _stored_version(response: UploadResponse, *, session: bool) -> Version | None:
    if response.status not in (200, 201):
        raise _refusal(response, session=session, sent=session)
    if is_html_page(response.body):
        raise StoreError(f"{HTML_PAGE}: the value may not be stored", status=response.status, retryable=True)
    try:
        found: Any = json.loads(response.body)
        generation = found["generation"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Version(generation=generation) if isinstance(generation, str) and generation else None


def _refusal(response: UploadResponse, *, session: bool, sent: bool = False) -> StoreError:
    if response.status == 412:
        return PreconditionFailedError("another version is stored, or none", status=412)
    error = gcs_error(response.status, response.headers, response.body)
    if session:
        error.request_id = None  # it is the id of the session, which permits writes
    if response.status == 410 or (sent and response.status == 404):  # the session has expired: a new one may do
        error.retryable = True
    return error
