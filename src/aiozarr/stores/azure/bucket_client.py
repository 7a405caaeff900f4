"""The client of a container of Azure: large values are stored in blocks, which one request makes a blob."""

from __future__ import annotations

import os
import re
import warnings
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlencode
from xml.etree.ElementTree import Element

from aiozarr.concurrency import map_concurrently
from aiozarr.errors import ChangedError, PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import BodyReader, check_headers
from aiozarr.http1.response_check import ERROR_BODY, Accept, Expectation
from aiozarr.model import Entry, IfAbsent, Precondition, Range, Supports, Version
from aiozarr.stores.azure.address import AzureEndpoint, AzureUrl, find_endpoint, parse_url
from aiozarr.stores.azure.authoriser import AzureAuthoriser
from aiozarr.stores.azure.credentials import AzureCredentials, find_credentials
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.errors import HTML_PAGE, error_code, is_html_page
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
from aiozarr.stores.object.memory_body import MemoryBody
from aiozarr.stores.options.azure_options import AzureOptions, azure_options

MAX_COPY_BYTES = 256 << 20
"""The largest object that one request copies: Azure's own limit."""

MAX_WRITE_BYTES = 1 << 20
"""Larger bodies are sent in pieces: TLS encrypts on the loop, and would delay its other requests."""

MAX_SINGLE_BYTES = 64 << 20
"""Larger values are stored in blocks."""
BLOCK_BYTES = 16 << 20
MAX_BLOCKS = 50_000
BLOCK_CONCURRENCY = 8

DELETE_CONCURRENCY = 32
"""Concurrent deletes: the bulk deletes of this API do not allow every kind of credentials."""


def open_bucket(url: str, storage_options: Mapping[str, Any]) -> tuple[AzureBucketClient, str]:
    """Return the client of the container in `url`, and the root below it."""
    parsed = parse_url(url)
    return AzureBucketClient(parsed, azure_options(storage_options)), parsed.root


class AzureBucketClient(BucketClient):
    """A container of Azure Blob Storage, or of a server that speaks its protocol."""

    head_identifies_missing = True
    # "Naming and referencing containers, blobs, and metadata": backslashes become slashes, and dots at ends vanish.
    # Characters that XML cannot contain make the emulator's listings fail; Azure encodes them in a form of its own.
    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\x00-\x1f\x7f\\\ufffe\uffff]|\.(?=/|$)")

    def __init__(self, url: AzureUrl, options: AzureOptions) -> None:
        endpoint = find_endpoint(url, options, os.environ)
        credentials = find_credentials(options, os.environ, endpoint)
        self.url = url.shown
        self.origin = (endpoint.endpoint, credentials.fingerprint())
        self.identity = ("azure", endpoint.base, credentials.fingerprint())
        self._endpoint = endpoint
        self._authoriser = AzureAuthoriser(endpoint, options, credentials)
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
    def sender(self) -> EndpointClient:
        return self._authoriser.sender

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        return self._authoriser.authorise(method, key, expectation)

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        return await self._authoriser.authorise_later(method, key, expectation)

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        return self._authoriser.renew(request, response)

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
        block_bytes = self.upload_part_bytes(data.nbytes, conditional=precondition is not None)
        if block_bytes is None:
            return await self.upload(key, data if data.nbytes <= MAX_WRITE_BYTES else MemoryBody(data), precondition)
        _conditions(precondition)  # a weak version is refused before anything is sent
        upload_id, body = await self.begin_parts(key), MemoryBody(data)

        async def put_block(start: int) -> UploadedPart:
            block = body.part(start, min(block_bytes, data.nbytes - start))
            return await self.upload_part(key, upload_id, start // block_bytes, block)

        starts = range(0, data.nbytes, block_bytes)
        blocks = await map_concurrently(put_block, starts, concurrency=BLOCK_CONCURRENCY)
        try:
            return await self.complete_parts(key, upload_id, blocks, precondition)
        except StoreError as error:
            # Whoever has stored the same blob meanwhile has removed the blocks of others: all are sent again.
            error.retryable = error.retryable or "InvalidBlockList" in error.message
            raise

    async def _write(self, key: str, query: str, headers: Mapping[str, str], body: memoryview | BodyReader) -> Response:
        return await self.exchange(lambda: self._authoriser.authorise_write(key, query, headers, body))

    def _stored_version(self, response: Response) -> Version | None:
        """Return the version in the response to a write.

        Raises:
            PreconditionFailedError: the write had a condition, which does not hold.
            StoreError: the response does not confirm the write.
        """
        if response.status in (200, 201):
            if is_html_page(bytes(response.body)):
                raise StoreError(f"{HTML_PAGE}: the value may not be stored", status=response.status, retryable=True)
            return self.version(response.headers)
        error = self.error(response)
        code = response.headers.get(b"x-ms-error-code", b"").decode("latin-1") or error_code(bytes(response.body))
        if isinstance(error, ChangedError) or (response.status == 409 and code == "BlobAlreadyExists"):
            raise PreconditionFailedError("another version is stored, or none", status=response.status)
        raise error

    # --- uploads of files ----------------------------------------------------------------------------------------

    def can_upload(self, nbytes: int) -> bool:
        return not self._endpoint.secondary and not self.sender.proxied

    def upload_part_bytes(self, nbytes: int, *, conditional: bool) -> int | None:
        # The probe of another server than Azure tests the conditions of single requests only.
        is_single = nbytes <= MAX_SINGLE_BYTES or (conditional and not self._endpoint.azure)
        return None if is_single else _block_bytes(nbytes)

    async def upload(
        self, key: str, body: memoryview | BodyReader, precondition: Precondition | None
    ) -> Version | None:
        headers = {"x-ms-blob-type": "BlockBlob", **_conditions(precondition)}
        return self._stored_version(await self._write(key, "", headers, body))

    async def begin_parts(self, key: str) -> str:
        return os.urandom(12).hex()  # the blocks of concurrent uploads of the same blob need different names

    async def upload_part(self, key: str, upload_id: str, number: int, body: BodyReader) -> UploadedPart:
        block = b64encode(f"{upload_id}{number:06}".encode()).decode("ascii")  # names of one blob have one length
        response = await self._write(key, f"?comp=block&blockid={quote(block, safe='')}", {}, body)
        if response.status not in (200, 201):
            raise self.error(response)
        return UploadedPart(block)

    async def complete_parts(
        self, key: str, upload_id: str, parts: Sequence[UploadedPart], precondition: Precondition | None
    ) -> Version | None:
        names = "".join([f"<Latest>{block.etag}</Latest>" for block in parts])
        body = memoryview(f"<BlockList>{names}</BlockList>".encode())
        return self._stored_version(await self._write(key, "?comp=blocklist", _conditions(precondition), body))

    async def abort_parts(self, key: str, upload_id: str) -> None:
        pass  # blocks that belong to no blob cannot be removed; Azure does so after a week

    # --- copies and deletes --------------------------------------------------------------------------------------

    @property
    def can_copy(self) -> bool:
        return True

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
        response = await self.request("DELETE", key, SHORT_RESPONSE)
        if self.has_deleted(response):
            return
        if response.headers.get(b"x-ms-error-code") == b"DirectoryIsNotEmpty":  # it is a folder, not a value
            return
        raise self.error(response)

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        self._check_writeable()
        return await self.delete_singly(keys, DELETE_CONCURRENCY)

    def _check_writeable(self) -> None:
        if self._endpoint.secondary:
            raise UnsupportedOperationError("the secondary region of an account can only be read")

    # --- listing -------------------------------------------------------------------------------------------------

    def pages(self, prefix: str) -> AsyncGenerator[Sequence[Entry], None]:
        return entries_of_pages(iterate_pages(lambda marker: self._page(prefix, "", marker)))

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        return await collect_names(iterate_pages(lambda marker: self._page(prefix, "/", marker)))

    async def _page(self, prefix: str, delimiter: str, marker: str) -> ListingPage:
        query = listing_query(prefix, delimiter, marker)
        response = await self.exchange(lambda: self._authoriser.authorise_listing(query))
        if not isinstance(response.action, Accept):
            raise self.error(response)
        return parse_page(bytes(response.body), prefix)


def _conditions(precondition: Precondition | None) -> dict[str, str]:
    """Return the headers of a condition."""
    if precondition is None:
        return {}
    if isinstance(precondition, IfAbsent):
        return {"If-None-Match": "*"}
    version = precondition.version
    if version.weak or version.etag is None:
        raise UnsupportedOperationError("a weak version cannot be a condition")
    return check_headers({"If-Match": version.etag})


def _block_bytes(nbytes: int) -> int:
    """Return the size of the blocks of a value."""
    return max(BLOCK_BYTES, -(-nbytes // MAX_BLOCKS))


def _is_folder(response: Response) -> bool:
    """Return whether the blob is a folder: accounts with a hierarchical namespace list those as blobs of no bytes."""
    return response.headers.get(b"x-ms-meta-hdi_isfolder", b"").lower() == b"true"


def _sends_credentials_openly(endpoint: AzureEndpoint, options: AzureOptions, credentials: AzureCredentials) -> bool:
    """Return whether credentials are sent without TLS that were not given for this endpoint, or that are no key."""
    is_named = options.endpoint_url is not None or options.account_host is not None
    is_found = is_named and credentials.found and credentials.kind != "anonymous"
    return endpoint.web.exposed and (is_found or credentials.kind in ("sas", "token", "credential", "identity"))


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
