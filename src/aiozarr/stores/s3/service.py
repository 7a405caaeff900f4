"""The service of S3: reads, deletes and lists by signed URLs, in the bucket's own region; obstore does the rest."""

from __future__ import annotations

import asyncio
import os
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from aiozarr.errors import StoreError, UnauthenticatedError, UnsupportedOperationError
from aiozarr.model import Entry, Precondition, Supports, Version
from aiozarr.stores.http.errors import EXPIRED_CODES, error_code, error_for
from aiozarr.stores.http.prompt import PromptRead
from aiozarr.stores.http.url import fingerprint
from aiozarr.stores.lane import Accept, Answer, BodyCutError, Connection, Want
from aiozarr.stores.object.answers import may_be_missing
from aiozarr.stores.object.listing import Page, follow, gather
from aiozarr.stores.object.service import BRIEF
from aiozarr.stores.obstore.service import WORKERS, ObstoreService, may_lack_bulk
from aiozarr.stores.options.s3 import S3Options, s3_options
from aiozarr.stores.s3.address import (
    NOTHING_CONFIGURED,
    S3Place,
    Source,
    find_place,
    find_region,
    find_source,
    parse_url,
    sends_found_credentials_openly,
)
from aiozarr.stores.s3.bulk import failures_in, first_failure
from aiozarr.stores.s3.client import make_provider
from aiozarr.stores.s3.credentials import knows_credentials
from aiozarr.stores.s3.lane_put import LanePuts, other_way, stored_version
from aiozarr.stores.s3.link import S3Link, ask_region
from aiozarr.stores.s3.listing import listing_query, parse_page
from aiozarr.stores.s3.profiles import has_files, read_configured
from aiozarr.stores.s3.region import is_elsewhere, region_in

T = TypeVar("T")

CHAIN_FAILED = (
    "no AWS credentials were found, neither in the options nor in the environment, nor by web identity, from a "
    "container's service or from an instance's metadata service; there are no configuration files of the AWS tools, or "
    "the extra aiozarr[s3], which reads them, is not installed (anon=True reads what is public without credentials)"
)

BULK_ROUNDS = 4
"""Bulk deletes of one page, each of which may name one more key that is left; from then on, keys go one by one."""

MAX_PUT_BYTES = 5 << 30
"""The most that S3 takes in one request, which is what a condition needs."""


def open_service(url: str, storage_options: Mapping[str, Any]) -> tuple[S3Service, str]:
    """Return the service of the bucket in `url`, and the root below it."""
    bucket, root = parse_url(url)
    return S3Service(bucket, s3_options(storage_options)), root


class S3Service(ObstoreService):
    """A bucket of S3, or of another server that speaks its protocol."""

    def __init__(self, bucket: str, options: S3Options) -> None:
        self._bucket = bucket
        self._options = options
        self._source: Source = find_source(options, os.environ, has_files())
        self._configured = read_configured(options.profile) if self._source == "profile" else NOTHING_CONFIGURED
        place = self._place(None)
        self._region_known = (
            place.fixed or not place.aws or find_region(options, os.environ, self._configured) is not None
        )
        self._provider = make_provider(options, self._source)
        self._link = S3Link(place, options, self._source, self._provider)
        self._left: list[S3Link] = []
        self.idle_timeout = self._link.line.origin.idle_timeout
        self._by_lane = LanePuts(options, os.environ, secure=place.web.secure)
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

    def _place(self, region: str | None) -> S3Place:
        return find_place(self._bucket, self._options, os.environ, region, self._configured)

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
        since = time.monotonic()
        try:
            answer = await link.ask(method, key, want)
        except UnauthenticatedError as error:
            raise self._explained(error)  # noqa: B904  # the same error, with more words
        return await self._arrive(method, key, want, answer, link, since)

    def begin(self, key: str, want: Want, read: PromptRead) -> Connection | None:
        if not self._region_known:
            return None
        read.note = (self._link, time.monotonic())
        return self._link.begin(key, want, read)

    def prepare(self, requests: int) -> None:
        self._link.line.prepare(requests)

    async def follow(self, key: str, want: Want, answer: Answer, read: PromptRead) -> Answer:
        return await self._arrive("GET", key, want, answer, *read.note)

    async def _arrive(self, method: str, key: str, want: Want, answer: Answer, link: S3Link, since: float) -> Answer:
        """Return the answer, or that to a second request where `link` has not led to the bucket."""
        if isinstance(answer.verdict, Accept) or answer.status < 300 or answer.status in (404, 412):
            return answer
        if await self._mended(link, since, answer.status, region_in(answer.headers, _text(answer)), _text(answer)):
            answer = await self._link.ask(method, key, want)
        if answer.status == 403 and self._source == "anonymous":
            raise self._explained(_error(answer))
        return answer

    def lacks(self, answer: Answer) -> bool:
        return may_be_missing(bytes(answer.body))

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        if precondition is not None and data.nbytes > MAX_PUT_BYTES:
            raise UnsupportedOperationError(
                f"a condition binds a value to one request, which takes {MAX_PUT_BYTES} bytes, not {data.nbytes}"
            )
        refused = False
        if precondition is None and self._goes_by_lane(data.nbytes):
            try:
                answer = await self._put_by_lane(key, data)
            except BodyCutError:
                pass  # who refuses before the whole body has come may close: the answer is lost with what was sent
            else:
                version = stored_version(answer)
                if version is not None:
                    return version
                if not other_way(answer):
                    raise self._explained(_error(answer))
                refused = True
        put = super().put
        version = await self._once_more(lambda: put(key, data, precondition))
        if refused:
            self._by_lane.refused()
        return version

    def _goes_by_lane(self, nbytes: int) -> bool:
        link = self._link
        return self._by_lane.take(nbytes, signs_headers=link.signs_headers) and not link.line.proxied

    async def _put_by_lane(self, key: str, data: memoryview) -> Answer:
        link, since, headers = await self._ready(), time.monotonic(), self._by_lane.headers(data)
        try:
            answer = await link.put(key, data, headers, BRIEF)
        except UnauthenticatedError as error:
            raise self._explained(error)  # noqa: B904  # the same error, with more words
        if answer.status < 300 or answer.status in (404, 412):
            return answer
        text = _text(answer)
        if await self._mended(link, since, answer.status, region_in(answer.headers, text), text):
            answer = await self._link.put(key, data, headers, BRIEF)
        return answer

    async def delete(self, key: str) -> None:
        # The client library has bulk deletes only, which not every server knows.
        answer = await self.ask("DELETE", key, BRIEF)
        if not self.has_deleted(answer):
            raise _error(answer)

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        if self._options.bulk_delete is False:
            return await self.delete_singly(keys, WORKERS)
        return await self._once_more(lambda: self._delete_in_bulk(keys))

    async def _delete_in_bulk(self, keys: Sequence[str]) -> dict[str, StoreError]:
        """Delete as many keys in a request as can be; the server has seen all of them, whichever it leaves."""
        failed: dict[str, StoreError] = {}
        for _ in range(BULK_ROUNDS):
            try:
                if keys:
                    await self._delete_together(keys)
                return failed
            except StoreError as error:
                words = _words(error)
                left, first = failures_in(words), first_failure(words, keys)
                if left is not None and left.keys() <= set(keys):
                    return failed | left
                if first is None and not may_lack_bulk(error):
                    raise
            if first is None:
                break
            failed[keys[first[0]]] = first[1]
            keys = keys[first[0] + 1 :]  # those before it are gone
        return failed | await self.delete_singly(keys, WORKERS)

    # --- listing -------------------------------------------------------------------------------------------------

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        if knows_credentials(self._source):
            async for page in follow(lambda token: self._page(prefix, "", token)):
                yield page.entries
        else:
            async for entries in self._pages_by_client(prefix):
                yield entries

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        if knows_credentials(self._source):
            return await gather(follow(lambda token: self._page(prefix, "/", token)))
        list_dir = super().list_dir
        return await self._once_more(lambda: list_dir(prefix))

    async def _page(self, prefix: str, delimiter: str, token: str) -> Page:
        query = listing_query(prefix, delimiter, token)
        link, since = await self._ready(), time.monotonic()
        answer = await link.list(query)
        if not isinstance(answer.verdict, Accept):
            text = _text(answer)
            if await self._mended(link, since, answer.status, region_in(answer.headers, text), text):
                answer = await self._link.list(query)
        if not isinstance(answer.verdict, Accept):
            raise self._explained(_error(answer))
        return parse_page(bytes(answer.body), prefix)

    async def _pages_by_client(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        """As `pages`, by the client library, which alone has the credentials of its chain."""
        for attempt in range(2):
            link, since, begun = await self._ready(), time.monotonic(), False
            try:
                pages = super().pages(prefix)
                async for page in pages:
                    begun = True
                    yield page
                return
            except StoreError as error:
                if begun or attempt or not await self._mended_after(link, since, error):
                    raise self._explained(error)  # noqa: B904  # the same error, with more words

    # --- the bucket's region, and credentials that end -----------------------------------------------------------

    async def _once_more(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Await an operation of the client library; once more where it failed for a reason that is gone then."""
        link, since = await self._ready(), time.monotonic()
        try:
            return await operation()
        except StoreError as error:
            if not await self._mended_after(link, since, error):
                raise self._explained(error)  # noqa: B904  # the same error, with more words
        return await operation()

    def _explained(self, error: StoreError) -> StoreError:
        """Say of credentials that are missing where they were looked for, and of none that none are sent."""
        if error.status == 403 and self._source == "anonymous":
            error.message += "; anon=True sends no credentials"
        if isinstance(error, UnauthenticatedError) and error.status is None and self._source == "chain":
            error.message = CHAIN_FAILED
        return error

    async def _mended_after(self, link: S3Link, since: float, error: StoreError) -> bool:
        text = _words(error)
        return await self._mended(link, since, error.status, region_in({}, text), text)

    async def _mended(self, link: S3Link, since: float, status: int | None, region: str | None, text: str) -> bool:
        """Return whether it is worth a second try: after a move to the region, or with new credentials."""
        if is_elsewhere(status, text) or (status == 400 and region is not None):
            if region is None and link is self._link:  # it may be told in a header, which the client library hides
                region = await ask_region(link.place, self._options)
            return self._move(link, region)
        if status in (400, 401, 403) and _expired(text):
            return link.renew(since)
        return False

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
                    link = self._link
                    self._move(link, await ask_region(link.place, self._options))
                    self._region_known = True
        return self._link

    def _move(self, link: S3Link, region: str | None) -> bool:
        """Go to the region that `link` was told of; False where there is nothing to change."""
        if self._link is not link:
            return True  # another request was told before
        if not region or region == link.place.region:
            return False
        self._left.append(link)
        self._link = S3Link(self._place(region), self._options, self._source, self._provider)
        return True

    async def aclose(self) -> None:
        while self._left:
            await self._left.pop().aclose()
        await self._link.aclose()


def _error(answer: Answer) -> StoreError:
    return error_for(answer.status, answer.headers, bytes(answer.body))


def _words(error: StoreError) -> str:
    """Return the client library's own words, which are not shown because they may repeat what was signed."""
    return str(error.__cause__ or error.__context__)


def _text(answer: Answer) -> str:
    return bytes(answer.body).decode("utf-8", "replace")


def _expired(text: str) -> bool:
    return error_code(text.encode()) in EXPIRED_CODES or "Request has expired" in text
