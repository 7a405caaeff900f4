"""The service of Google Cloud Storage: the lane reads, deletes and lists, and uploads name and check their CRC32C."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from aiozarr.errors import StoreError
from aiozarr.model import Entry, Precondition, Supports, Version
from aiozarr.stores.gcs.address import find_place, find_source, parse_url, sends_credentials_openly
from aiozarr.stores.gcs.errors import gcs_error
from aiozarr.stores.gcs.hashes import verify
from aiozarr.stores.gcs.link import GcsLink
from aiozarr.stores.gcs.listing import parse_page
from aiozarr.stores.gcs.tokens import who
from aiozarr.stores.gcs.upload import upload
from aiozarr.stores.lane import Accept, Answer, Want
from aiozarr.stores.lane.head import Headers
from aiozarr.stores.object.answers import may_be_missing
from aiozarr.stores.object.listing import MAX_PAGE_BYTES, Page, follow, gather
from aiozarr.stores.object.service import BRIEF, PAGE, Service
from aiozarr.stores.options.gcs import GcsOptions, gcs_options

ERASERS = 32
"""Deletes at once: this API has no request that deletes many."""


def open_service(url: str, storage_options: Mapping[str, Any]) -> tuple[GcsService, str]:
    """Return the service of the bucket in `url`, and the root below it."""
    bucket, root = parse_url(url)
    return GcsService(bucket, gcs_options(storage_options, bucket)), root


class GcsService(Service):
    """A bucket of Google Cloud Storage, or of a server that speaks its protocol. Versions are generations."""

    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\r\n]")

    def __init__(self, bucket: str, options: GcsOptions) -> None:
        self._bucket = bucket
        place = find_place(bucket, options, os.environ)
        source = find_source(options, os.environ, google=place.google)
        self._place = place
        self._who = who(options, source)
        self._link = GcsLink(place, options, source)
        self.supports = Supports(
            writeable=True, listable=True, conditional_reads=True, conditional_writes=True if place.google else None
        )
        if sends_credentials_openly(place, source):
            warnings.warn(f"tokens are sent to {place.web.origin} without TLS", stacklevel=5)

    @property
    def url(self) -> str:
        return f"gs://{self._bucket}"

    @property
    def origin(self) -> Hashable:
        return (self._place.web.origin, self._who)

    @property
    def identity(self) -> Hashable:
        return ("gs", self._place.web.shown, self._bucket, self._who)

    # --- reading -------------------------------------------------------------------------------------------------

    def prepare(self, requests: int) -> None:
        self._link.prepare(requests)

    async def ask(self, method: str, key: str, want: Want) -> Answer:
        target = self._place.object_path(key)
        answer = await self._link.ask(method, target, want)
        if isinstance(answer.verdict, Accept) and answer.status == 200 and not want.head:
            if _packed_on_the_way(answer.headers):
                answer = await self._link.ask(method, target, want, stored=False)
            if _unpacked(answer.headers):
                raise StoreError("the server unpacked what is stored under Content-Encoding: gzip")
            await verify(answer.body, answer.headers)
        elif answer.status in (400, 403):  # whose reasons only this service knows
            raise _error(answer)
        return answer

    def lacks(self, answer: Answer) -> bool:
        body = bytes(answer.body)
        return may_be_missing(body) and b"bucket does not exist" not in body

    def version(self, headers: Headers) -> Version | None:
        generation = headers.get(b"x-goog-generation")
        return Version(generation=generation.decode("latin-1")) if generation else None

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        return await upload(self._link, key, data, precondition)

    async def delete(self, key: str) -> None:
        answer = await self._link.ask("DELETE", self._place.object_path(key), BRIEF)
        if not self.has_deleted(answer):
            raise _error(answer)

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        failed = await self.delete_singly(keys, ERASERS)
        if keys and len(failed) == len(set(keys)):
            raise failed[keys[0]]
        return failed

    # --- listing -------------------------------------------------------------------------------------------------

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        async for page in self._listing(prefix, "items(name,size,generation)", ""):
            yield page.entries

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        return await gather(self._listing(prefix, "items(name),prefixes", "/"))

    def _listing(self, prefix: str, fields: str, delimiter: str) -> AsyncIterator[Page]:
        target = f"{self._place.list_path}?maxResults={PAGE}&fields={fields},nextPageToken"
        target += f"&prefix={quote(prefix, safe='')}"
        if delimiter:
            target += f"&delimiter={quote(delimiter, safe='')}"
        return follow(lambda token: self._page(target, token, prefix))

    async def _page(self, target: str, token: str, prefix: str) -> Page:
        if token:
            target += f"&pageToken={quote(token, safe='')}"
        answer = await self._link.ask("GET", target, Want(max_bytes=MAX_PAGE_BYTES), stored=False)
        if not isinstance(answer.verdict, Accept):
            raise _error(answer)
        return parse_page(bytes(answer.body), prefix)

    # --- life ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        await self._link.aclose()


def _error(answer: Answer) -> StoreError:
    return gcs_error(answer.status, answer.headers, bytes(answer.body))


def _packed_on_the_way(headers: Headers) -> bool:
    """Return whether the server compressed what is stored uncompressed."""
    return b"content-encoding" in headers and headers.get(b"x-goog-stored-content-encoding") == b"identity"


def _unpacked(headers: Headers) -> bool:
    """Return whether the server uncompressed what is stored compressed."""
    return headers.get(b"x-goog-stored-content-encoding") == b"gzip" and b"content-encoding" not in headers
