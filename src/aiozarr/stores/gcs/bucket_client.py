"""The client of a bucket of Google Cloud Storage: versions are generations, and whole values are checked by CRC32C."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import quote

from aiozarr.errors import StoreError, UnauthenticatedError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import PieceReader, RequestTemplate
from aiozarr.http1.response_check import Accept, Expectation, Headers
from aiozarr.model import Precondition, Version
from aiozarr.stores.bucket.bucket_client import BUCKET_SUPPORTS, PAGE_SIZE, BucketClient, is_whole_object
from aiozarr.stores.gcs.address import (
    GcsOptions,
    find_endpoint,
    find_source,
    gcs_options,
    parse_url,
    sends_credentials_openly,
)
from aiozarr.stores.gcs.credentials import account_name, find_universe, make_source
from aiozarr.stores.gcs.upload import gcs_error, parse_page, stored_checksum, stored_version, upload

MAX_REWRITES = 10_000
"""Calls that copy one object; each copies a MiB at least."""


def open_bucket(url: str, storage_options: Mapping[str, Any]) -> tuple[GcsBucketClient, str]:
    """Return the client of the bucket in `url`, and the root below it."""
    bucket, root = parse_url(url)
    return GcsBucketClient(bucket, gcs_options(storage_options)), root


class GcsBucketClient(BucketClient):
    """A bucket of Google Cloud Storage, or of a server that speaks its protocol. Versions are generations."""

    kind = "gs"
    unstorable: ClassVar[re.Pattern[str]] = re.compile(r"[\r\n]")
    parse_page = staticmethod(parse_page)
    stored_checksum = staticmethod(stored_checksum)

    def __init__(self, bucket: str, options: GcsOptions) -> None:
        self._bucket = bucket
        source = find_source(options, os.environ, google=True)
        endpoint = find_endpoint(bucket, options, os.environ, find_universe(options, source))
        source = find_source(options, os.environ, google=bool(endpoint.universe))
        self._endpoint = endpoint
        account = account_name(options, source)
        self.url = f"gs://{bucket}"
        self.origin = (endpoint.web.origin, account)
        self.identity = ("gs", endpoint.web.shown, bucket, account)
        self.tokens = make_source(options, source, endpoint.universe)
        self.sender = EndpointClient(endpoint.web, options)
        self._payer = options.payer
        self._templates: dict[bool, tuple[str, RequestTemplate]] = {}
        self.supports = replace(BUCKET_SUPPORTS, conditional_writes=True if endpoint.universe else None)
        if sends_credentials_openly(endpoint, source):
            warnings.warn(f"tokens are sent to {endpoint.web.origin} without TLS", stacklevel=5)

    # --- authorising and interpreting ----------------------------------------------------------------------------

    def build(
        self,
        token: str,
        method: str,
        key: str,
        expectation: Expectation,
        target: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: memoryview | PieceReader | None = None,
    ) -> Request:
        """Return a request to the path of the object `key`, or to `target`.

        Unless a client accepts gzip, the server decompresses objects that are stored with that encoding; ranges of them
        would fail, and hashes would not match. Therefore objects are requested as they are stored, but `target` is not.
        """
        template = self._template(token, target is None)
        target = self._endpoint.object_path(key) if target is None else target
        return Request(self.sender, method, key, target, template, expectation, token, headers=headers, body=body)

    def _template(self, token: str, as_stored: bool) -> RequestTemplate:
        made = self._templates.get(as_stored)
        if made is None or made[0] != token:
            headers = {"Accept-Encoding": "gzip" if as_stored else "identity"}
            if token:
                headers["Authorization"] = f"Bearer {token}"
            if self._payer is not None:
                headers["x-goog-user-project"] = self._payer
            made = self._templates[as_stored] = (token, RequestTemplate(self._endpoint.web.authority, headers))
        return made[1]

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        return response.status == 401 and self.tokens.record_refusal(request.token)

    def is_value(self, request: Request, response: Response) -> bool:
        headers = response.headers
        if is_whole_object(request, response) and (_is_packed(headers) or _is_unpacked(headers)):
            return False
        return super().is_value(request, response)

    async def interpret(self, request: Request, response: Response) -> Response:
        if not isinstance(response.action, Accept) or not is_whole_object(request, response):
            return response
        if _is_packed(response.headers) and request.template.headers["Accept-Encoding"] == "gzip":
            return await self.call(request.method, request.key, request.expectation, target=request.target)
        if _is_unpacked(response.headers):
            raise StoreError("the server decompressed an object that is stored with Content-Encoding: gzip")
        return await super().interpret(request, response)

    def is_missing(self, response: Response) -> bool:
        # fake-gcs-server has one text for missing objects and missing buckets. Google never sends it.
        is_of_emulator = not self._endpoint.universe and bytes(response.body).strip() == b"Not Found"
        return super().is_missing(response) or (is_of_emulator and response.status == 404)

    def version(self, headers: Headers) -> Version | None:
        generation = headers.get(b"x-goog-generation")
        return Version(generation=generation.decode("latin-1")) if generation else None

    def error(self, response: Response) -> StoreError:
        error = gcs_error(response.status, response.headers, bytes(response.body))
        if response.status == 401 and not isinstance(error, UnauthenticatedError):
            return UnauthenticatedError(str(error), status=401)
        return error

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        return await upload(self, self._endpoint, key, data, precondition)

    async def copy_object(
        self, source: BucketClient, source_key: str, key: str, *, size: int, if_match: Version | None
    ) -> Version | None:
        assert isinstance(source, GcsBucketClient)
        target = source._endpoint.rewrite_path(source_key, self._bucket, key)
        target += "?fields=done,rewriteToken,resource(generation,size)"
        if if_match is not None and if_match.generation is not None:
            target += f"&ifSourceGenerationMatch={quote(if_match.generation, safe='')}"
        token = ""
        # Large objects between locations of the cloud take several calls ("Objects: rewrite").
        for _ in range(MAX_REWRITES):
            step = f"{target}&rewriteToken={quote(token, safe='')}" if token else target
            response = await self.call("POST", key, target=step, body=memoryview(b""))
            if response.status != 200:
                raise self.copy_error(response)
            done, token, resource = _rewrite_result(bytes(response.body))
            if done:
                return stored_version(resource, {"size": str(size)})
        raise StoreError("the server did not finish copying the object")

    # --- listing -------------------------------------------------------------------------------------------------

    def page_parameters(self, prefix: str, delimiter: str, token: str) -> dict[str, str]:
        fields = "items(name),prefixes" if delimiter else "items(name,size,generation)"
        target = f"{self._endpoint.list_path}?maxResults={PAGE_SIZE}&fields={fields},nextPageToken"
        for name, value in (("prefix", prefix), ("delimiter", delimiter), ("pageToken", token)):
            if value or name == "prefix":
                target += f"&{name}={quote(value, safe='')}"
        return {"target": target}


def _rewrite_result(body: bytes) -> tuple[bool, str, Any]:
    """Return whether a rewrite is done, the token of the next call if it is not, and the object if it is."""
    try:
        found: Any = json.loads(body)
        if found["done"]:
            return True, "", found.get("resource")
        token = str(found["rewriteToken"])
        token.encode()  # it becomes a part of a URL
        return False, token, None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError("the server's response to a copy is not valid", retryable=True) from error


def _is_packed(headers: Headers) -> bool:
    """Return whether the server compressed an object that is stored without an encoding."""
    return b"content-encoding" in headers and headers.get(b"x-goog-stored-content-encoding") == b"identity"


def _is_unpacked(headers: Headers) -> bool:
    """Return whether the server decompressed an object that is stored compressed."""
    return headers.get(b"x-goog-stored-content-encoding") == b"gzip" and b"content-encoding" not in headers
