"""The service of Azure: the lane reads, deletes and lists, authorised by signature or token; obstore does the rest."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from aiozarr.errors import ChangedError, StoreError, UnsupportedOperationError
from aiozarr.model import Entry, Precondition, Range, Supports, Version
from aiozarr.stores.azure.access import Access, find_access
from aiozarr.stores.azure.address import AzurePlace, AzureUrl, find_place, parse_url
from aiozarr.stores.azure.client import has_login
from aiozarr.stores.azure.link import AzureLink
from aiozarr.stores.azure.listing import listing_query, parse_page
from aiozarr.stores.http.errors import error_for
from aiozarr.stores.lane import Accept, Answer, Want
from aiozarr.stores.lane.judge import NOTE
from aiozarr.stores.object.listing import Page, follow, gather
from aiozarr.stores.object.service import BRIEF
from aiozarr.stores.obstore.service import WORKERS, ObstoreService
from aiozarr.stores.options.azure import AzureOptions, azure_options

BATCH = 256
"""Keys of one bulk delete: as many as Azure allows."""


def open_service(url: str, storage_options: Mapping[str, Any]) -> tuple[AzureService, str]:
    """Return the service of the container in `url`, and the root below it."""
    parsed = parse_url(url)
    return AzureService(parsed, azure_options(storage_options)), parsed.root


class AzureService(ObstoreService):
    """A container of Azure Blob Storage, or of a server that speaks its protocol."""

    head_tells: ClassVar[bool] = True
    # "Naming and referencing containers, blobs, and metadata": backslashes become slashes, and dots at ends vanish.
    # What XML cannot hold makes the emulator's listings fail, and those of Azure speak of it in a code of its own.
    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\x00-\x1f\x7f\\\ufffe\uffff]|\.(?=/|$)")

    def __init__(self, url: AzureUrl, options: AzureOptions) -> None:
        place = find_place(url, options, os.environ)
        access = find_access(options, os.environ, place, has_login=has_login())
        self._url = url.shown
        self._place = place
        self._kind = access.kind
        self._link = AzureLink(place, options, access)
        self.idle_timeout = self._link.line.origin.idle_timeout
        self._fingerprint = access.fingerprint(options)
        self.supports = Supports(
            writeable=not place.secondary,
            listable=True,
            suffix_reads=False,
            conditional_reads=True,
            conditional_writes=False if place.secondary else True if place.azure else None,
        )
        if _sends_credentials_openly(place, options, access):
            warnings.warn(f"credentials are sent to {place.web.origin} without TLS", stacklevel=5)

    @property
    def url(self) -> str:
        return self._url

    @property
    def origin(self) -> Hashable:
        return (self._place.endpoint, self._fingerprint)

    @property
    def identity(self) -> Hashable:
        return ("azure", self._place.base, self._fingerprint)

    # --- reading -------------------------------------------------------------------------------------------------

    def prepare(self, requests: int) -> None:
        self._link.prepare(requests)

    async def ask(self, method: str, key: str, want: Want) -> Answer:
        try:
            answer = await self._link.ask(method, key, want)
        except StoreError as error:
            if error.retryable or not isinstance(want.range, Range):
                raise
            return await self._beyond(key, want, want.range, error)
        if answer.status == 412 and method == "GET":
            # The emulator says so of a blob that is missing, too.
            head = await self._link.ask("HEAD", key, Want(head=True))
            return head if head.status == 404 else answer
        return _without_folders(answer)

    async def _beyond(self, key: str, want: Want, byte_range: Range, error: StoreError) -> Answer:
        """Return the empty answer to a range behind the end of the blob, of which the emulator says nonsense.

        Raises:
            StoreError: `error`, where it is something else.
        """
        if isinstance(error, ChangedError):
            raise error
        head = await self._link.ask("HEAD", key, Want(etag=want.etag, head=True))
        if not isinstance(head.verdict, Accept) or head.verdict.size is None or head.verdict.size > byte_range.start:
            raise error
        return Answer(206, head.headers, Accept(limit=0, size=head.verdict.size, exact=0), b"")

    def lacks(self, answer: Answer) -> bool:
        # To those who may not read a container, Azure says ResourceNotFound of all that is in it.
        return answer.headers.get(b"x-ms-error-code") in (b"BlobNotFound", b"PathNotFound")

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        self._check_writeable()
        return await super().put(key, data, precondition)

    async def delete(self, key: str) -> None:
        self._check_writeable()
        if self._kind == "chain":
            await self._delete_by_client(key)
            return
        answer = await self._link.ask("DELETE", key, BRIEF)
        if self.has_deleted(answer):
            return
        if answer.headers.get(b"x-ms-error-code") == b"DirectoryIsNotEmpty":  # it is no value
            return
        raise error_for(answer.status, answer.headers, bytes(answer.body))

    async def _delete_by_client(self, key: str) -> None:
        import obstore

        client = await self._client()
        try:
            await self._done(lambda: obstore.delete_async(client, key))
        except StoreError as error:
            if not isinstance(error.__cause__, FileNotFoundError) or "container" in str(error.__cause__):
                raise

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        self._check_writeable()
        try:
            return await super().delete_many(keys)
        except StoreError as error:
            # It may be about one of the keys; and a signature may allow to delete, and not to do so by the hundred.
            if "failed for key" in str(error.__cause__) or (self._kind == "sas" and error.status == 403):
                return await self.delete_singly(keys, WORKERS)
            raise

    async def _delete_together(self, keys: Sequence[str]) -> None:
        # One after the other: the emulator gives up requests that take it five seconds.
        for start in range(0, len(keys), BATCH):
            await super()._delete_together(keys[start : start + BATCH])

    def _check_writeable(self) -> None:
        if self._place.secondary:
            raise UnsupportedOperationError("the secondary region of an account can only be read")

    # --- listing -------------------------------------------------------------------------------------------------

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        if self._kind == "chain":
            async for entries in super().pages(prefix):
                yield entries
        else:
            async for page in follow(lambda marker: self._page(prefix, "", marker)):
                yield page.entries

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        if self._kind == "chain":
            return await super().list_dir(prefix)
        return await gather(follow(lambda marker: self._page(prefix, "/", marker)))

    async def _page(self, prefix: str, delimiter: str, marker: str) -> Page:
        answer = await self._link.list(listing_query(prefix, delimiter, marker))
        if not isinstance(answer.verdict, Accept):
            raise error_for(answer.status, answer.headers, bytes(answer.body))
        return parse_page(bytes(answer.body), prefix)

    # --- obstore -------------------------------------------------------------------------------------------------

    async def _client(self) -> Any:
        return self._link.client()

    async def _lister(self) -> Any:
        return self._link.client(keep_alive=False)

    async def aclose(self) -> None:
        await self._link.aclose()


def _without_folders(answer: Answer) -> Answer:
    """Return a 404 in place of a folder: accounts with a hierarchical namespace show folders as blobs of no bytes."""
    if answer.headers.get(b"x-ms-meta-hdi_isfolder", b"").lower() != b"true":
        return answer
    return Answer(404, {**answer.headers, b"x-ms-error-code": b"BlobNotFound"}, NOTE, b"")


def _sends_credentials_openly(place: AzurePlace, options: AzureOptions, access: Access) -> bool:
    """Return whether credentials would go out without TLS that nobody gave for this endpoint, or that need no key."""
    named = options.endpoint_url is not None or options.account_host is not None
    found = named and access.found and access.kind != "anonymous"
    return place.web.exposed and (found or access.kind in ("sas", "token", "credential", "chain"))
