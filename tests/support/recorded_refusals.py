"""Refusals as clouds, their look-alikes, emulators, proxies and networks of delivery send them.

Each has a status, headers, a body, and the kinds of store for which it says that the object itself is missing.
"""

from __future__ import annotations

import gzip
from dataclasses import replace

from tests.support.servers.http_replies import Reply

HTTP = frozenset({"http"})
ALL_BUT_AZURE = frozenset({"s3", "gs", "http"})


def xml(status: int, code: str, message: str = "Words.", more: str = "", **headers: str) -> Reply:
    document = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>'
    )
    return _reply(status, "application/xml", document, **headers)


def azure(status: int, code: str) -> Reply:
    return xml(status, code, f"The specified thing: {code}.\nRequestId:1", x_ms_error_code=code)


def json(status: int, text: str) -> Reply:
    return _reply(status, "application/json", text)


def text(status: int, words: str, kind: str = "text/plain; charset=utf-8", **headers: str) -> Reply:
    return _reply(status, kind, words, **headers)


def html(status: int, title: str) -> Reply:
    page = f"<html>\r\n<head><title>{title}</title></head>\r\n<body><h1>{title}</h1></body></html>\r\n"
    return _reply(status, "text/html", page)


def compressed(reply: Reply) -> Reply:
    """Return the reply as a network of delivery sends it that compresses all documents."""
    return replace(reply, body=gzip.compress(reply.body)).with_headers(Content_Encoding="gzip")


def _reply(status: int, kind: str, body: str, **headers: str) -> Reply:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(status, (("Content-Type", kind), *named), body.encode())


REFUSALS: dict[str, tuple[Reply, frozenset[str]]] = {
    # 404, of the stores
    "AWS, missing key": (xml(404, "NoSuchKey", "The specified key does not exist.", "<Key>k</Key>"), ALL_BUT_AZURE),
    "MinIO, missing key": (
        xml(404, "NoSuchKey", "The specified key does not exist.", "<BucketName>b</BucketName>"),
        ALL_BUT_AZURE,
    ),
    "Ceph, missing key": (_reply(404, "application/xml", "<Error><Code>NoSuchKey</Code></Error>"), ALL_BUT_AZURE),
    "source.coop, missing key": (Reply(404), frozenset({"s3", "http"})),
    "AWS, missing bucket": (xml(404, "NoSuchBucket", "The specified bucket does not exist"), frozenset()),
    "missing key, compressed": (compressed(xml(404, "NoSuchKey")), ALL_BUT_AZURE),
    "missing bucket, compressed": (compressed(xml(404, "NoSuchBucket")), frozenset()),
    "missing key with the name of a code": (xml(404, "NoSuchKey", more="<Key>NoSuchBucket/c/0</Key>"), ALL_BUT_AZURE),
    "AWS, missing upload": (xml(404, "NoSuchUpload", "The specified upload does not exist."), HTTP),
    "R2, missing bucket": (xml(404, "NoSuchBucket", "The specified bucket does not exist."), frozenset()),
    "AWS website, missing bucket": (
        text(404, "<html><ul><li>Code: NoSuchBucket</li><li>BucketName: b</li></ul></html>", "text/html"),
        frozenset(),
    ),
    "GCS, text of a download": (text(404, "No such object: bucket/k", "text/html"), frozenset({"gs", "http"})),
    "GCS, JSON of a missing object": (
        json(
            404,
            '{"error": {"code": 404, "message": "No such object: bucket/k", '
            '"errors": [{"reason": "notFound", "domain": "global"}]}}',
        ),
        frozenset({"gs", "http"}),
    ),
    "GCS, JSON of a missing bucket": (
        json(
            404,
            '{"error": {"code": 404, "message": "The specified bucket does not exist.", '
            '"errors": [{"reason": "notFound"}]}}',
        ),
        frozenset(),
    ),
    "fake-gcs-server": (text(404, "Not Found\n"), frozenset({"gs", "http"})),
    "storage-testbench": (
        json(404, '{"code":404,"message":"{\\"error\\": {\\"errors\\": [{\\"message\\": \\"k does not exist.\\"}]}}"}'),
        frozenset({"gs", "http"}),
    ),
    "Azure, missing blob": (azure(404, "BlobNotFound"), frozenset({"az", "http"})),
    "Azure, missing path": (azure(404, "PathNotFound"), frozenset({"az", "http"})),
    "Azure, missing container": (azure(404, "ContainerNotFound"), frozenset()),
    "Azure, container that is not public": (azure(404, "ResourceNotFound"), frozenset()),
    # 404, of what stands before them
    "Traefik": (text(404, "404 page not found\n"), HTTP),
    "ingress-nginx": (text(404, "default backend - 404"), HTTP),
    "nginx": (html(404, "404 Not Found"), HTTP),
    "Kong": (json(404, '{"message":"no Route matched with those values"}'), HTTP),
    "APISIX": (json(404, '{"error_msg":"404 Route Not Found"}'), HTTP),
    "Starlette": (json(404, '{"detail":"Not Found"}'), HTTP),
    "Cloudflare, 404": (html(404, "Not found | Cloudflare"), HTTP),
    "Akamai, 404": (html(404, "Error 404"), HTTP),
    # 403
    "AWS, denied": (xml(403, "AccessDenied", "Access Denied"), frozenset()),
    "AWS, archived": (xml(403, "InvalidObjectState", "Not valid for the object&apos;s storage class"), frozenset()),
    "B2, cap": (xml(403, "AccessDenied", "Cannot download file, download bandwidth cap exceeded"), frozenset()),
    "Azure, denied": (azure(403, "AuthorizationPermissionMismatch"), frozenset()),
    "CloudFront, denied": (html(403, "ERROR: The request could not be satisfied"), frozenset()),
    "Akamai, denied": (html(403, "Access Denied"), frozenset()),
    # 409, 410, 412
    "AWS, conflict": (xml(409, "OperationAborted", "A conflicting operation is in progress"), frozenset()),
    "Azure, lease": (azure(412, "LeaseIdMissing"), frozenset()),
    "AWS, condition": (xml(412, "PreconditionFailed", "At least one of the pre-conditions did not hold"), frozenset()),
    "gone": (text(410, "Gone"), frozenset()),
    # 5xx
    "SeaweedFS, internal": (xml(500, "InternalError", "We encountered an internal error."), frozenset()),
    "nginx, bad gateway": (html(502, "502 Bad Gateway"), frozenset()),
    "Envoy, no upstream": (text(503, "no healthy upstream"), frozenset()),
    "AWS, slow down": (xml(503, "SlowDown", "Please reduce your request rate."), frozenset()),
    "Cloudflare, unreachable": (text(521, "error code: 521"), frozenset()),
}
