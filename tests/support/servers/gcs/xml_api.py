"""The XML API of the Google Cloud Storage fake: objects below `/bucket/`, listings, and uploads in parts."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from tests.support.servers.gcs.objects import (
    Blob,
    Bucket,
    Conditions,
    Effect,
    Holdings,
    Refusal,
    check_hashes,
    list_page,
    parse_hashes,
    removing,
    storing,
)
from tests.support.servers.gcs.reading import serve, written_headers
from tests.support.servers.http_replies import Reply, Request

_PART = re.compile(rb"<PartNumber>(\d+)</PartNumber>")
_XML = ("Content-Type", "application/xml; charset=UTF-8")


class XmlApi:
    """Handles the requests of obstore and of aiozarr's HTTP client."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._names = itertools.count(1)

    def answer(self, request: Request) -> tuple[Reply, Effect | None]:
        """Return the reply, and the change that takes effect with it.

        Raises:
            Refusal: the request is not done.
        """
        path, _, raw_query = request.target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        first, _, rest = path.removeprefix("/").partition("/")
        bucket = self._holdings.bucket(unquote(first))
        key = unquote(rest)
        if not key:
            if request.method not in ("GET", "HEAD"):
                raise Refusal(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
            return (_list(bucket, query) if request.method == "GET" else Reply()), None
        if "uploads" in query or "uploadId" in query:
            return self._in_parts(request, bucket, key, query)
        conditions = header_conditions(request.headers)
        found = bucket.blobs.get(key)
        match request.method:
            case "GET" | "HEAD":
                return serve(request, _known(found, conditions), xml=True), None
            case "DELETE":
                _known(found, conditions)
                return Reply(204), removing(bucket, key)
            case "PUT":
                conditions.check(found)
                return self._put(request, bucket, key)
        raise Refusal(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")

    def _put(self, request: Request, bucket: Bucket, key: str) -> tuple[Reply, Effect]:
        source = request.headers.get("x-goog-copy-source")
        headers = request.headers
        if source is None:
            blob = self._holdings.make(
                key,
                request.body,
                content_type=headers.get("content-type"),
                content_encoding=headers.get("content-encoding"),
            )
            check_hashes(blob, parse_hashes(headers.get("x-goog-hash")))
            return Reply(200, written_headers(blob)), storing(bucket, blob)
        first, _, rest = unquote(source).removeprefix("/").partition("/")
        origin = self._holdings.bucket(first).blobs.get(rest)
        if origin is None:
            raise _no_key()
        blob = self._holdings.make(key, origin.data, content_type=origin.content_type)
        body = f"<CopyObjectResult><ETag>{blob.xml_etag}</ETag></CopyObjectResult>"
        return Reply(200, (*written_headers(blob), _XML), body.encode()), storing(bucket, blob)

    def _in_parts(
        self, request: Request, bucket: Bucket, key: str, query: Mapping[str, str]
    ) -> tuple[Reply, Effect | None]:
        upload = query.get("uploadId")
        if upload is None:
            name = f"upload{next(self._names)}"
            self._uploads[name] = {}
            body = (
                f"<InitiateMultipartUploadResult><Bucket>{bucket.name}</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
            return Reply(200, (_XML,), body.encode()), None
        parts = self._uploads.get(upload)
        if parts is None:
            raise Refusal(404, "NoSuchUpload", "The requested upload was not found.")
        if request.method == "DELETE":
            return Reply(204), lambda: _drop(self._uploads, upload)
        if request.method == "PUT":
            part = self._holdings.make(key, request.body)
            check_hashes(part, parse_hashes(request.headers.get("x-goog-hash")))
            parts[int(query["partNumber"])] = request.body
            return Reply(200, written_headers(part)), None
        header_conditions(request.headers).check(bucket.blobs.get(key))
        data = b"".join(parts[int(number)] for number in _PART.findall(request.body))
        blob = self._holdings.make(key, data, composite=True)

        def finish() -> None:
            storing(bucket, blob)()
            _drop(self._uploads, upload)

        body = f"<CompleteMultipartUploadResult><ETag>{blob.xml_etag}</ETag></CompleteMultipartUploadResult>"
        return Reply(200, (*written_headers(blob), _XML), body.encode()), finish


def _no_key() -> Refusal:
    return Refusal(404, "NoSuchKey", "The specified key does not exist.")


def _known(found: Blob | None, conditions: Conditions) -> Blob:
    if found is None:
        raise _no_key()
    conditions.check(found, reading=True)
    return found


def header_conditions(headers: Mapping[str, str]) -> Conditions:
    """Return the preconditions that the headers of a request to the XML API hold."""

    def number(name: str) -> int | None:
        value = headers.get(name)
        return None if value is None else int(value)

    return Conditions(
        generation=number("x-goog-if-generation-match"), metageneration=number("x-goog-if-metageneration-match")
    )


def _drop(uploads: dict[str, dict[int, bytes]], name: str) -> None:
    uploads.pop(name, None)


def _list(bucket: Bucket, query: Mapping[str, str]) -> Reply:
    page = list_page(
        bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        after=query.get("continuation-token") or query.get("start-after") or query.get("marker", ""),
        limit=min(int(query.get("max-keys", "1000")), 1000),
    )
    parts = ["<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"]
    parts.append(f"<Name>{bucket.name}</Name><Prefix>{escape(query.get('prefix', ''))}</Prefix>")
    parts.append(f"<IsTruncated>{'false' if page.next is None else 'true'}</IsTruncated>")
    if page.next is not None:
        parts.append(f"<NextContinuationToken>{escape(page.next)}</NextContinuationToken>")
    parts.extend(
        f"<Contents><Key>{escape(blob.name)}</Key><Generation>{blob.generation}</Generation>"
        f"<MetaGeneration>{blob.metageneration}</MetaGeneration><LastModified>{iso(blob.updated)}</LastModified>"
        f"<ETag>{blob.xml_etag}</ETag><Size>{len(blob.data)}</Size></Contents>"
        for blob in page.blobs
    )
    parts.extend(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in page.prefixes)
    parts.append("</ListBucketResult>")
    return Reply(200, (_XML,), "".join(parts).encode())


def iso(seconds: float) -> str:
    """Return a time as documents of both APIs write it."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
