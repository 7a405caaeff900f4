"""Uploads to the Google Cloud Storage fake: in one request, as multipart/related, and resumable."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.support.servers.gcs.json_api import Done, describe, drop, query_conditions, said
from tests.support.servers.gcs.objects import Bucket, Conditions, Holdings, Refusal, check_hashes, parse_hashes, storing
from tests.support.servers.http_replies import Reply, Request

QUANTUM = 256 << 10
"""Every part of a resumable upload but the last one has a multiple of so many bytes."""

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(slots=True)
class Session:
    """An unfinished resumable upload: the bytes so far, and the properties of its object.

    Attributes:
        bucket, name, conditions, about: as they were when it began.
        received: the bytes that are kept.
        finished: the description of the object, once it is stored.
    """

    bucket: Bucket
    name: str
    conditions: Conditions
    about: Mapping[str, Any]
    received: bytearray = field(default_factory=bytearray)
    finished: dict[str, Any] | None = None


class Uploads:
    """Answers requests below `/upload/storage/v1/b/`, and to the sessions that they begin.

    Attributes:
        sessions: the uploads under way or finished, by id; a cancelled one is gone.
        keeps: how many bytes of a part are stored before the 308, or None for all. Google may store fewer.
    """

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._ids = itertools.count(1)
        self.sessions: dict[str, Session] = {}
        self.keeps: int | None = None

    def answer(self, request: Request, base: str) -> Done:
        """Return the reply, and the change that takes effect with it.

        Args:
            request: what came.
            base: the server's URL, for the address of a session.

        Raises:
            Refusal: the request is not done.
        """
        path, _, raw_query = request.target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        bucket = self._holdings.bucket(unquote(path.removeprefix("/upload/storage/v1/b/").removesuffix("/o")))
        if "upload_id" in query:
            return self._continue(request, query["upload_id"])
        if request.method != "POST":
            raise Refusal(405, "methodNotAllowed", "Method not allowed")
        match query.get("uploadType"):
            case "media":
                about: dict[str, Any] = {"contentType": request.headers.get("content-type")}
                return self._store(request, bucket, query, about, request.body)
            case "multipart":
                about, data = split_related(request)
                return self._store(request, bucket, query, about, data)
            case "resumable":
                return self._begin(request, bucket, query, f"{base}{path}")
        raise Refusal(400, "badRequest", "An uploadType is needed: media, multipart or resumable.")

    def _store(
        self, request: Request, bucket: Bucket, query: Mapping[str, str], about: Mapping[str, Any], data: bytes
    ) -> Done:
        name = query.get("name") or about.get("name", "")
        query_conditions(query).check(bucket.blobs.get(name))
        blob = self._holdings.make(name, data, **_described(about))
        check_hashes(blob, _claimed(request, about))
        return said(describe(bucket, blob)), storing(bucket, blob)

    # --- resumable -----------------------------------------------------------------------------------------------

    def _begin(self, request: Request, bucket: Bucket, query: Mapping[str, str], place: str) -> Done:
        about = json.loads(request.body or b"{}")
        about.setdefault("contentType", request.headers.get("x-upload-content-type"))
        name = query.get("name") or about.get("name", "")
        conditions = query_conditions(query)
        conditions.check(bucket.blobs.get(name))
        upload = f"session{next(self._ids)}"
        session = Session(bucket, name, conditions, about)
        location = f"{place}?uploadType=resumable&upload_id={upload}"
        headers = (("Location", location), ("X-GUploader-UploadID", upload))
        return Reply(200, headers), lambda: self.sessions.update({upload: session})

    def _continue(self, request: Request, upload: str) -> Done:
        session = self.sessions.get(upload)
        if session is None:
            raise Refusal(410, "gone", "The upload was cancelled or has expired.")
        if request.method == "DELETE":
            return Reply(499), lambda: drop(self.sessions, upload)
        if session.finished is not None:
            return said(session.finished), None
        stated = request.headers.get("content-range", "")
        match = _CONTENT_RANGE.fullmatch(stated or f"bytes 0-{len(request.body) - 1}/{len(request.body)}")
        if match is None:
            raise Refusal(400, "badRequest", f"Failed to parse Content-Range header {stated!r}.")
        first, total = match[1], None if match[3] == "*" else int(match[3])
        held = len(session.received)
        if first is not None:
            if int(first) > held:
                raise Refusal(503, "backendError", f"Bytes {held} and following are missing.")
            if total is None and len(request.body) % QUANTUM:
                raise Refusal(400, "badRequest", "A part's length must be a multiple of 262144 bytes.")
            part = request.body[held - int(first) :]
            if total is None or held + len(part) < total:
                part = part[: self.keeps]
            session.received += part  # kept even if the answer is lost
        if total is None or len(session.received) < total:
            return _incomplete(session), None
        return self._finish(request, session)

    def _finish(self, request: Request, session: Session) -> Done:
        bucket = session.bucket
        session.conditions.check(bucket.blobs.get(session.name))
        blob = self._holdings.make(session.name, bytes(session.received), **_described(session.about))
        check_hashes(blob, _claimed(request, session.about))
        description = describe(bucket, blob)

        def finish() -> None:
            storing(bucket, blob)()
            session.finished = description
            session.received = bytearray()

        return said(description), finish


def _incomplete(session: Session) -> Reply:
    held = len(session.received)
    return Reply(308, (("Range", f"bytes=0-{held - 1}"),) if held else ())


def _described(about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "content_type": about.get("contentType"),
        "content_encoding": about.get("contentEncoding"),
        "metadata": about.get("metadata"),
    }


def _claimed(request: Request, about: Mapping[str, Any]) -> dict[str, str]:
    claimed = parse_hashes(request.headers.get("x-goog-hash"))
    for name, member in (("crc32c", "crc32c"), ("md5", "md5Hash")):
        if about.get(member):
            claimed.setdefault(name, about[member])
    return claimed


def split_related(request: Request) -> tuple[dict[str, Any], bytes]:
    """Return description and data of a `multipart/related` body; line ends may lack their CR, as gcsfs sends them.

    Raises:
        Refusal: it has no two parts.
    """
    boundary = request.headers.get("content-type", "").partition("boundary=")[2].strip().strip("\"'").encode()
    body = request.body
    first = body.find(b"--" + boundary)
    second = body.find(b"\n--" + boundary, first + 1)
    last = body.rfind(b"\n--" + boundary + b"--")
    if not boundary or first < 0 or second < 0 or last <= second:
        raise Refusal(400, "badContent", "Malformed multipart body.")
    about = _content(body[first:second])
    data = _content(body[second + 1 : last])
    declared = re.search(rb"content-type:\s*([^\r\n]+)", body[second + 1 : second + 400], re.IGNORECASE)
    described: dict[str, Any] = json.loads(about)
    if declared is not None:
        described.setdefault("contentType", declared[1].decode("latin-1").strip())
    return described, data


def _content(part: bytes) -> bytes:
    """Return the content after a part's empty line, without the CR of the boundary's line end."""
    for gap in (b"\r\n\r\n", b"\n\n"):
        at = part.find(gap, 0, 2000)
        if at >= 0:
            content = part[at + len(gap) :]
            return content.removesuffix(b"\r") if gap == b"\r\n\r\n" else content
    raise Refusal(400, "badContent", "Malformed multipart body.")
