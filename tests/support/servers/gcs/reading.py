"""How the Google Cloud Storage fake serves an object's bytes: ranges, hashes, conditions and transcoding."""

from __future__ import annotations

import gzip
from dataclasses import replace
from email.utils import formatdate

from tests.support.servers.gcs.objects import Blob
from tests.support.servers.http_replies import Reply, Request, StoredObject, honest


def serve(request: Request, blob: Blob, *, xml: bool) -> Reply:
    """Return the bytes of `blob` as `request` asks for them.

    What is stored under `Content-Encoding: gzip` is unpacked for a client that does not accept gzip, and then served
    whole, whatever range was asked for.
    """
    tag = blob.xml_etag if xml else f'"{blob.etag}"'
    stored = StoredObject(blob.data, tag, blob.updated, blob.content_type)
    about = _about(blob, xml=xml)
    if blob.content_encoding != "gzip" or "gzip" in request.headers.get("accept-encoding", ""):
        reply = honest(request, stored)
        if blob.content_encoding is not None:
            about.append(("Content-Encoding", blob.content_encoding))
        if reply.status == 416 and xml:
            reply = xml_error(416, "InvalidRange", "The requested range cannot be satisfied.", reply)
        return replace(reply, headers=(*reply.headers, *about))
    plain = replace(stored, data=gzip.decompress(blob.data))
    headers = {name: value for name, value in request.headers.items() if name != "range"}
    reply = honest(replace(request, headers=headers), plain)
    about.append(("Warning", "214 UploadServer gunzipped"))
    return replace(reply, headers=(*reply.headers, *about), chunked=request.method == "GET")


def _about(blob: Blob, *, xml: bool) -> list[tuple[str, str]]:
    hashes = [f"crc32c={blob.crc32c}", *([] if blob.md5 is None else [f"md5={blob.md5}"])]
    return [
        ("x-goog-generation", str(blob.generation)),
        ("x-goog-metageneration", str(blob.metageneration)),
        ("x-goog-stored-content-encoding", blob.content_encoding or "identity"),
        ("x-goog-stored-content-length", str(len(blob.data))),
        ("x-goog-storage-class", "STANDARD"),
        # The XML API sends a header for each hash, the JSON API one for all.
        *(("x-goog-hash", value) for value in (hashes if xml else [",".join(hashes)])),
    ]


def written_headers(blob: Blob) -> tuple[tuple[str, str], ...]:
    """Return the headers with which the XML API answers a write."""
    return (("ETag", blob.xml_etag), *_about(blob, xml=True), ("Last-Modified", formatdate(blob.updated, usegmt=True)))


def xml_error(status: int, code: str, message: str, reply: Reply | None = None) -> Reply:
    """Return an error document of the XML API, with the headers of `reply`."""
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    base = Reply() if reply is None else reply.without("Content-Type")
    headers = (*base.headers, ("Content-Type", "application/xml; charset=UTF-8"))
    return replace(base, status=status, headers=headers, body=b"" if status == 304 else body.encode())
