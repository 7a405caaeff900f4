"""The client of a container of Azure, which stores large values in blocks that one request combines to a blob."""

from __future__ import annotations

import os
import re
import warnings
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlencode
from xml.etree.ElementTree import Element

from aiozarr.errors import ChangedError, PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import BodyReader, RequestTemplate, quote_key
from aiozarr.http1.response_check import NO_VALUE, Accept, Expectation
from aiozarr.model import Entry, Precondition, Range, Version
from aiozarr.stores.azure.address import AzureEndpoint, AzureOptions, AzureUrl, azure_options, find_endpoint, parse_url
from aiozarr.stores.azure.credentials import AzureCredentials, AzureTokenSource, ContainerSignatures, find_credentials
from aiozarr.stores.bucket.bucket_client import (
    BUCKET_SUPPORTS,
    PAGE_SIZE,
    SHORT_RESPONSE,
    BucketClient,
    condition_headers,
)
from aiozarr.stores.bucket.listing import (
    ListingPage,
    child_texts,
    etag_version,
    is_key,
    listing_error,
    local_name,
    parse_size,
    parse_xml,
)
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.missing_objects import error_code
from aiozarr.stores.http.object_client import HTML_PAGE, http_date, is_html_page

VERSION = "2023-11-03"
"""The protocol's version. Without it, anonymous requests get that of 2009, signed ones that of their signature."""

_PERMISSIONS = {"GET": "r", "HEAD": "r", "DELETE": "d", "PUT": "w"}
MAX_TEMPLATES = 5

MAX_COPY_BYTES = 256 << 20
"""The largest object that one request copies: Azure's own limit."""


def open_bucket(url: str, storage_options: Mapping[str, Any]) -> tuple[AzureBucketClient, str]:
    """Return the client of the container in `url`, and the root below it."""
    parsed = parse_url(url)
    return AzureBucketClient(parsed, azure_options(storage_options)), parsed.root


class AzureBucketClient(BucketClient):
    """A container of Azure Blob Storage, or of a server that speaks its protocol."""

    kind = "az"
    head_identifies_missing = True
    max_parts: ClassVar[int] = 50_000
    copy_refusals: ClassVar[frozenset[int]] = frozenset({202, 400, 403, 405, 409, 501})
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
        self.sender = EndpointClient(endpoint.web, options)
        self._web = endpoint.web
        if credentials.credential is None:
            self.tokens = TokenSource(credentials.secret if credentials.kind == "token" else "")
        else:
            self.tokens = AzureTokenSource(credentials.credential)
        # An account key does not sign single requests, but shared access signatures, each for all blobs of a container.
        self._signatures = (
            ContainerSignatures(endpoint.account, credentials.secret, endpoint.container)
            if credentials.kind == "key"
            else None
        )
        self._given_query = credentials.secret if credentials.kind == "sas" else ""
        self._templates: dict[tuple[bool, str], RequestTemplate] = {}
        self.supports = replace(
            BUCKET_SUPPORTS,
            writable=not endpoint.secondary,
            suffix_reads=False,
            conditional_writes=False if endpoint.secondary else True if endpoint.azure else None,
        )
        if _sends_credentials_openly(endpoint, options, credentials):
            warnings.warn(f"credentials are sent to {endpoint.web.origin} without TLS", stacklevel=5)

    # --- authorising and interpreting ----------------------------------------------------------------------------

    def build(
        self,
        token: str,
        method: str,
        key: str,
        expectation: Expectation,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: memoryview | BodyReader | None = None,
    ) -> Request:
        """Return a request whose meaning is in `query`, without the signature. Without a key, it is for a listing."""
        if self._endpoint.secondary and method in ("PUT", "DELETE"):
            raise UnsupportedOperationError("the secondary region of an account can only be read")
        signature = self._signature(_PERMISSIONS[method] if key else "l")
        target = f"{self._web.path}/{quote_key(key)}" if key else self._web.path
        if query or signature:
            target = f"{target}?{query}{'&' if query and signature else ''}{signature}"
        template = self._template(method, token)
        authorised_by = token or signature
        return Request(
            self.sender, method, key, target, template, expectation, authorised_by, headers=headers, body=body
        )

    def _signature(self, permission: str) -> str:
        return self._given_query if self._signatures is None else self._signatures.query(permission)

    def _template(self, method: str, token: str) -> RequestTemplate:
        template = self._templates.get((method == "DELETE", token))
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:  # tokens that have expired
                self._templates.clear()
            headers = {"x-ms-version": VERSION}
            if token:
                headers["Authorization"] = f"Bearer {token}"
            if method == "DELETE":
                headers["x-ms-delete-snapshots"] = "include"
            template = self._templates[method == "DELETE", token] = RequestTemplate(self._web.authority, headers)
        return template

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        if self._signatures is not None:
            server_time = http_date(response.headers.get(b"date"))
            return response.status in (401, 403) and self._signatures.renew(str(request.token), server_time)
        # 403 means a valid token without the permission.
        return response.status == 401 and self.tokens.record_refusal(request.token)

    def is_value(self, request: Request, response: Response) -> bool:
        return super().is_value(request, response) and not _is_folder(response)

    async def interpret(self, request: Request, response: Response) -> Response:
        if response.status == 412 and request.method == "GET":
            # The emulator sends 412 for a missing blob, too.
            head = await self.request("HEAD", request.key, Expectation(head=True))
            return head if head.status == 404 else response
        if _is_folder(response):
            return Response(404, {**response.headers, b"x-ms-error-code": b"BlobNotFound"}, NO_VALUE, b"")
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

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        try:
            return await super().put(key, data, precondition)
        except StoreError as error:
            # All blocks are sent again, because another writer of the same blob has removed them.
            error.retryable = error.retryable or "InvalidBlockList" in error.message
            raise

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

    async def upload(
        self, key: str, body: memoryview | BodyReader, precondition: Precondition | None
    ) -> Version | None:
        headers = {"x-ms-blob-type": "BlockBlob", **condition_headers(precondition)}
        return self._stored_version(await self.call("PUT", key, headers=headers, body=body))

    async def begin_parts(self, key: str) -> str:
        return os.urandom(12).hex()  # the blocks of concurrent uploads of the same blob need different names

    async def upload_part(self, key: str, upload_id: str, number: int, body: memoryview | BodyReader) -> UploadedPart:
        block = b64encode(f"{upload_id}{number:06}".encode()).decode("ascii")  # names of one blob have one length
        response = await self.call("PUT", key, query=f"comp=block&blockid={quote(block, safe='')}", body=body)
        if response.status not in (200, 201):
            raise self.error(response)
        return UploadedPart(block)

    async def complete_parts(
        self, key: str, upload_id: str, parts: Sequence[UploadedPart], precondition: Precondition | None
    ) -> Version | None:
        names = "".join([f"<Latest>{block.etag}</Latest>" for block in parts])
        body = memoryview(f"<BlockList>{names}</BlockList>".encode())
        conditions = condition_headers(precondition)
        return self._stored_version(await self.call("PUT", key, query="comp=blocklist", headers=conditions, body=body))

    async def abort_parts(self, key: str, upload_id: str) -> None:
        pass  # blocks that belong to no blob cannot be removed; Azure does so after a week

    # --- copies and deletes --------------------------------------------------------------------------------------

    async def copy_object(
        self, source: BucketClient, source_key: str, key: str, *, size: int, if_match: Version | None
    ) -> Version | None:
        assert isinstance(source, AzureBucketClient)
        if size > MAX_COPY_BYTES:
            raise UnsupportedOperationError(f"the server copies up to {MAX_COPY_BYTES} bytes at once, not {size}")
        etag = None if if_match is None or if_match.weak else if_match.etag

        async def authorise() -> Request:
            """Return a request for a copy within the account (Azure REST API, "Copy Blob From URL")."""
            query, token = source._signature("r"), await self.tokens.token()
            url = f"{source._web.origin}{source._web.path}/{quote_key(source_key)}"
            headers = {"x-ms-copy-source": f"{url}?{query}" if query else url, "x-ms-requires-sync": "true"}
            if token:
                headers["x-ms-copy-source-authorization"] = f"Bearer {token}"
            if etag is not None:
                headers["x-ms-source-if-match"] = etag
            return self.build(token, "PUT", key, SHORT_RESPONSE, headers=headers, body=memoryview(b""))

        response = await self.exchange(authorise)
        if response.status == 202 and response.headers.get(b"x-ms-copy-status", b"success") == b"success":
            return self.version(response.headers)
        raise self.copy_error(response)

    def has_deleted(self, response: Response) -> bool:
        # The key of a folder, which is not a value.
        is_folder = response.headers.get(b"x-ms-error-code") == b"DirectoryIsNotEmpty"
        return is_folder or super().has_deleted(response)

    # --- listing -------------------------------------------------------------------------------------------------

    def page_parameters(self, prefix: str, delimiter: str, token: str) -> dict[str, str]:
        # Metadata are requested because they mark the folders of accounts with a hierarchical namespace.
        query = {"restype": "container", "comp": "list", "include": "metadata", "maxresults": str(PAGE_SIZE)}
        more = {"prefix": prefix, "delimiter": delimiter, "marker": token}
        query |= {name: value for name, value in more.items() if value}
        return {"query": urlencode(query, quote_via=quote, safe="")}

    @staticmethod
    def parse_page(body: bytes, prefix: str) -> ListingPage:
        root = parse_xml(body, "EnumerationResults")
        page = ListingPage([], [], child_texts(root).get("NextMarker", ""))
        blobs = _named(root, "Blobs")
        for child in () if blobs is None else blobs:
            tag = local_name(child)
            name = _name(child) if tag in ("Blob", "BlobPrefix") else None
            if name is None:
                continue
            if tag == "BlobPrefix":
                if name.endswith("/") and is_key(name[:-1], prefix):
                    page.prefixes.append(name)
            elif is_key(name, prefix):
                fields, metadata = _members(child, "Properties"), _members(child, "Metadata")
                size = parse_size(fields.get("Content-Length", "").strip(), name)
                if fields.get("ResourceType") != "directory" and not _marks_folder(metadata):
                    page.entries.append(Entry(name, size, etag_version(fields.get("Etag", ""))))
        return page


def _is_folder(response: Response) -> bool:
    """Return whether the blob is a folder, which accounts with a hierarchical namespace list as a blob of no bytes."""
    return response.headers.get(b"x-ms-meta-hdi_isfolder", b"").lower() == b"true"


def _sends_credentials_openly(endpoint: AzureEndpoint, options: AzureOptions, credentials: AzureCredentials) -> bool:
    """Return whether credentials would be sent without TLS that were not given for this endpoint, or are not a key."""
    is_named = options.endpoint_url is not None or options.account_host is not None
    is_found = is_named and credentials.found and credentials.kind != "anonymous"
    return endpoint.web.exposed and (is_found or credentials.kind in ("sas", "token", "credential", "identity"))


def _members(element: Element, name: str) -> dict[str, str]:
    found = _named(element, name)
    return {} if found is None else child_texts(found)


def _marks_folder(metadata: Mapping[str, str]) -> bool:
    return any(name.lower() == "hdi_isfolder" and value.strip().lower() == "true" for name, value in metadata.items())


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
