"""The service of S3: the lane reads and deletes by signed URLs, in the bucket's own region; obstore does the rest."""

from __future__ import annotations

import asyncio
import os
import warnings
import weakref
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from aiozarr.errors import StoreError
from aiozarr.model import Supports
from aiozarr.stores.http.errors import EXPIRED_CODES, error_code, error_for
from aiozarr.stores.http.url import fingerprint
from aiozarr.stores.lane import Accept, Answer, Want
from aiozarr.stores.obstore.service import ObstoreService
from aiozarr.stores.options.s3 import S3Options, s3_options
from aiozarr.stores.s3.address import (
    Source,
    find_place,
    find_region,
    find_source,
    parse_url,
    sends_found_credentials_openly,
)
from aiozarr.stores.s3.client import has_credential_files
from aiozarr.stores.s3.link import S3Link, ask_region

_DELETED = frozenset({200, 202, 204})


def open_service(url: str, storage_options: Mapping[str, Any]) -> tuple[S3Service, str]:
    """Return the service of the bucket in `url`, and the root below it."""
    bucket, root = parse_url(url)
    return S3Service(bucket, s3_options(storage_options)), root


class S3Service(ObstoreService):
    """A bucket of S3, or of another server that speaks its protocol."""

    def __init__(self, bucket: str, options: S3Options) -> None:
        self._bucket = bucket
        self._options = options
        self._source: Source = find_source(options, os.environ, has_credential_files())
        place = find_place(bucket, options, os.environ)
        self._region_known = not place.aws or find_region(options, os.environ) is not None
        self._link = S3Link(place, options, self._source)
        self.idle_timeout = self._link.pool_origin.idle_timeout
        self._server = place.web.origin
        self._fingerprint = self._credentials_fingerprint()
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self.supports = Supports(
            writeable=True, listable=True, conditional_reads=True, conditional_writes=True if place.aws else None
        )
        if sends_found_credentials_openly(place, options, self._source):
            warnings.warn(
                f"credentials that were found, not given, sign requests to {place.web.origin} without TLS", stacklevel=5
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
        return f"s3://{self._bucket}"

    @property
    def origin(self) -> Hashable:
        return (self._server, self._fingerprint)

    @property
    def identity(self) -> Hashable:
        return ("s3", self._server, self._bucket, self._fingerprint)

    # --- requests ------------------------------------------------------------------------------------------------

    async def ask(self, method: str, key: str, want: Want) -> Answer:
        link = self._link if self._region_known else await self._ready()
        answer = await link.ask(method, key, want)
        if isinstance(answer.verdict, Accept):
            return answer
        region = answer.headers.get(b"x-amz-bucket-region", b"").decode("latin-1")
        if answer.status in (301, 307, 400) and self._move(region):
            return await self._link.ask(method, key, want)
        if _expired(answer) and link.renew():
            return await link.ask(method, key, want)
        return answer

    def lacks(self, answer: Answer) -> bool:
        return error_code(bytes(answer.body)) in (None, "NoSuchKey")

    async def delete(self, key: str) -> None:
        # The client library has bulk deletes only, which not every server knows.
        answer = await self.ask("DELETE", key, Want())
        if answer.status not in _DELETED and not (answer.status == 404 and self.lacks(answer)):
            raise _error(answer)

    # --- the bucket's region -------------------------------------------------------------------------------------

    async def _client(self) -> Any:
        return (await self._ready()).client()

    async def _lister(self) -> Any:
        return (await self._ready()).lister()

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

    async def aclose(self) -> None:
        await self._link.aclose()


def _error(answer: Answer) -> StoreError:
    return error_for(answer.status, answer.headers, bytes(answer.body))


def _expired(answer: Answer) -> bool:
    if answer.status not in (400, 401, 403):
        return False
    body = bytes(answer.body)
    return error_code(body) in EXPIRED_CODES or b"Request has expired" in body
