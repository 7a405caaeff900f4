"""Copies by the server: whole objects in one request, large ones as parts of a multipart upload."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol, TypeAlias

import anyio

from aiozarr.concurrency import map_concurrently
from aiozarr.errors import ChangedError, StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.request import quote_key
from aiozarr.model import Version
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.errors import error_for
from aiozarr.stores.s3.multipart_upload import MAX_PARTS, completion, parse_result, result_version

MAX_SINGLE_COPY_BYTES = 256 << 20
"""Larger objects are copied in parts, side by side. S3 copies up to 5 GiB in one request."""
PART_BYTES = 128 << 20
PART_CONCURRENCY = 8
ABORT_SECONDS = 5.0

_REFUSED = frozenset({400, 403, 405, 411, 501})


RecordUpload: TypeAlias = Callable[[str, str], Awaitable[None]]


class SendCopy(Protocol):
    """Sends one signed request for an object."""

    def __call__(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes = b""
    ) -> Awaitable[Response]:
        """Return the response to a request with these parameters, further headers and this body."""
        ...


async def copy_object(
    send: SendCopy,
    bucket: str,
    source_key: str,
    key: str,
    *,
    size: int,
    if_match: Version | None,
    records: tuple[RecordUpload, RecordUpload] | None = None,
) -> Version | None:
    """Have the server copy an object ("CopyObject", "UploadPartCopy" in the S3 API reference).

    Args:
        send: sends the requests.
        bucket: the bucket of the source.
        source_key: the key there.
        key: the key of the copy.
        size: the size of the object.
        if_match: the version that it must have.
        records: called with the key and the id of an upload that was begun, and of one that has ended.

    Returns: the version of the copy, or None if the server reports none.

    Raises:
        ChangedError: the object has another version, or is gone.
        UnsupportedOperationError: the server refuses copies.
    """
    headers = {"x-amz-copy-source": quote_key(f"/{bucket}/{source_key}")}
    if if_match is not None and if_match.etag is not None and not if_match.weak:
        headers["x-amz-copy-source-if-match"] = if_match.etag
    if size <= MAX_SINGLE_COPY_BYTES:
        return result_version(_result(await send("PUT", key, {}, headers), "CopyObjectResult"))
    started = _result(await send("POST", key, {"uploads": ""}, {}), "InitiateMultipartUploadResult")
    upload = {"uploadId": started.get("UploadId", "")}
    begun, ended = records or (None, None)
    try:
        if begun is not None:
            await begun(key, upload["uploadId"])
        version = await _copy_parts(send, key, headers, upload, size)
    except BaseException:
        with anyio.move_on_after(ABORT_SECONDS, shield=True), suppress(StoreError):
            await send("DELETE", key, upload, {})
            if ended is not None:
                await ended(key, upload["uploadId"])
        raise
    if ended is not None:
        await ended(key, upload["uploadId"])
    return version


async def _copy_parts(
    send: SendCopy, key: str, headers: Mapping[str, str], upload: Mapping[str, str], size: int
) -> Version | None:
    part_bytes = max(PART_BYTES, -(-size // MAX_PARTS))

    async def copy_part(start: int) -> UploadedPart:
        stop = min(start + part_bytes, size)
        number = {"partNumber": str(start // part_bytes + 1)}
        part = {**headers, "x-amz-copy-source-range": f"bytes={start}-{stop - 1}"}
        result = _result(await send("PUT", key, {**upload, **number}, part), "CopyPartResult")
        return UploadedPart(result.get("ETag", ""))

    parts = await map_concurrently(copy_part, range(0, size, part_bytes), concurrency=PART_CONCURRENCY)
    response = await send("POST", key, upload, {}, completion(parts))
    return result_version(_result(response, "CompleteMultipartUploadResult"))


def _result(response: Response, name: str) -> dict[str, str]:
    """Return the members of a result.

    Raises:
        StoreError: the server has not done what it was asked for. A copy may fail after the status of a success.
    """
    result = parse_result(response, name)
    if result is not None:
        return result
    status = response.status
    if status in (404, 412):
        raise ChangedError("the object was replaced or removed before it was copied", status=status)
    error = error_for(500 if status == 200 else status, response.headers, bytes(response.body))
    if status in _REFUSED:
        raise UnsupportedOperationError(f"the server does not copy: {error}", status=status)
    raise error
