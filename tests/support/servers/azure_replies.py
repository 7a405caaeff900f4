"""A container of Azure as a `FaultServer` plays it, and stores of that container."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from aiozarr.stores import ObjectStore
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 100


KEY = base64.b64encode(b"s-hidden").decode()


PLACE = "acct/data/root/"


def refusal(status: int, code: str, words: str = "Words", **headers: str) -> Reply:
    """Return an error response as Azure sends it."""
    body = f"<Error><Code>{code}</Code><Message>{words}\nRequestId:1\nTime:2</Message></Error>".encode()
    return Reply(status, (), body).with_headers(x_ms_error_code=code, x_ms_request_id="r-1", **headers)


def azure(request: Request, reply: Reply) -> Reply:
    """Turn what any server would say into what Azure says."""
    if request.headers.get("range", "").startswith("bytes=-"):
        return refusal(400, "InvalidHeaderValue")
    if reply.status == 404:
        return refusal(404, "BlobNotFound")
    if reply.status == 412 and request.headers.get("if-none-match") == "*":
        return refusal(409, "BlobAlreadyExists")
    if reply.status == 412:
        return refusal(412, "ConditionNotMet")
    if reply.status == 416:
        return refusal(416, "InvalidRange", Content_Range=dict(reply.headers)["Content-Range"])
    return reply.with_headers(x_ms_request_id="r-1")


class AzureServer(FaultServer):
    """A server that also lists containers, stores blocks, and makes blobs of them.

    Attributes:
        blocks: the blocks that belong to no blob yet, by the path of the blob and their name.
    """

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects, script=azure)
        self.blocks: dict[tuple[str, str], bytes] = {}

    def _answer(self, request: Request) -> Reply:
        query = parse_qs(urlsplit(request.target).query, keep_blank_values=True)
        operation = query.get("comp")
        if operation == ["list"]:
            reply = self._listing(request.key, {name: values[0] for name, values in query.items()})
            return reply if self.script in (None, azure) else self.script(request, reply)
        if request.method == "PUT" and operation == ["block"]:
            assert self.script is not None
            reply = self.script(request, Reply(201))
            if reply.status < 300:
                self.blocks[request.key, query["blockid"][0]] = request.body
            return reply
        if operation == ["blocklist"]:
            names = [(request.key, name.decode()) for name in re.findall(rb"<Latest>(.*?)</Latest>", request.body)]
            if not all(name in self.blocks for name in names):
                return refusal(400, "InvalidBlockList")
            request = replace(request, body=b"".join([self.blocks[name] for name in names]))
            reply = super()._answer(request)
            if reply.status < 300:
                self.blocks = {name: block for name, block in self.blocks.items() if name[0] != request.key}
            return reply
        return super()._answer(request)

    def _listing(self, container: str, query: dict[str, str]) -> Reply:
        """Return a page: blobs, prefixes, and of accounts with a hierarchical namespace a folder, which is no value."""
        prefix, delimiter, marker = (query.get(name, "") for name in ("prefix", "delimiter", "marker"))
        skip = len(container) + 1
        found: dict[str, str] = {}  # each name or prefix once, in order, with its element
        for key, stored in self._objects.items():
            name = key[skip:]
            if not key.startswith(f"{container}/{prefix}"):
                continue
            folder, inside, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if inside:
                folder = f"{prefix}{folder}{delimiter}"
                found.setdefault(folder, f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>")
            else:
                found[name] = _blob(name, len(stored.data), stored.etag or "", "file")
        found[f"{prefix}folder"] = _blob(f"{prefix}folder", 0, "0x1", "directory")
        names = [name for name in sorted(found) if name >= marker]
        limit = int(query.get("maxresults", "5000"))
        rest = escape(names[limit]) if len(names) > limit else ""
        blobs = "".join([found[name] for name in names[:limit]])
        body = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{rest}</NextMarker></EnumerationResults>"
        return Reply(200, (("Content-Type", "application/xml"),), body.encode())


def _blob(name: str, size: int, etag: str, kind: str) -> str:
    """Return an element of a page, which has no quotes around an ETag."""
    tag = etag.strip('"')
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties><Etag>{tag}</Etag><ResourceType>{kind}</ResourceType>"
        f"<Content-Length>{size}</Content-Length></Properties></Blob>"
    )


def at(server: FaultServer, url: str = "az://data/root", **options: Any) -> ObjectStore:
    """Return a store of the server's container."""
    if not {"anon", "sas_token", "token", "credential"} & options.keys():
        options["account_key"] = KEY
    return ObjectStore(url, endpoint_url=f"{server.url}/acct", **options)
