"""The client of a bucket of S3: signed requests in the bucket's own region."""

from __future__ import annotations

import os
import warnings
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import md5
from typing import Any, ClassVar

from aiozarr.common.concurrency import SingleFlight
from aiozarr.errors import PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import Request
from aiozarr.http1.request import BodyReader, check_headers, quote_key
from aiozarr.http1.response_check import Accept, Expectation
from aiozarr.http1.url import fingerprint
from aiozarr.model import Precondition, Version
from aiozarr.stores.blocking import undone_on_failure
from aiozarr.stores.bucket.bucket_client import (
    ALGORITHMS,
    BUCKET_SUPPORTS,
    LONG_RESPONSE,
    BucketClient,
    check_stored,
    checksum_of,
    condition_headers,
)
from aiozarr.stores.bucket.listing import etag_version
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.missing_objects import error_code
from aiozarr.stores.http.object_client import (
    EXPIRED_CODES,
    HTML_PAGE,
    UNKNOWN_HEADER_CODES,
    http_date,
    is_html_page,
    is_skewed,
    request_id,
)
from aiozarr.stores.s3.address import (
    UPLOAD_OPTIONS,
    Configured,
    S3Endpoint,
    S3Options,
    Source,
    find_endpoint,
    find_profile,
    find_region,
    find_setting,
    find_source,
    is_foreign,
    parse_url,
    s3_options,
)
from aiozarr.stores.s3.credentials import has_files, make_source, read_configured
from aiozarr.stores.s3.messages import (
    checksum_of_parts,
    completion,
    deletion,
    failed_deletes,
    is_elsewhere,
    listing_query,
    new_record,
    parse_page,
    parse_result,
    record_key,
    region_in,
    stored_checksum,
)
from aiozarr.stores.s3.region_client import (
    ANONYMOUS,
    CHECKSUM_MODE,
    S3Credentials,
    S3RegionClient,
    canonical_query,
    fetch_region,
)

MAX_PUT_BYTES = 5 << 30
"""The largest object that S3 accepts in one request."""

MAX_SINGLE_COPY_BYTES = 256 << 20
"""Larger objects are copied in parts, side by side. S3 copies up to 5 GiB in one request."""
COPY_PART_BYTES = 128 << 20

_NO_BODY = memoryview(b"")

_PAYER = "x-amz-request-payer"

_STORED = frozenset({200, 201, 204})
_OTHER_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted", "NoSuchBucket"})
"""Conflicts that are not failed conditions: races that may be retried, and buckets that are being deleted."""

_NO_BULK = frozenset({200, 405, 500, 501})
_CODES_OF_NO_BULK = frozenset(
    {None, "MissingContentMD5", "InvalidRequest", "InvalidArgument", "InvalidDigest", "NotImplemented", "MalformedXML"}
)

_ENCRYPTION = {
    "server_side_encryption": "x-amz-server-side-encryption",
    "sse_kms_key_id": "x-amz-server-side-encryption-aws-kms-key-id",
    "sse_bucket_key_enabled": "x-amz-server-side-encryption-bucket-key-enabled",
}


def open_bucket(url: str, storage_options: Mapping[str, Any]) -> tuple[S3BucketClient, str]:
    """Return the client of the bucket in `url`, and the root below it."""
    bucket, root = parse_url(url)
    return S3BucketClient(bucket, s3_options(storage_options)), root


class S3BucketClient(BucketClient):
    """A bucket of S3, or of another server that speaks its protocol."""

    kind = "s3"
    copy_refusals: ClassVar[frozenset[int]] = frozenset({400, 403, 405, 411, 501})
    parse_page = staticmethod(parse_page)
    stored_checksum = staticmethod(stored_checksum)

    def __init__(self, bucket: str, options: S3Options) -> None:
        self._bucket = bucket
        self._options = options
        self._origin: Source = find_source(options, os.environ, has_files())
        # Wherever the credentials come from, because they are for the server that the files name.
        self._configured = read_configured(find_profile(options, os.environ))
        self._withholds = self._origin not in ("anonymous", "given") and is_foreign(
            options, os.environ, self._configured
        )
        if self._withholds:
            self._origin = "anonymous"
        endpoint = self._find_endpoint(None)
        self._region_known = (
            endpoint.fixed or not endpoint.aws or find_region(options, os.environ, self._configured) is not None
        )
        self._region_searches: SingleFlight[None] = SingleFlight()
        self.tokens = make_source(options, self._origin, os.environ, endpoint.region)
        self._region_client = S3RegionClient(endpoint, options, self._configured)
        self.sender = self._region_client.sender
        self._payer = bool(options.requester_pays)
        self._old_clients: list[S3RegionClient] = []
        self._signs_headers = False
        self._encryption, self._algorithm = _upload_headers(options, os.environ)
        # Without TLS nothing else would detect damaged bytes.
        adds_checksum = _is_supported("request_checksum_calculation", options, self._configured)
        self._body_algorithm = self._algorithm or ("CRC32C" if adds_checksum and not endpoint.web.secure else None)
        self._reads_checksums = _is_supported("response_checksum_validation", options, self._configured)
        self.url = f"s3://{bucket}"
        self.origin = (endpoint.web.origin, self._credentials_fingerprint())
        self.identity = ("s3", endpoint.web.origin, bucket, self._credentials_fingerprint())
        self.supports = replace(BUCKET_SUPPORTS, conditional_writes=True if endpoint.aws else None)
        is_found = self._origin in ("environment", "profile", "chain")
        if is_found and options.endpoint_url is not None and endpoint.web.exposed:
            warnings.warn(
                f"credentials found on this machine sign requests to {endpoint.web.origin} without TLS",
                stacklevel=5,
            )

    def _find_endpoint(self, region: str | None) -> S3Endpoint:
        return find_endpoint(self._bucket, self._options, os.environ, region, self._configured)

    def _credentials_fingerprint(self) -> str:
        options, source = self._options, self._origin
        if source == "given":
            return fingerprint({"key": options.key or "", "secret": options.secret or "", "token": options.token or ""})
        if source == "environment":
            return fingerprint({"environment": os.environ.get("AWS_ACCESS_KEY_ID", "")})
        return f"{source}:{find_profile(options, os.environ) or ''}" if source == "profile" else source

    # --- authorising and interpreting ----------------------------------------------------------------------------

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        return super().authorise(method, key, expectation) if self._region_known else None

    async def authorise_later(self, method: str, key: str, expectation: Expectation, **more: Any) -> Request:
        if not self._region_known:
            await self._region_searches.run(None, self._find_region)
        return await super().authorise_later(method, key, expectation, **more)

    def build(
        self,
        token: S3Credentials,
        method: str,
        key: str,
        expectation: Expectation,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: memoryview | BodyReader | None = None,
    ) -> Request:
        """Return a request, signed unless `token` is `ANONYMOUS`. One for a whole object requests its checksum, too.

        Args:
            token: the credentials that sign.
            method: the HTTP method.
            key: the object; `""` for the bucket.
            expectation: the response that is wanted.
            query: further parameters, from `canonical_query`.
            headers: further headers, which are signed, by their lower-case names.
            body: the body, or None.
        """
        client, template = self._region_client, self._region_client.template
        path = f"{client.path}/{quote_key(key)}" if key else client.path or "/"
        more = {}
        if self._reads_checksums and key and method == "GET" and expectation.range is None:
            more[CHECKSUM_MODE] = "ENABLED"
        if self._payer:
            more[_PAYER] = "requester"
        # Some servers do not accept signed URLs for POST, such as Cloudflare's.
        if token is ANONYMOUS or self._signs_headers or method == "POST":
            headers = {**more, **(headers or {})}
            if token is not ANONYMOUS:
                headers = client.signer(token).signed_headers(method, path, query, headers)
            target = f"{path}?{query}" if query else path
        else:  # a signed URL has them as parameters, whose names are the last of all
            if more:
                query = "&".join([*([query] if query else []), *map("=".join, more.items())])
            target = client.signer(token).target(method, path, query, headers)
        return Request(client.sender, method, key, target, template, expectation, token, headers=headers, body=body)

    async def _call(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        body: memoryview | BodyReader = _NO_BODY,
        checksum: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the response to an operation with parameters and further headers; `key` is `""` for the bucket.

        Without TLS bodies have a `checksum`, unless the server refuses its headers as unknown.
        """
        content, more = None if method == "GET" else body, {**(headers or {}), **(checksum or {})}
        response = await self.call(method, key, LONG_RESPONSE, query=canonical_query(query), headers=more, body=content)
        code = error_code(bytes(response.body)) if checksum else None
        is_unknown = response.status == 501 or (response.status == 400 and code in UNKNOWN_HEADER_CODES | {None})
        if checksum and is_unknown and self._algorithm is None:
            response = await self._call(method, key, query, headers, body)
            self._body_algorithm = None if response.status in _STORED else self._body_algorithm
        return response

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        """Return whether a second attempt may succeed: in another region, by another clock, with other credentials."""
        status, body = response.status, bytes(response.body)
        if isinstance(response.action, Accept) or status < 300 or status in (304, 404, 412):
            return False
        client, text = self._region_client, body.decode("utf-8", "replace")
        if status == 403 and is_skewed(body) and client.clock.correct(http_date(response.headers.get(b"date"))):
            return True
        region = region_in(response.headers, text)
        if is_elsewhere(status, text) or (status == 400 and region is not None):
            if client.sender is not request.sender:
                return True  # another request has switched the region before
            return self._switch_region(client, region or await fetch_region(client))
        code = error_code(body)
        if code in EXPIRED_CODES | {"InvalidAccessKeyId"} or "Request has expired" in text:
            return status in (400, 401, 403) and self.tokens.record_refusal(request.token)
        is_refused = status == 403 and code in (None, "AccessDenied") and "&X-Amz-Signature=" in request.target
        self._signs_headers |= is_refused  # a policy may refuse signed URLs (`s3:authType`); headers serve as well
        return is_refused

    def error(self, response: Response) -> StoreError:
        error = super().error(response)
        if error.status == 403 and self._withholds:
            error.message += "; credentials that were found are not sent to an endpoint that somebody else has named"
        elif error.status == 403 and self._origin == "anonymous":
            error.message += "; anon=True sends no credentials"
        return error

    # --- writing -------------------------------------------------------------------------------------------------

    async def upload(
        self, key: str, body: memoryview | BodyReader, precondition: Precondition | None
    ) -> Version | None:
        if body.nbytes > MAX_PUT_BYTES:
            raise UnsupportedOperationError(
                f"this server supports conditions only for values of at most {MAX_PUT_BYTES} bytes, not {body.nbytes}"
            )
        conditions = condition_headers(precondition)
        checksum = await self._checksum(body)
        response = await self._call("PUT", key, {}, {**self._encryption, **conditions}, body, checksum)
        etag = response.headers.get(b"etag", b"").decode("latin-1")
        if response.status not in _STORED or not etag or is_html_page(bytes(response.body)):
            raise self._write_error(response, conditions)
        await check_stored(stored_checksum(response.headers), body, next(iter(checksum.values()), None))
        return None if etag == '""' else Version(etag)

    async def _checksum(self, body: memoryview | BodyReader) -> dict[str, str]:
        """Return the header with which a server checks a body ("Checking object integrity" in the S3 documentation).

        Over TLS there is none, unless an option requests it. Without TLS nothing else would detect damaged bytes.
        """
        algorithm = self._body_algorithm
        if algorithm is None:
            return {}
        value = await (checksum_of(algorithm, body) if isinstance(body, memoryview) else body.crc32c())
        return {f"x-amz-checksum-{algorithm.lower()}": value}

    def _write_error(self, response: Response, conditions: Mapping[str, str] | None = None) -> StoreError:
        """Return the error for a response that does not confirm a write, or a step of an upload."""
        status, body = response.status, bytes(response.body)
        code = error_code(body)
        if conditions and (
            status in (304, 412)
            or (status == 409 and code not in _OTHER_CONFLICTS)
            or (status == 404 and code == "NoSuchKey")
        ):
            reason = "the stored version differs, or there is none"
            return PreconditionFailedError(reason, status=status, request_id=request_id(response.headers))
        if status == 200 and code is not None:
            return self.error(response)
        if is_html_page(body):
            return StoreError(f"{HTML_PAGE}: the value may not be stored", status=status)
        if status in _STORED:
            return StoreError("the response to the write has no ETag, so the stored version is unknown", status=status)
        return self.error(response)

    # --- copies by the server ------------------------------------------------------------------------------------

    @property
    def can_copy(self) -> bool:
        return self._algorithm is None  # with checksums, the parts of a copy would need those in their responses

    async def copy_object(
        self, source: BucketClient, source_key: str, key: str, *, size: int, if_match: Version | None
    ) -> Version | None:
        """See `BucketClient.copy_object` ("CopyObject", "UploadPartCopy" in the S3 API reference)."""
        assert isinstance(source, S3BucketClient)
        headers = {"x-amz-copy-source": quote_key(f"/{source._bucket}/{source_key}")}
        if if_match is not None and if_match.etag is not None and not if_match.weak:
            headers["x-amz-copy-source-if-match"] = if_match.etag
        if size <= MAX_SINGLE_COPY_BYTES:
            response = await self._call("PUT", key, {}, {**self._encryption, **headers})
            return etag_version(self._copied(response, "CopyObjectResult").get("ETag", ""))

        part_bytes = self.part_bytes(size, COPY_PART_BYTES)
        upload_id = await self.begin_parts(key, checksums=False)

        async def copy_part(start: int, stop: int) -> UploadedPart:
            query = {"partNumber": str(start // part_bytes + 1), "uploadId": upload_id}
            part = {**headers, "x-amz-copy-source-range": f"bytes={start}-{stop - 1}"}
            result = self._copied(await self._call("PUT", key, query, part), "CopyPartResult")
            return UploadedPart(result.get("ETag", ""))

        return await self.upload_parts(key, upload_id, size, part_bytes, copy_part)

    def _copied(self, response: Response, name: str) -> dict[str, str]:
        """Return the members of the result of a copy.

        Raises:
            StoreError: the server has not copied.
        """
        result = parse_result(response, name)
        if result is None:
            raise self.copy_error(response)
        return result

    # --- uploads in parts ----------------------------------------------------------------------------------------

    def can_upload(self, nbytes: int) -> bool:
        return self._algorithm in (None, "CRC32C")  # the only checksum of a body that is read while it is sent

    async def begin_parts(self, key: str, *, checksums: bool = True) -> str:
        algorithm = self._body_algorithm if checksums else None
        checksum = {} if algorithm is None else {"x-amz-checksum-algorithm": algorithm}
        response = await self._call("POST", key, {"uploads": ""}, self._encryption, checksum=checksum)
        result = parse_result(response, "InitiateMultipartUploadResult")
        if not result or not result.get("UploadId"):
            raise self._write_error(response)
        upload_id = result["UploadId"]
        async with undone_on_failure(lambda: self.abort_parts(key, upload_id)):
            # `clean` finds the upload by its record if this process is killed.
            await self.put(record_key(key, upload_id), memoryview(new_record(key, upload_id)), None)
        return upload_id

    async def _forget_upload(self, key: str, upload_id: str) -> None:
        """Remove the record of an upload that has ended. If that fails, `clean` removes it."""
        with suppress(StoreError):
            await self.delete(record_key(key, upload_id))

    async def upload_part(self, key: str, upload_id: str, number: int, body: memoryview | BodyReader) -> UploadedPart:
        checksum = await self._checksum(body)
        query = {"partNumber": str(number + 1), "uploadId": upload_id}
        response = await self._call("PUT", key, query, {}, body, checksum)
        etag = response.headers.get(b"etag", b"").decode("latin-1")
        if response.status != 200 or not etag:
            raise self._write_error(response)
        sent = next(iter(checksum.values()), None) if self._body_algorithm else None
        await check_stored(stored_checksum(response.headers), body, sent)
        return UploadedPart(etag, sent)

    async def complete_parts(
        self, key: str, upload_id: str, parts: Sequence[UploadedPart], precondition: Precondition | None
    ) -> Version | None:
        conditions = condition_headers(precondition)
        document = memoryview(completion(parts, self._algorithm or "CRC32C"))
        response = await self._call("POST", key, {"uploadId": upload_id}, conditions, document)
        result = parse_result(response, "CompleteMultipartUploadResult")
        if result is None:
            raise self._write_error(response, conditions)
        await self._forget_upload(key, upload_id)
        sent = checksum_of_parts(parts, self._algorithm or "CRC32C")
        stored = result.get(f"Checksum{self._algorithm or 'CRC32C'}", "")
        if sent is not None and "-" in stored and stored != sent:
            raise StoreError("the server stored different bytes from those sent: the checksum of the parts differs")
        return etag_version(result.get("ETag", ""))

    async def abort_parts(self, key: str, upload_id: str) -> None:
        response = await self._call("DELETE", key, {"uploadId": upload_id})
        is_gone = self.is_missing(response) or error_code(bytes(response.body)) == "NoSuchUpload"
        if response.status not in (200, 204) and not is_gone:
            raise self.error(response)
        await self._forget_upload(key, upload_id)

    # --- deletes -------------------------------------------------------------------------------------------------

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        """Delete keys in one request, or one by one on a server that lacks bulk deletes ("DeleteObjects")."""
        if self._options.bulk_delete is not False:
            document = deletion(keys)
            digest = b64encode(md5(document, usedforsecurity=False).digest()).decode()
            response = await self._call("POST", "", {"delete": ""}, {"content-md5": digest}, memoryview(document))
            failed = failed_deletes(response, keys)
            if failed is not None:
                return failed
            is_form_refused = response.status == 400 and error_code(bytes(response.body)) in _CODES_OF_NO_BULK
            if response.status not in _NO_BULK and not is_form_refused:
                raise self.error(response)
        return await super().delete_many(keys)

    # --- listing -------------------------------------------------------------------------------------------------

    def page_parameters(self, prefix: str, delimiter: str, token: str) -> dict[str, str]:
        return {"query": canonical_query(listing_query(prefix, delimiter, token))}

    # --- the bucket's region -------------------------------------------------------------------------------------

    async def _find_region(self) -> None:
        client = self._region_client
        self._switch_region(client, await fetch_region(client))
        self._region_known = True

    def _switch_region(self, client: S3RegionClient, region: str | None) -> bool:
        """Use another region from now on. Returns False if `client` is in that region, or none is known."""
        if self._region_client is not client:
            return True  # another request has switched it before
        if not region or region == client.endpoint.region:
            return False
        self._old_clients.append(client)
        self._region_client = S3RegionClient(self._find_endpoint(region), self._options, self._configured)
        self.sender = self._region_client.sender
        return True

    async def aclose(self) -> None:
        while self._old_clients:
            await self._old_clients.pop().sender.aclose()
        await super().aclose()


def _is_supported(name: str, options: S3Options, configured: Configured) -> bool:
    """Return whether a setting of checksums is `when_supported`, the default, and not `when_required`.

    Raises:
        ValueError: it is neither.
    """
    word = (find_setting(name, options, os.environ, configured) or "when_supported").lower()
    if word not in ("when_supported", "when_required"):
        raise ValueError(f"the storage option {name!r} must be 'when_supported' or 'when_required', not {word!r}")
    return word == "when_supported"


def _upload_headers(options: S3Options, environ: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """Return the headers that encrypt what is written, and the algorithm of its checksum, or None.

    Raises:
        ImportError: a package for the algorithm is missing; the message names it.
        ValueError: the algorithm is not known.
    """
    given = {name: text for name in UPLOAD_OPTIONS if (text := find_setting(name, options, environ, {})) is not None}
    algorithm = given.get("checksum_algorithm", "").upper() or None
    if algorithm is not None and algorithm not in ALGORITHMS:
        raise ValueError(
            f"the storage option 'checksum_algorithm' must be one of {', '.join(ALGORITHMS)}, not {algorithm!r}"
        )
    if algorithm is not None and ALGORITHMS[algorithm]() is None:
        raise ImportError(f"checksum_algorithm={algorithm!r} needs the package awscrt: pip install awscrt")
    if "server_side_encryption" not in given:
        return {}, algorithm
    given["sse_bucket_key_enabled"] = given.get("sse_bucket_key_enabled", "").lower()
    return check_headers({header: given[name] for name, header in _ENCRYPTION.items() if given.get(name)}), algorithm
