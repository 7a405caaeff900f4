"""Uploads: small values in one request, large ones in a session that goes on after a fault where the server was."""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from typing import Any

import anyio

from aiozarr.errors import PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.model import IfAbsent, Precondition, Version
from aiozarr.stores.gcs.address import GcsPlace
from aiozarr.stores.gcs.errors import gcs_error
from aiozarr.stores.gcs.hashes import crc32c_of
from aiozarr.stores.gcs.link import GcsLink
from aiozarr.stores.gcs.wire import Said
from aiozarr.stores.object.answers import NO_ANSWER, is_page

SINGLE_BYTES = 16 << 20
"""Larger values go up in a session."""

QUANTUM = 256 << 10
"""Every part but the last has a multiple of so many bytes."""

PART_BYTES = 16 << 20

MAX_FAULTS = 4
"""Faults one behind the other, without a byte between them that the server has kept, after which a session is given
up."""

FIRST_PAUSE = 0.2
"""Seconds before a server that failed is asked what it has; twice as many after each further fault."""

MAX_PAUSE = 10.0
"""Seconds. A server that asks for more time is asked again by those who repeat the whole write."""

CANCEL_SECONDS = 5.0

_HELD = re.compile(rb"bytes=0-(\d{1,19})")


async def upload(link: GcsLink, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
    """Store `data` under `key`, and return its generation. A value that is damaged on its way is refused.

    Raises:
        PreconditionFailedError: `precondition` does not hold; nothing was written.
        StoreError: the value could not be stored, or no answer came, and then it may be stored.
    """
    about = {"contentType": "application/octet-stream", "crc32c": (await crc32c_of(data)).decode("ascii")}
    condition = condition_of(precondition)
    if data.nbytes <= SINGLE_BYTES:
        return await _at_once(link, key, data, about, condition)
    session = await _begin(link, key, data.nbytes, about, condition)
    try:
        return await _Session(link, session, data).send()
    except BaseException:
        with anyio.move_on_after(CANCEL_SECONDS, shield=True):
            await _cancel(link, session)
        raise


def condition_of(precondition: Precondition | None) -> dict[str, str]:
    """Return the condition as the query says it. Generation 0 stands for no object.

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


async def _at_once(
    link: GcsLink, key: str, data: memoryview, about: dict[str, str], condition: dict[str, str]
) -> Version | None:
    boundary = secrets.token_hex(16)
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(about)}\r\n"
        f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    )
    tail = f"\r\n--{boundary}--\r\n"
    parts = [memoryview(head.encode()), data, memoryview(tail.encode())]
    content = {"Content-Type": f"multipart/related; boundary={boundary}"}
    said = await _authorised(link, link.place.upload_url("multipart", key, **condition), content, parts)
    return _stored(said, session=False)


async def _begin(link: GcsLink, key: str, size: int, about: dict[str, str], condition: dict[str, str]) -> str:
    """Begin a session and return its URL, which is a secret: who has it may write."""
    content = {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": "application/octet-stream",
        "X-Upload-Content-Length": str(size),
    }
    url = link.place.upload_url("resumable", key, **condition)
    said = await _authorised(link, url, content, [memoryview(json.dumps(about).encode())])
    if said.status not in (200, 201):
        raise _refusal(said, session=True)
    location = said.headers.get(b"location", b"").decode("latin-1")
    return checked_session(location, link.place)


def checked_session(location: str, place: GcsPlace) -> str:
    """Return the URL of a session, if values may be sent there.

    Raises:
        StoreError: it is on another server. Emulators that do not know their own name are taken at their address.
    """
    origin, found = place.web.origin, location.split("/", 3)
    if len(found) == 4 and found[1] == "" and found[0] in ("http:", "https:"):
        there = f"{found[0]}//{found[2]}"
        if there == origin or (place.google and re.fullmatch(r"https://[a-z0-9.-]+\.googleapis\.com", there)):
            return location
        if not place.google:
            return f"{origin}/{found[3]}"
    raise StoreError("the server answered the begin of an upload with no session of its own")


async def _authorised(link: GcsLink, url: str, content: dict[str, str], parts: list[memoryview]) -> Said:
    token = await link.token()
    said = await link.wire().send("POST", url, {**link.headers(token), **content}, parts)
    if said.status == 401 and token and link.tokens.refused(token):
        said = await link.wire().send("POST", url, {**link.headers(await link.token()), **content}, parts)
    return said


async def _cancel(link: GcsLink, session: str) -> None:
    """Have the server forget what it holds; if this fails, it does so by itself after a week."""
    with suppress(StoreError):
        await link.wire().send("DELETE", session, {}, [])


class _Session:
    """A resumable upload under way."""

    def __init__(self, link: GcsLink, url: str, data: memoryview) -> None:
        self._link = link
        self._url = url
        self._data = data
        self._held = 0  # bytes that the server has kept
        self._faults = 0

    async def send(self) -> Version | None:
        """Send all of it.

        Raises:
            PreconditionFailedError, StoreError: as `upload`.
        """
        while True:
            try:
                said = await self._send_part()
                while said.status in (408, 429) or said.status >= 500:
                    said = await self._after(_refusal(said, session=True))
            except StoreError as error:
                if not error.retryable:
                    raise
                said = await self._after(error)
            if said.status != 308:
                return _stored(said, session=True)
            self._note(said)

    async def _send_part(self) -> Said:
        size = self._data.nbytes
        stop = min(self._held + PART_BYTES, size)
        # Where the server has all of it, and has not said so, it is asked to.
        part = f"{self._held}-{stop - 1}" if stop > self._held else "*"
        content = {"Content-Range": f"bytes {part}/{size}"}
        # Not by PUT, which aiohttp sends again by itself where a connection is lost: what came is asked for first.
        return await self._link.wire().send("POST", self._url, content, [self._data[self._held : stop]])

    async def _after(self, fault: StoreError) -> Said:
        """Ask what the server has kept, until it says so or there were too many faults."""
        while True:
            self._faults += 1
            pause = fault.retry_after or FIRST_PAUSE * 2 ** (self._faults - 1)
            if self._faults > MAX_FAULTS or pause > MAX_PAUSE:
                raise fault
            await anyio.sleep(pause)
            try:
                content = {"Content-Range": f"bytes */{self._data.nbytes}"}
                return await self._link.wire().send("PUT", self._url, content, [])
            except StoreError as error:
                if not error.retryable:
                    raise
                fault = error

    def _note(self, said: Said) -> None:
        """Go on behind what the server has kept."""
        told = said.headers.get(b"range")
        match = None if told is None else _HELD.fullmatch(told)
        held = 0 if match is None else int(match[1]) + 1
        if held > self._data.nbytes or (told is not None and match is None):
            raise StoreError("the server claims to have other bytes than were sent")
        if held > self._held:
            self._faults = 0
        else:
            self._faults += 1
            if self._faults > MAX_FAULTS:
                raise StoreError("the server keeps nothing of what is sent", retryable=True)
        self._held = held


def _stored(said: Said, *, session: bool) -> Version | None:
    if said.status not in (200, 201):
        raise _refusal(said, session=session, sent=session)
    if is_page(said.body):
        raise StoreError(f"{NO_ANSWER}: the value may not be stored", status=said.status, retryable=True)
    try:
        found: Any = json.loads(said.body)
        generation = found["generation"]
    except (ValueError, KeyError, TypeError):
        return None
    return Version(generation=generation) if isinstance(generation, str) and generation else None


def _refusal(said: Said, *, session: bool, sent: bool = False) -> StoreError:
    if said.status == 412:
        return PreconditionFailedError("another version is stored, or none", status=412)
    error = gcs_error(said.status, said.headers, said.body)
    if session:
        error.request_id = None  # it is the session's, and whoever has it may write
    if said.status == 410 or (sent and said.status == 404):  # the session has expired: a new one may do
        error.retryable = True
    return error
