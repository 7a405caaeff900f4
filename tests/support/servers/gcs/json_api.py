"""The JSON API of the Google Cloud Storage fake: buckets, objects, listings, copies and batches of deletes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from tests.support.servers.gcs.objects import (
    Blob,
    Bucket,
    Conditions,
    Effect,
    Holdings,
    Refusal,
    list_page,
    removing,
    storing,
)
from tests.support.servers.gcs.reading import serve
from tests.support.servers.gcs.xml_api import iso
from tests.support.servers.http_replies import Reply, Request

_JSON = ("Content-Type", "application/json; charset=UTF-8")
_REASONS = {400: "invalid", 401: "required", 403: "forbidden", 404: "notFound", 409: "conflict", 412: "conditionNotMet"}
_INNER = re.compile(rb"^(GET|DELETE|PATCH) (?:https?://[^/\s]+)?(\S+)", re.MULTILINE)
Done = tuple[Reply, Effect | None]


class JsonApi:
    """Handles the requests of gcsfs, except uploads."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings

    def answer(self, request: Request) -> Done:
        """Return the reply, and the change that takes effect with it.

        Raises:
            Refusal: the request is not done.
        """
        path, _, raw_query = request.target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        if path.startswith("/batch/"):
            return self._batch(request)
        names = [unquote(part) for part in path.removeprefix("/download").removeprefix("/storage/v1/b").split("/")[1:]]
        match names:
            case []:
                return self._buckets(request)
            case [bucket]:
                return self._one_bucket(request, bucket)
            case [bucket, "o"] if request.method == "GET":
                return _list(self._holdings.bucket(bucket), query), None
            case [bucket, "o", name]:
                return self._object(request, self._holdings.bucket(bucket), name, query)
            case [bucket, "o", name, "compose"] if request.method == "POST":
                return self._compose(request, self._holdings.bucket(bucket), name, query)
            case [bucket, "o", name, "rewriteTo" | "copyTo" as verb, "b", target, "o", new]:
                source = _existing(self._holdings.bucket(bucket), name)
                return self._copy(self._holdings.bucket(target), new, source, query, rewrite=verb == "rewriteTo")
        raise Refusal(404, "notFound", "Not Found")

    # --- buckets -------------------------------------------------------------------------------------------------

    def _buckets(self, request: Request) -> Done:
        buckets = self._holdings.buckets
        if request.method == "GET":
            return said({"kind": "storage#buckets", "items": [_about_bucket(name) for name in sorted(buckets)]}), None
        name = json.loads(request.body)["name"]
        if name in buckets:
            raise Refusal(409, "conflict", "Your previous request to create the named bucket succeeded.")
        return said(_about_bucket(name)), lambda: self._holdings.create(name)

    def _one_bucket(self, request: Request, name: str) -> Done:
        bucket = self._holdings.bucket(name)
        if request.method != "DELETE":
            return said(_about_bucket(name)), None
        if bucket.blobs:
            raise Refusal(409, "conflict", "The bucket you tried to delete is not empty.")
        return Reply(204), lambda: drop(self._holdings.buckets, name)

    # --- objects -------------------------------------------------------------------------------------------------

    def _object(self, request: Request, bucket: Bucket, name: str, query: Mapping[str, str]) -> Done:
        blob = _existing(bucket, name)
        if query.get("generation") not in (None, str(blob.generation)):
            raise _missing(bucket, name)
        conditions = query_conditions(query)
        match request.method:
            case "GET":
                conditions.check(blob, reading=True)
                if query.get("alt") == "media":
                    return serve(request, blob, xml=False), None
                return said(_only(describe(bucket, blob), query.get("fields"))), None
            case "DELETE":
                conditions.check(blob)
                return Reply(204), removing(bucket, name)
            case "PATCH" | "PUT":
                conditions.check(blob)
                given = json.loads(request.body or b"{}")
                changed = replace(
                    blob,
                    metageneration=blob.metageneration + 1,
                    metadata={**blob.metadata, **(given.get("metadata") or {})},
                    content_type=given.get("contentType", blob.content_type),
                    content_encoding=given.get("contentEncoding", blob.content_encoding),
                )
                return said(describe(bucket, changed)), storing(bucket, changed)
        raise Refusal(405, "methodNotAllowed", "Method not allowed")

    def _copy(self, bucket: Bucket, name: str, source: Blob, query: Mapping[str, str], *, rewrite: bool) -> Done:
        query_conditions(query).check(bucket.blobs.get(name))
        if query.get("ifSourceGenerationMatch", str(source.generation)) != str(source.generation):
            raise Refusal(412, "conditionNotMet", "The source has another generation.")
        blob = self._holdings.make(
            name,
            source.data,
            content_type=source.content_type,
            content_encoding=source.content_encoding,
            metadata=source.metadata,
        )
        told: Any = describe(bucket, blob)
        if rewrite:
            size = str(len(blob.data))
            told = {
                "kind": "storage#rewriteResponse",
                "done": True,
                "objectSize": size,
                "totalBytesRewritten": size,
                "resource": told,
            }
        return said(told), storing(bucket, blob)

    def _compose(self, request: Request, bucket: Bucket, name: str, query: Mapping[str, str]) -> Done:
        query_conditions(query).check(bucket.blobs.get(name))
        given = json.loads(request.body)
        data = b"".join(_existing(bucket, source["name"]).data for source in given["sourceObjects"])
        blob = self._holdings.make(name, data, composite=True)
        return said(describe(bucket, blob)), storing(bucket, blob)

    def _batch(self, request: Request) -> Done:
        effects: list[Effect] = []
        answers = []
        inner = _INNER.findall(request.body)
        if len(inner) > 100:
            raise Refusal(400, "badRequest", "The batch request could not be processed: too many parts.")
        for number, (method, target) in enumerate(inner, 1):
            try:
                reply, effect = self.answer(replace(request, method=method.decode(), target=target.decode(), body=b""))
            except Refusal as refusal:
                reply, effect = refuse(refusal), None
            if effect is not None:
                effects.append(effect)
            answers.append(
                f"--batch_of_answers\r\nContent-Type: application/http\r\nContent-ID: <response-{number}>\r\n\r\n"
                f"HTTP/1.1 {reply.status} Said\r\nContent-Type: application/json\r\n\r\n{reply.body.decode()}\r\n"
            )

        def apply() -> None:
            for effect in effects:
                effect()

        body = "".join(answers) + "--batch_of_answers--"
        return Reply(200, (("Content-Type", "multipart/mixed; boundary=batch_of_answers"),), body.encode()), apply


def refuse(refusal: Refusal) -> Reply:
    """Return a refusal in the words of this API."""
    if refusal.status == 304:
        return Reply(304)
    reason = _REASONS.get(refusal.status, refusal.code)
    message = {"message": refusal.message, "domain": "global", "reason": reason}
    error = {"code": refusal.status, "message": refusal.message, "errors": [message]}
    return Reply(refusal.status, (_JSON,), json.dumps({"error": error}).encode())


def describe(bucket: Bucket, blob: Blob) -> dict[str, Any]:
    """Return the resource that describes an object. Numbers of 64 bits are strings, as everywhere in this API."""
    path = f"b/{bucket.name}/o/{quote(blob.name, safe='')}"
    found = {
        "kind": "storage#object",
        "id": f"{bucket.name}/{blob.name}/{blob.generation}",
        "selfLink": f"{bucket.base}/storage/v1/{path}",
        "mediaLink": f"{bucket.base}/download/storage/v1/{path}?generation={blob.generation}&alt=media",
        "name": blob.name,
        "bucket": bucket.name,
        "generation": str(blob.generation),
        "metageneration": str(blob.metageneration),
        "contentType": blob.content_type,
        "contentEncoding": blob.content_encoding,
        "storageClass": "STANDARD",
        "size": str(len(blob.data)),
        "md5Hash": blob.md5,
        "crc32c": blob.crc32c,
        "etag": blob.etag,
        "metadata": dict(blob.metadata) or None,
        "timeCreated": iso(blob.updated),
        "updated": iso(blob.updated),
    }
    return {name: value for name, value in found.items() if value is not None}


def query_conditions(query: Mapping[str, str]) -> Conditions:
    """Return the preconditions that the query of a request holds."""

    def number(name: str) -> int | None:
        value = query.get(name)
        return None if value is None else int(value)

    return Conditions(
        number("ifGenerationMatch"),
        number("ifGenerationNotMatch"),
        number("ifMetagenerationMatch"),
        number("ifMetagenerationNotMatch"),
    )


def drop(table: dict[str, Any], name: str) -> None:
    """Remove `name`, if it is there."""
    table.pop(name, None)


def _existing(bucket: Bucket, name: str) -> Blob:
    found = bucket.blobs.get(name)
    if found is None:
        raise _missing(bucket, name)
    return found


def _missing(bucket: Bucket, name: str) -> Refusal:
    return Refusal(404, "notFound", f"No such object: {bucket.name}/{name}")


def _list(bucket: Bucket, query: Mapping[str, str]) -> Reply:
    page = list_page(
        bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start=query.get("startOffset", ""),
        end=query.get("endOffset", ""),
        after=query.get("pageToken", ""),
        limit=max(1, min(int(query.get("maxResults", "1000")), 1000)),
        trailing=query.get("includeTrailingDelimiter") == "true",
    )
    told: dict[str, Any] = {"kind": "storage#objects"}
    if page.next is not None:
        told["nextPageToken"] = page.next
    if page.prefixes:
        told["prefixes"] = page.prefixes
    if page.blobs:
        inner = re.search(r"items\(([^)]*)\)", query.get("fields", ""))
        told["items"] = [_only(describe(bucket, blob), inner and inner[1]) for blob in page.blobs]
    fields = query.get("fields")
    if fields:
        outer = set(re.sub(r"\([^)]*\)", "", fields).split(","))
        told = {name: value for name, value in told.items() if name in outer}
    return said(told)


def _only(found: dict[str, Any], fields: str | None) -> dict[str, Any]:
    if not fields:
        return found
    return {name: value for name, value in found.items() if name in fields.split(",")}


def _about_bucket(name: str) -> dict[str, Any]:
    return {"kind": "storage#bucket", "id": name, "name": name, "location": "US", "storageClass": "STANDARD"}


def said(document: Any) -> Reply:
    """Return a document as the answer."""
    return Reply(200, (_JSON,), json.dumps(document, ensure_ascii=False).encode())
