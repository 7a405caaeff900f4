"""The client of a bucket of S3: signed requests in the bucket's own region; obstore does what takes more."""

from __future__ import annotations

import asyncio
import os
import time
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from anyio import move_on_after

from aiozarr.errors import StoreError, UnauthenticatedError, UnsupportedOperationError
from aiozarr.http1.connection import BodyCutError, Response
from aiozarr.http1.endpoint_client import EndpointClient, Request, RequestSender
from aiozarr.http1.request import BodyReader
from aiozarr.http1.response_check import Accept, Expectation, Headers, etag_of
from aiozarr.http1.url import fingerprint
from aiozarr.model import Entry, Precondition, Supports, Version
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.errors import EXPIRED_CODES, error_code, error_for, is_missing_key, is_skewed
from aiozarr.stores.object.body_checksum import BodyChecksum
from aiozarr.stores.object.bucket_client import SHORT_RESPONSE, BucketClient
from aiozarr.stores.object.listing import ListingPage, collect_names, entries_of_pages, iterate_pages
from aiozarr.stores.obstore.obstore_bucket import (
    PART_BYTES,
    SINGLE_PUT_BYTES,
    WORKERS,
    ObstoreBucketClient,
    may_lack_bulk,
)
from aiozarr.stores.options.s3_options import S3Options, s3_options
from aiozarr.stores.s3.address import (
    NOTHING_CONFIGURED,
    S3Endpoint,
    Source,
    find_endpoint,
    find_region,
    find_source,
    parse_url,
    sends_found_credentials_openly,
)
from aiozarr.stores.s3.client import has_files, knows_credentials, make_provider, read_configured
from aiozarr.stores.s3.direct_put import DirectPut, may_succeed_otherwise, stored_version
from aiozarr.stores.s3.multipart_upload import (
    CHECKSUM_ALGORITHM,
    MAX_PARTS,
    completion,
    new_record,
    parse_result,
    record_key,
    result_version,
)
from aiozarr.stores.s3.region_client import CRC32C, S3RegionClient, fetch_region
from aiozarr.stores.s3.responses import (
    failures_in,
    first_failure,
    is_elsewhere,
    listing_query,
    parse_page,
    region_in,
    stored_checksum,
)

T = TypeVar("T")

CHAIN_FAILED = (
    "no AWS credentials were found, neither in the options nor in the environment, nor by web identity, from a "
    "container's service or from an instance's metadata service; there are no configuration files of the AWS tools, or "
    "the extra aiozarr[s3], which reads them, is not installed (anon=True reads what is public without credentials)"
)

MAX_BULK_ATTEMPTS = 4
"""Bulk deletes of one page, each of which may name one more key that it did not delete. Then keys go one by one."""

ABORT_SECONDS = 5.0
"""The time for aborting an upload whose record could not be stored."""

MAX_PUT_BYTES = 5 << 30
"""The most that S3 takes in one request. A condition needs one request."""


def open_bucket(url: str, storage_options: Mapping[str, Any]) -> tuple[S3BucketClient, str]:
    """Return the client of the bucket in `url`, and the root below it."""
    bucket, root = parse_url(url)
    return S3BucketClient(bucket, s3_options(storage_options)), root


class S3BucketClient(ObstoreBucketClient):
    """A bucket of S3, or of another server that speaks its protocol."""

    def __init__(self, bucket: str, options: S3Options) -> None:
        self._bucket = bucket
        self._options = options
        self._source: Source = find_source(options, os.environ, has_files())
        self._configured = read_configured(options.profile) if self._source == "profile" else NOTHING_CONFIGURED
        endpoint = self._find_endpoint(None)
        self._region_known = (
            endpoint.fixed or not endpoint.aws or find_region(options, os.environ, self._configured) is not None
        )
        self._provider = make_provider(options, self._source)
        self._region_client = S3RegionClient(endpoint, options, self._source, self._provider)
        self._old_clients: list[S3RegionClient] = []
        self.idle_timeout = self._region_client.sender.endpoint.idle_timeout
        self._direct_put = DirectPut(options, os.environ, secure=endpoint.web.secure)
        self.url = f"s3://{bucket}"
        self.origin = (endpoint.web.origin, self._credentials_fingerprint())
        self.identity = ("s3", endpoint.web.origin, bucket, self._credentials_fingerprint())
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self.supports = Supports(
            writeable=True,
            listable=True,
            conditional_reads=True,
            bounded_reads=True,
            conditional_writes=True if endpoint.aws else None,
        )
        if sends_found_credentials_openly(endpoint, options, self._source):
            warnings.warn(
                f"credentials that were found, not given, sign requests to {endpoint.web.origin} without TLS",
                stacklevel=5,
            )

    def _find_endpoint(self, region: str | None) -> S3Endpoint:
        return find_endpoint(self._bucket, self._options, os.environ, region, self._configured)

    def _credentials_fingerprint(self) -> str:
        options, source = self._options, self._source
        if source == "given":
            return fingerprint({"key": options.key or "", "secret": options.secret or "", "token": options.token or ""})
        if source == "environment":
            return fingerprint({"environment": os.environ.get("AWS_ACCESS_KEY_ID", "")})
        return f"{source}:{options.profile or os.environ.get('AWS_PROFILE', '')}" if source == "profile" else source

    # --- authorising and interpreting ----------------------------------------------------------------------------

    @property
    def sender(self) -> EndpointClient:
        return self._region_client.sender

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        return self._region_client.authorise(method, key, expectation) if self._region_known else None

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        client = await self._ready()
        request = client.authorise(method, key, expectation)
        if request is not None:
            return request
        try:
            return await client.authorise_later(method, key, expectation)
        except UnauthenticatedError as error:
            self._add_hint(error)
            raise

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        if isinstance(response.action, Accept) or response.status < 300 or response.status in (404, 412):
            return False
        text = _text(response)
        region = region_in(response.headers, text)
        is_off = response.status == 403 and is_skewed(bytes(response.body))
        if is_off and self._region_client.correct_clock(response.headers.get(b"date")):
            return True
        return await self._recover(request.sender, request.issued_at, response.status, region, text)

    def stored_checksum(self, headers: Headers) -> BodyChecksum | None:
        return stored_checksum(headers)

    def is_missing(self, response: Response) -> bool:
        return is_missing_key(bytes(response.body))

    def error(self, response: Response) -> StoreError:
        error = super().error(response)
        self._add_hint(error)
        return error

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        if precondition is not None and data.nbytes > MAX_PUT_BYTES:
            raise UnsupportedOperationError(
                f"a condition binds a value to one request, which takes {MAX_PUT_BYTES} bytes, not {data.nbytes}"
            )
        refused = False
        if precondition is None and self._can_put_directly(data.nbytes):
            try:
                response = await self._send_body(key, data, self._direct_put.headers(data))
            except BodyCutError:
                pass  # a server that refuses before the whole body has come may close; its response is then lost
            else:
                version = stored_version(response)
                if version is not None:
                    return version
                if not may_succeed_otherwise(response):
                    raise self.error(response)
                refused = True
        put = super().put
        version = await self._retry_once(lambda: put(key, data, precondition))
        if refused:
            self._direct_put.record_refusal()
        return version

    def _can_put_directly(self, nbytes: int) -> bool:
        client = self._region_client
        return self._direct_put.accepts(nbytes, can_sign_headers=client.can_sign_headers) and not client.sender.proxied

    async def _send_body(self, key: str, data: memoryview | BodyReader, headers: Mapping[str, str]) -> Response:
        """Return the response to a PUT of the whole object."""

        async def authorise() -> Request:
            client = await self._ready()
            try:
                return await client.authorise_put(key, data, headers, SHORT_RESPONSE)
            except UnauthenticatedError as error:
                self._add_hint(error)
                raise

        return await self.exchange(authorise)

    @property
    def can_copy(self) -> bool:
        # Encryption and checksums of the options are obstore's, which has its own credentials, too.
        return knows_credentials(self._source) and self._can_put_directly(0)

    async def copy_object(
        self, source: BucketClient, source_key: str, key: str, *, size: int, if_match: Version | None
    ) -> Version | None:
        from aiozarr.stores.s3.server_copy import copy_object

        assert isinstance(source, S3BucketClient)

        records = self._record_upload, self._forget_upload
        return await copy_object(
            self._operate, source._bucket, source_key, key, size=size, if_match=if_match, records=records
        )

    async def _operate(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | BodyReader = b"",
    ) -> Response:
        """Return the response to an operation on an object, with parameters and headers of Amazon's."""
        content = memoryview(body) if isinstance(body, bytes) else body

        async def authorise() -> Request:
            return await (await self._ready()).authorise_call(method, key, query, headers, content)

        return await self.exchange(authorise)

    # --- uploads of files ----------------------------------------------------------------------------------------

    def can_upload(self, nbytes: int) -> bool:
        client = self._region_client
        if client.sender.proxied or not self._direct_put.accepts_stream(can_sign_headers=client.can_sign_headers):
            return False
        return nbytes <= MAX_PUT_BYTES or knows_credentials(self._source)

    def upload_part_bytes(self, nbytes: int) -> int | None:
        if nbytes <= SINGLE_PUT_BYTES or not knows_credentials(self._source):
            return None
        return max(PART_BYTES, -(-nbytes // MAX_PARTS))

    async def upload(self, key: str, body: BodyReader) -> Version | None:
        response = await self._send_body(key, body, await self._checksum(body))
        version = stored_version(response)
        if version is None:
            raise self._refusal(response)
        return version

    async def _checksum(self, body: BodyReader) -> dict[str, str]:
        return {CRC32C: await body.crc32c()} if self._direct_put.needs_checksum else {}

    async def begin_parts(self, key: str) -> str:
        headers = CHECKSUM_ALGORITHM if self._direct_put.needs_checksum else {}
        response = await self._operate("POST", key, {"uploads": ""}, headers)
        result = parse_result(response, "InitiateMultipartUploadResult")
        if not result or not result.get("UploadId"):
            raise self._refusal(response)
        upload_id = result["UploadId"]
        try:
            await self._record_upload(key, upload_id)
        except BaseException:
            with move_on_after(ABORT_SECONDS, shield=True), suppress(StoreError):
                await self.abort_parts(key, upload_id)
            raise
        return upload_id

    async def _record_upload(self, key: str, upload_id: str) -> None:
        """Store which upload was begun, so that `clean` finds it if this process is killed."""
        await self.put(record_key(key, upload_id), memoryview(new_record(key, upload_id)), None)

    async def _forget_upload(self, key: str, upload_id: str) -> None:
        """Remove the record of an upload that has ended. One that stays is removed by `clean`."""
        with suppress(StoreError):
            await self.delete(record_key(key, upload_id))

    async def upload_part(self, key: str, upload_id: str, number: int, body: BodyReader) -> UploadedPart:
        headers = await self._checksum(body)
        query = {"partNumber": str(number + 1), "uploadId": upload_id}
        response = await self._operate("PUT", key, query, headers, body)
        etag = etag_of(response.headers)
        if response.status != 200 or not etag:
            raise self._refusal(response)
        return UploadedPart(etag, headers.get(CRC32C))

    async def complete_parts(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> Version | None:
        response = await self._operate("POST", key, {"uploadId": upload_id}, {}, completion(parts))
        result = parse_result(response, "CompleteMultipartUploadResult")
        if result is None:
            raise self._refusal(response)
        await self._forget_upload(key, upload_id)
        return result_version(result)

    async def abort_parts(self, key: str, upload_id: str) -> None:
        response = await self._operate("DELETE", key, {"uploadId": upload_id}, {})
        if response.status not in (200, 204, 404):
            raise self.error(response)
        await self._forget_upload(key, upload_id)

    def _refusal(self, response: Response) -> StoreError:
        """Return the error for a response that does not confirm a step of an upload."""
        if response.status == 200 and error_code(bytes(response.body)) is not None:
            return error_for(500, {}, bytes(response.body))  # a completion may fail after the status of a success
        error = self.error(response)
        if may_succeed_otherwise(response):
            return UnsupportedOperationError(f"the server refuses the upload: {error}", status=response.status)
        return error

    async def delete(self, key: str) -> None:
        # The client library has bulk deletes only, which some servers lack.
        response = await self.request("DELETE", key, SHORT_RESPONSE)
        if not self.has_deleted(response):
            raise self.error(response)

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        if self._options.bulk_delete is False:
            return await self.delete_singly(keys, WORKERS)
        return await self._retry_once(lambda: self._delete_in_bulk(keys))

    async def _delete_in_bulk(self, keys: Sequence[str]) -> dict[str, StoreError]:
        """Delete keys with few requests. The server tries all keys of a request, also after a failure."""
        failed: dict[str, StoreError] = {}
        for _ in range(MAX_BULK_ATTEMPTS):
            try:
                if keys:
                    await self._delete_together(keys)
                return failed
            except StoreError as error:
                message = _library_message(error)
                failures, first = failures_in(message), first_failure(message, keys)
                if failures is not None and failures.keys() <= set(keys):
                    return failed | failures
                if first is None and not may_lack_bulk(error):
                    raise
            if first is None:
                break
            failed[keys[first[0]]] = first[1]
            keys = keys[first[0] + 1 :]  # those before it are deleted
        return failed | await self.delete_singly(keys, WORKERS)

    # --- listing -------------------------------------------------------------------------------------------------

    def pages(self, prefix: str) -> AsyncGenerator[Sequence[Entry], None]:
        if knows_credentials(self._source):
            return entries_of_pages(iterate_pages(lambda token: self._page(prefix, "", token)))
        return self._pages_by_client(prefix)

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        if knows_credentials(self._source):
            return await collect_names(iterate_pages(lambda token: self._page(prefix, "/", token)))
        list_dir = super().list_dir
        return await self._retry_once(lambda: list_dir(prefix))

    async def _page(self, prefix: str, delimiter: str, token: str) -> ListingPage:
        query = listing_query(prefix, delimiter, token)

        async def authorise() -> Request:
            return await (await self._ready()).authorise_call("GET", "", query)

        response = await self.exchange(authorise)
        if not isinstance(response.action, Accept):
            raise self.error(response)
        return parse_page(bytes(response.body), prefix)

    async def _pages_by_client(self, prefix: str) -> AsyncGenerator[Sequence[Entry], None]:
        """Iterate over pages by the client library, which alone has the credentials of its chain."""
        for attempt in range(2):
            client, issued_at, has_begun = await self._ready(), time.monotonic(), False
            try:
                async with aclosing(super().pages(prefix)) as pages:
                    async for page in pages:
                        has_begun = True
                        yield page
                return
            except StoreError as error:
                if has_begun or attempt or not await self._recover_from(client, issued_at, error):
                    self._add_hint(error)
                    raise

    # --- the bucket's region, and expired credentials ------------------------------------------------------------

    async def _retry_once(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Await an operation of the client library, twice if it failed by a wrong region or an expired token."""
        client, issued_at = await self._ready(), time.monotonic()
        try:
            return await operation()
        except StoreError as error:
            if not await self._recover_from(client, issued_at, error):
                self._add_hint(error)
                raise
        return await operation()

    def _add_hint(self, error: StoreError) -> None:
        """Name the option in the message if credentials were not sent, and the searched places if none were found."""
        if error.status == 403 and self._source == "anonymous":
            error.message += "; anon=True sends no credentials"
        if isinstance(error, UnauthenticatedError) and error.status is None and self._source == "chain":
            error.message = CHAIN_FAILED

    async def _recover_from(self, client: S3RegionClient, issued_at: float, error: StoreError) -> bool:
        text = _library_message(error)
        return await self._recover(client.sender, issued_at, error.status, region_in({}, text), text)

    async def _recover(
        self, sender: RequestSender, issued_at: float, status: int | None, region: str | None, text: str
    ) -> bool:
        """Return whether a second attempt may succeed: after a change of the region, or with new credentials."""
        client = self._region_client
        if is_elsewhere(status, text) or (status == 400 and region is not None):
            if client.sender is not sender:
                return True  # another request has switched the region before
            if region is None:  # it may be in a header, which the client library hides
                region = await fetch_region(client.endpoint, self._options)
            return self._switch_region(client, region)
        if status in (400, 401, 403) and _is_expired(text):
            return client.renew(issued_at)
        return False

    async def _client(self) -> Any:
        return (await self._ready()).client()

    async def _lister(self) -> Any:
        return (await self._ready()).lister()

    async def _ready(self) -> S3RegionClient:
        """Return the client of the bucket's region, after the region was found."""
        if not self._region_known:
            loop = asyncio.get_running_loop()
            async with self._locks.setdefault(loop, asyncio.Lock()):
                if not self._region_known:
                    client = self._region_client
                    self._switch_region(client, await fetch_region(client.endpoint, self._options))
                    self._region_known = True
        return self._region_client

    def _switch_region(self, client: S3RegionClient, region: str | None) -> bool:
        """Use another region from now on. Returns False if `client` is in that region, or none is known."""
        if self._region_client is not client:
            return True  # another request has switched it before
        if not region or region == client.endpoint.region:
            return False
        self._old_clients.append(client)
        self._region_client = S3RegionClient(self._find_endpoint(region), self._options, self._source, self._provider)
        return True

    async def aclose(self) -> None:
        while self._old_clients:
            await self._old_clients.pop().sender.aclose()
        await self._region_client.sender.aclose()


def _library_message(error: StoreError) -> str:
    """Return the client library's own message, which is not shown: it may quote the signed request."""
    return str(error.__cause__ or error.__context__)


def _text(response: Response) -> str:
    return bytes(response.body).decode("utf-8", "replace")


def _is_expired(text: str) -> bool:
    return error_code(text.encode()) in EXPIRED_CODES or "Request has expired" in text
