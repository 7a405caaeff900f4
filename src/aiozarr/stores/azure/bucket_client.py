"""The client of a container of Azure: requests by signature or token; obstore writes, and finds other credentials."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote, urlencode
from xml.etree.ElementTree import Element

from aiozarr.errors import ChangedError, StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import Request, RequestSender
from aiozarr.http1.response_check import ERROR_BODY, Accept, Expectation
from aiozarr.model import Entry, Precondition, Range, Supports, Version
from aiozarr.stores.azure.address import AzureEndpoint, AzureUrl, find_endpoint, parse_url
from aiozarr.stores.azure.authoriser import AzureAuthoriser
from aiozarr.stores.azure.credentials import AzureCredentials, find_credentials
from aiozarr.stores.azure.obstore_client import ObstoreSender, has_login, make_client
from aiozarr.stores.object.bucket_client import PAGE_SIZE, SHORT_RESPONSE, BucketClient
from aiozarr.stores.object.listing import (
    ListingPage,
    child_texts,
    collect_names,
    entries_of_pages,
    is_key,
    iterate_pages,
    listing_error,
    local_name,
    parse_size,
    parse_xml_listing,
)
from aiozarr.stores.obstore.obstore_bucket import WORKERS, ObstoreBucketClient, check_fork
from aiozarr.stores.options.azure_options import AzureOptions, azure_options

if TYPE_CHECKING:
    from obstore.store import AzureStore

MAX_COPY_BYTES = 256 << 20
"""The largest object that one request copies: Azure's own limit."""
MAX_BATCH_KEYS = 256
"""Keys of one bulk delete: Azure's own limit."""


def open_bucket(url: str, storage_options: Mapping[str, Any]) -> tuple[AzureBucketClient, str]:
    """Return the client of the container in `url`, and the root below it."""
    parsed = parse_url(url)
    return AzureBucketClient(parsed, azure_options(storage_options)), parsed.root


class AzureBucketClient(ObstoreBucketClient):
    """A container of Azure Blob Storage, or of a server that speaks its protocol."""

    head_identifies_missing = True
    # "Naming and referencing containers, blobs, and metadata": backslashes become slashes, and dots at ends vanish.
    # Characters that XML cannot contain make the emulator's listings fail; Azure encodes them in a form of its own.
    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\x00-\x1f\x7f\\\ufffe\uffff]|\.(?=/|$)")

    def __init__(self, url: AzureUrl, options: AzureOptions) -> None:
        endpoint = find_endpoint(url, options, os.environ)
        credentials = find_credentials(options, os.environ, endpoint, has_login=has_login())
        self.url = url.shown
        self.origin = (endpoint.endpoint, credentials.fingerprint(options))
        self.identity = ("azure", endpoint.base, credentials.fingerprint(options))
        self._endpoint = endpoint
        self._options = options
        self._credentials = credentials
        self._authoriser = AzureAuthoriser(endpoint, options, credentials)
        self._clients: dict[bool, AzureStore] = {}
        self.idle_timeout = self._authoriser.sender.endpoint.idle_timeout
        # obstore keeps the tokens of its own chain to itself: it also reads then.
        self._obstore_sender = (
            ObstoreSender(self._obstore_client, self.idle_timeout) if credentials.kind == "chain" else None
        )
        self.supports = Supports(
            writeable=not endpoint.secondary,
            listable=True,
            suffix_reads=False,
            conditional_reads=True,
            bounded_reads=True,
            conditional_writes=False if endpoint.secondary else True if endpoint.azure else None,
        )
        if _sends_credentials_openly(endpoint, options, credentials):
            warnings.warn(f"credentials are sent to {endpoint.web.origin} without TLS", stacklevel=5)

    # --- authorising and interpreting ----------------------------------------------------------------------------

    @property
    def sender(self) -> RequestSender:
        return self._authoriser.sender if self._obstore_sender is None else self._obstore_sender

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        if self._obstore_sender is not None:
            return self._obstore_sender.request(method, key, expectation)
        return self._authoriser.authorise(method, key, expectation)

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        return await self._authoriser.authorise_later(method, key, expectation)

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        return self._obstore_sender is None and self._authoriser.renew(request, response)

    def is_value(self, request: Request, response: Response) -> bool:
        return super().is_value(request, response) and not _is_folder(response)

    async def interpret(self, request: Request, response: Response) -> Response:
        if response.status == 412 and request.method == "GET":
            # The emulator sends 412 for a missing blob, too.
            head = await self.request("HEAD", request.key, Expectation(head=True))
            return head if head.status == 404 else response
        if _is_folder(response):
            return Response(404, {**response.headers, b"x-ms-error-code": b"BlobNotFound"}, ERROR_BODY, b"")
        return response

    def can_recover(self, request: Request, error: StoreError) -> bool:
        # The emulator sends an invalid response to a range beyond the end of the blob.
        is_range = request.method == "GET" and isinstance(request.expectation.range, Range)
        return is_range and not error.retryable and not isinstance(error, ChangedError)

    async def recover(self, request: Request, error: StoreError) -> Response:
        byte_range = request.expectation.range
        if not isinstance(byte_range, Range):
            raise error
        head = await self.request("HEAD", request.key, Expectation(etag=request.expectation.etag, head=True))
        action = head.action
        if not isinstance(action, Accept) or action.size is None or action.size > byte_range.start:
            raise error
        return Response(206, head.headers, Accept(limit=0, size=action.size, exact=0), b"")

    def is_missing(self, response: Response) -> bool:
        # Without the permission to read a container, Azure sends ResourceNotFound for all that is in it.
        return response.headers.get(b"x-ms-error-code") in (b"BlobNotFound", b"PathNotFound")

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        self._check_writeable()
        return await super().put(key, data, precondition)

    @property
    def can_copy(self) -> bool:
        return self._obstore_sender is None and not self._authoriser.sender.proxied

    async def copy_object(
        self, source: BucketClient, source_key: str, key: str, *, size: int, if_match: Version | None
    ) -> Version | None:
        assert isinstance(source, AzureBucketClient)
        self._check_writeable()
        if size > MAX_COPY_BYTES:
            raise UnsupportedOperationError(f"the server copies up to {MAX_COPY_BYTES} bytes at once, not {size}")
        etag = None if if_match is None or if_match.weak else if_match.etag
        response = await self.exchange(
            lambda: self._authoriser.authorise_copy(source._authoriser, source_key, key, etag)
        )
        if response.status == 202 and response.headers.get(b"x-ms-copy-status", b"success") == b"success":
            return self.version(response.headers)
        if response.status in (404, 412):
            raise ChangedError("the object was replaced or removed before it was copied", status=response.status)
        if response.status in (202, 400, 403, 405, 409, 501):
            raise UnsupportedOperationError(f"the server does not copy: {self.error(response)}")
        raise self.error(response)

    async def delete(self, key: str) -> None:
        self._check_writeable()
        if self._obstore_sender is not None:
            await self._delete_by_client(key)
            return
        response = await self.request("DELETE", key, SHORT_RESPONSE)
        if self.has_deleted(response):
            return
        if response.headers.get(b"x-ms-error-code") == b"DirectoryIsNotEmpty":  # it is a folder, not a value
            return
        raise self.error(response)

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
            # The error may be about one key. A signature may permit single deletes, and no bulk deletes.
            if "failed for key" in str(error.__cause__) or (self._credentials.kind == "sas" and error.status == 403):
                return await self.delete_singly(keys, WORKERS)
            raise

    async def _delete_together(self, keys: Sequence[str]) -> None:
        # One after the other: the emulator aborts requests that take it five seconds.
        for start in range(0, len(keys), MAX_BATCH_KEYS):
            await super()._delete_together(keys[start : start + MAX_BATCH_KEYS])

    def _check_writeable(self) -> None:
        if self._endpoint.secondary:
            raise UnsupportedOperationError("the secondary region of an account can only be read")

    # --- listing -------------------------------------------------------------------------------------------------

    def pages(self, prefix: str) -> AsyncGenerator[Sequence[Entry], None]:
        if self._obstore_sender is not None:
            return super().pages(prefix)
        return entries_of_pages(iterate_pages(lambda marker: self._page(prefix, "", marker)))

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        if self._obstore_sender is not None:
            return await super().list_dir(prefix)
        return await collect_names(iterate_pages(lambda marker: self._page(prefix, "/", marker)))

    async def _page(self, prefix: str, delimiter: str, marker: str) -> ListingPage:
        query = listing_query(prefix, delimiter, marker)
        response = await self.exchange(lambda: self._authoriser.authorise_listing(query))
        if not isinstance(response.action, Accept):
            raise self.error(response)
        return parse_page(bytes(response.body), prefix)

    # --- obstore -------------------------------------------------------------------------------------------------

    def _obstore_client(self, *, keep_alive: bool = True) -> AzureStore:
        """Return obstore's client, made on first use: a store that is only described, or read, survives a fork.

        Args:
            keep_alive: False for listings, which may be abandoned at any time.

        Raises:
            ForkedProcessError: it was used in the parent of this forked process.
        """
        check_fork(f"az://{self._endpoint.container}")
        client = self._clients.get(keep_alive)
        if client is None:
            client = self._clients[keep_alive] = make_client(
                self._endpoint,
                self._options,
                self._credentials,
                self._authoriser.tokens,
                self._authoriser.sender.endpoint.connect_timeout,
                keep_alive=keep_alive,
            )
        return client

    async def _client(self) -> Any:
        return self._obstore_client()

    async def _lister(self) -> Any:
        return self._obstore_client(keep_alive=False)

    async def aclose(self) -> None:
        await self._authoriser.sender.aclose()


def _is_folder(response: Response) -> bool:
    """Return whether the blob is a folder: accounts with a hierarchical namespace list those as blobs of no bytes."""
    return response.headers.get(b"x-ms-meta-hdi_isfolder", b"").lower() == b"true"


def _sends_credentials_openly(endpoint: AzureEndpoint, options: AzureOptions, credentials: AzureCredentials) -> bool:
    """Return whether credentials are sent without TLS that were not given for this endpoint, or that are no key."""
    is_named = options.endpoint_url is not None or options.account_host is not None
    is_found = is_named and credentials.found and credentials.kind != "anonymous"
    return endpoint.web.exposed and (is_found or credentials.kind in ("sas", "token", "credential", "chain"))


def listing_query(prefix: str, delimiter: str, marker: str) -> str:
    """Return the query of a request for a page; `""` means no delimiter, and the first page.

    Metadata are requested because they mark the folders of accounts with a hierarchical namespace.
    """
    query = {"restype": "container", "comp": "list", "include": "metadata", "maxresults": str(PAGE_SIZE)}
    more = {"prefix": prefix, "delimiter": delimiter, "marker": marker}
    return urlencode(query | {name: value for name, value in more.items() if value}, quote_via=quote, safe="")


def parse_page(body: bytes, prefix: str) -> ListingPage:
    """Parse a page.

    Raises:
        StoreError: it is not valid.
    """
    root = parse_xml_listing(body, "EnumerationResults")
    entries: list[Entry] = []
    prefixes: list[str] = []
    blobs = _named(root, "Blobs")
    for child in () if blobs is None else blobs:
        if local_name(child) == "Blob":
            entry = _entry(child, prefix)
            if entry is not None:
                entries.append(entry)
        elif local_name(child) == "BlobPrefix":
            name = _name(child)
            if name is not None and name.endswith("/") and is_key(name[:-1], prefix):
                prefixes.append(name)
    return ListingPage(entries, prefixes, child_texts(root).get("NextMarker", ""))


def _entry(element: Element, prefix: str) -> Entry | None:
    """Return the blob, or None if its name cannot be a key or it is a folder."""
    name, properties = _name(element), _named(element, "Properties")
    if name is None or not is_key(name, prefix):
        return None
    fields = {} if properties is None else child_texts(properties)
    size = parse_size(fields.get("Content-Length", "").strip(), name)
    if fields.get("ResourceType") == "directory" or _marks_folder(_named(element, "Metadata")):
        return None
    etag = fields.get("Etag", "").strip()
    if etag and not etag.endswith('"'):  # in listings there are no quotes
        etag = f'"{etag}"'
    return Entry(name, size, Version(etag) if etag.strip('"') else None)


def _marks_folder(metadata: Element | None) -> bool:
    fields = {} if metadata is None else child_texts(metadata)
    return any(name.lower() == "hdi_isfolder" and value.strip().lower() == "true" for name, value in fields.items())


def _name(element: Element) -> str | None:
    """Return the name, or None if it is not text. A name that XML cannot contain is percent-encoded, and marked."""
    found = _named(element, "Name")
    if found is None:
        raise listing_error("has a blob without a name")
    text = found.text or ""
    if found.get("Encoded") != "true":
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _named(element: Element, name: str) -> Element | None:
    return next((child for child in element if local_name(child) == name), None)
