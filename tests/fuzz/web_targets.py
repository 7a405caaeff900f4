"""Responses of HTTP servers and of three clouds: mutated heads, bodies and listings, which arrive in random pieces."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, TypeAlias

import aiozarr
from aiozarr.stores import HTTPStore, IfAbsent, ObjectStore, Range, Store, Suffix
from tests.fuzz.mutate import JsonMutator, cut, decoded, mutated_bytes, mutated_xml
from tests.fuzz.target import Target
from tests.fuzz.watchdog import allowed
from tests.support.remote_arrays import document

Response: TypeAlias = list[bytes]
"""The pieces of a response, each sent when the client had time to read the one before."""

SECONDS = 0.25
"""For `idle_timeout`: a response may announce more than it has."""


class RawServer:
    """A server in the same loop, which sends prepared bytes as the response to each request.

    Attributes:
        responses: what it sends, in turn; the last one for all further requests.
        respond: returns what it sends instead, for the head of a request.
    """

    def __init__(self, respond: Callable[[bytes], Response] | None = None) -> None:
        self.responses: Sequence[Response] = [[b""]]
        self.respond = respond
        self._number = 0
        self.url = ""

    def begin(self, responses: Sequence[Response]) -> None:
        """Send these responses from now on."""
        self.responses, self._number = responses, 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[RawServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    await reader.readexactly(int(line.partition(b":")[2]))
            pieces = self.responses[min(self._number, len(self.responses) - 1)]
            if self.respond is not None:
                pieces = self.respond(head)
            self._number += 1
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        # Every response ends with its connection, so that none is a part of the next one.
        with suppress(OSError):
            writer.close()


BODY = bytes(range(256)) * 3
_STATUSES = [b"200 OK", b"206 Partial Content", b"404 Not Found", b"301 Moved", b"302", b"304 Not Modified", b"403 No"]
_STATUSES += [
    b"412 Failed",
    b"416 Range",
    b"429 Slow",
    b"500 Oops",
    b"503 Busy",
    b"100 Continue",
    b"204 None",
    b"999 x",
    b"2",
]
_HEADERS = [
    *(b"Content-Length: %d" % number for number in (0, 1, 767, 768, 769, 10**6, 2**31, 2**63, 2**64, 10**30)),
    *(
        b"Content-Length: " + value
        for value in (b"-1", b"+768", b"0x300", b"768, 768", b"768,1", b"", b" 7 68", b"\xb2")
    ),
    *(
        b"Content-Range: bytes " + value
        for value in (b"0-767/768", b"5-14/768", b"0-9/*", b"*/768", b"9-5/768", b"0-1/1")
    ),
    *(
        b"Content-Range: " + value
        for value in (b"", b"bytes", b"bytes 5-/768", b"items 0-1/2", b"bytes 0-99999999999999/5")
    ),
    *(
        b"Transfer-Encoding: " + value
        for value in (b"chunked", b"gzip, chunked", b"identity", b"chunked, chunked", b"x")
    ),
    *(b"Content-Encoding: " + value for value in (b"gzip", b"identity", b"br", b"gzip, gzip")),
    *(b"ETag: " + value for value in (b'"x"', b'W/"x"', b"x", b'"', b'"\xff"', b'"' + b"e" * 9000 + b'"')),
    *(
        b"Location: " + value
        for value in (b"/a", b"//", b"file:///etc/passwd", b"http://169.254.169.254/", b"http://[", b"")
    ),
    *(
        b"Retry-After: " + value
        for value in (b"0", b"-1", b"99999999999", b"x", b"Wed, 21 Oct 2999 07:28:00 GMT", b"1e999")
    ),
    *(
        b"Last-Modified: x",
        b"Connection: close",
        b"Connection: keep-alive",
        b"Content-Type: text/html",
        b"x-ms-version: 1",
    ),
    *(
        b"x-goog-hash: crc32c=AAAAAA==,md5=x",
        b"x-goog-generation: 1e9",
        b"x-amz-checksum-crc32c: AAAA",
        b"Date: yesterday",
    ),
    *(
        b"X: " + b"y" * 70_000,
        b": nothing",
        b"no colon",
        b" folded: line",
        b"A\0: b",
        b"Date: Wed, 99 Foo 0000 25:61:61 GMT",
    ),
]


def response(rng: Random, body: bytes, *, changes: int) -> Response:
    """Return a response in pieces, with so many changes to its head and its framing."""
    lines = [b"HTTP/1.1 200 OK", b'ETag: "x"', b"Content-Type: application/octet-stream"]
    if rng.randrange(3) == 0:
        lines.append(b"Transfer-Encoding: chunked")
        size = rng.choice([1, 100, 768, 5000])
        parts = [body[at : at + size] for at in range(0, len(body), size)] if size > 1 else [body[:1], body[1:]]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"
    else:
        lines.append(b"Content-Length: %d" % len(body))
    for _ in range(changes):
        match rng.randrange(8):
            case 0 | 1:
                lines[0] = b"HTTP/1.%d %s" % (rng.choice([1, 1, 1, 0, 9]), rng.choice(_STATUSES))
            case 2 | 3:
                lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(_HEADERS))
            case 4 if len(lines) > 1:
                del lines[rng.randrange(len(lines))]
            case 5:
                lines = [line for line in lines if rng.randrange(4)] or [b""]
            case 6:
                body = mutated_bytes(rng, body)
            case _:
                at = rng.randrange(len(lines))
                lines[at] = mutated_bytes(rng, lines[at])
    data = b"\r\n".join([*lines, b"", b""]) + body
    if changes and rng.randrange(10) == 0:
        data = mutated_bytes(rng, data)
    if changes and rng.randrange(20) == 0:
        data = b"HTTP/1.1 100 Continue\r\n\r\n" * rng.choice([1, 3, 9000]) + data
    return cut(rng, data)


class Http(Target):
    """Responses of a web server to reads. One that is only cut into pieces is read as it is."""

    name = "http"
    quick = 80

    async def prepare(self) -> None:
        self._server = await self.resources.enter_async_context(RawServer().listening())

    def draw(self, rng: Random) -> tuple[list[Response], int]:
        count = rng.choice([1, 1, 2, 3])
        if rng.randrange(6) == 0:
            return [response(rng, BODY, changes=0)], 0
        kind = rng.randrange(1, 8)
        body = json.dumps(document()).encode() if kind == 7 else BODY
        return [response(rng, body, changes=rng.choice([1, 1, 2, 4])) for _ in range(count)], kind

    async def run(self, value: tuple[list[Response], int]) -> None:
        responses, kind = value
        self._server.begin(responses)
        if kind == 7:
            settings = aiozarr.Settings(idle_timeout=SECONDS, retry_seconds=0.05)
            opened = await allowed(aiozarr.open_array(f"{self._server.url}/a", settings=settings))
            if isinstance(opened, aiozarr.Array):
                await opened.aclose()
            return
        # A response that is only cut must be read however slow the machine is.
        async with HTTPStore(self._server.url, idle_timeout=SECONDS if kind else 20.0) as store:
            match kind:
                case 0:
                    got = await store.fetch("key")
                    assert got is not None
                    assert bytes(got.data) == BODY
                case 1 | 2:
                    await allowed(store.fetch("key"))
                case 3:
                    await allowed(store.fetch("key", Range(5, 10)))
                case 4:
                    await allowed(store.fetch("key", Suffix(10)))
                case 5:
                    await allowed(store.stat("key"))
                case _:
                    await allowed(store.fetch("key", Range(0, 10), max_bytes=10))


S3_PAGE = (
    b"<?xml version='1.0'?><ListBucketResult><IsTruncated>true</IsTruncated>"
    b"<NextContinuationToken>t</NextContinuationToken>"
    b"<Contents><Key>root/a/b</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag>"
    b"<Size>0</Size></Contents><Contents><Key>root/a/c%2B</Key><ETag>x</ETag><Size>12</Size></Contents>"
    b"<CommonPrefixes><Prefix>root/d/</Prefix></CommonPrefixes></ListBucketResult>"
)
S3_ERROR = (
    b"<Error><Code>SlowDown</Code><Message>Words</Message><RequestId>1</RequestId><Region>eu-west-1</Region></Error>"
)
AZURE_PAGE = (
    b"<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs><Blob><Name>root/a/b</Name><Properties>"
    b"<Content-Length>1</Content-Length><Etag>0x8D</Etag></Properties></Blob><Blob>"
    b"<Name Encoded='true'>root/%C3%BC</Name><Properties><Content-Length>7</Content-Length></Properties></Blob>"
    b"<BlobPrefix><Name>root/d/</Name></BlobPrefix></Blobs><NextMarker>m</NextMarker></EnumerationResults>"
)
AZURE_ERROR = b"<?xml version='1.0'?><Error><Code>BlobNotFound</Code><Message>Words\nRequestId:1</Message></Error>"
GCS_PAGE: dict[str, Any] = {
    "kind": "storage#objects",
    "nextPageToken": "t",
    "prefixes": ["root/d/"],
    "items": [{"name": "root/a/b", "size": "12", "generation": "5", "etag": "x", "crc32c": "AAAAAA=="}],
}
GCS_ERROR = {"error": {"code": 503, "message": "Words", "errors": [{"reason": "backendError", "domain": "global"}]}}
MAX_ENTRIES = 3000


class Listings(Target):
    """Listings and error documents of S3, Google Cloud Storage and Azure, as responses to each kind of request."""

    name = "listings"
    quick = 80

    async def prepare(self) -> None:
        self._server = await self.resources.enter_async_context(RawServer().listening())
        self._json = [decoded(json.dumps(each)) for each in (GCS_PAGE, GCS_ERROR)]
        self._mutator = JsonMutator(self._json)

    def draw(self, rng: Random) -> tuple[str, list[Response], int]:
        cloud = rng.choice(["s3", "gs", "az"])
        responses = [self._response(rng, cloud) for _ in range(rng.choice([1, 2, 2]))]
        return cloud, responses, rng.getrandbits(32)

    def _response(self, rng: Random, cloud: str) -> Response:
        is_error = rng.randrange(3) == 0
        if cloud == "gs":
            body = self._mutator.text(rng, self._json[is_error])
        else:
            pages = [S3_PAGE, S3_ERROR] if cloud == "s3" else [AZURE_PAGE, AZURE_ERROR]
            body = mutated_xml(rng, pages[is_error])
        status = rng.choice(_STATUSES) if is_error else b"200 OK"
        lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body)]
        if rng.randrange(6) == 0:
            lines.append(rng.choice(_HEADERS))
        return cut(rng, b"\r\n".join([*lines, b"", b""]) + body)

    async def run(self, value: tuple[str, list[Response], int]) -> None:
        cloud, responses, ways = value
        self._server.begin(responses)
        async with self._store(cloud) as store:
            match ways % 8:
                case 0 | 1 | 2:
                    await allowed(self._scan(store))
                case 3:
                    listed = await allowed(store.list_dir("a/" if ways & 8 else ""))
                    if not isinstance(listed, BaseException):
                        _check_keys([*listed[0], *(prefix[:-1] for prefix in listed[1])])
                case 4:
                    await allowed(store.fetch("a/b"))
                case 5:
                    await allowed(store.set("a/b", b"x", precondition=IfAbsent() if ways & 8 else None))
                case 6:
                    await allowed(store.erase("a/b") if ways & 8 else store._copy_from(store, "a/b", "a/c", size=4))
                case _:
                    await allowed(store.stat("a/b"))

    async def _scan(self, store: Store) -> None:
        keys = []
        async for entry in store.scan():
            keys.append(entry.key)
            if len(keys) > MAX_ENTRIES:
                break
        _check_keys(keys)

    def _store(self, cloud: str) -> ObjectStore:
        return _store_of(cloud, self._server.url, SECONDS)


def _store_of(cloud: str, url: str, idle_timeout: float) -> ObjectStore:
    options: dict[str, Any] = {"idle_timeout": idle_timeout, "endpoint_url": url}
    if cloud == "s3":
        return ObjectStore("s3://bucket/root", key="k", secret="s", region="us-east-1", **options)
    if cloud == "gs":
        return ObjectStore("gs://bucket/root", anon=True, **options)
    options["endpoint_url"] += "/account"
    return ObjectStore("az://container/root", account_key=base64.b64encode(b"key").decode(), **options)


def _check_keys(keys: list[str]) -> None:
    """Check that no key of a listing leads out of the store."""
    for key in keys:
        assert not {"", ".", ".."} & set(key.split("/")), f"a listing names the key {key!r}"


_TOKEN = re.compile(rb"[?&](?:continuation-token|pageToken|marker)=(\d+)")
_GROUP = json.dumps({"zarr_format": 3, "node_type": "group"}).encode()


class Pages(Target):
    """Listings of several pages. Some are empty or fail once; some listings go in a circle, or never end."""

    name = "pages"
    quick = 12
    cpu_seconds = 20.0

    async def prepare(self) -> None:
        self._server = await self.resources.enter_async_context(RawServer(self._respond).listening())

    def draw(self, rng: Random) -> tuple[str, list[int], set[int], str]:
        """Return the cloud, the number of names on each page, the pages that fail once, and what follows the last."""
        counts = [rng.choice([0, 1, 2]) for _ in range(rng.randrange(1, 6))]
        failing = {number for number in range(len(counts)) if rng.randrange(6) == 0}
        ends = ["end", "end", "end", "end", "circle", "circle"]
        return rng.choice(["s3", "gs", "az"]), counts, failing, rng.choice([*ends * 2, "never"])

    async def run(self, value: tuple[str, list[int], set[int], str]) -> None:
        self._cloud, self._counts, failing, self._end = value
        self._failing, self._requests = {*failing}, [0] * len(self._counts)
        async with _store_of(self._cloud, self._server.url, 20.0) as store:
            listed = await allowed(self._names(store))
        if self._end != "end":
            assert isinstance(listed, aiozarr.StoreError), f"a listing without an end gave {listed}"
            return
        names = [f"n{page}-{number}" for page, count in enumerate(self._counts) for number in range(count)]
        assert listed == names, f"the listing of {names} gave {listed!r}"
        expected = [1 + (number in failing) for number in range(len(self._counts))]
        assert self._requests == expected, f"the pages were requested {self._requests} times"

    async def _names(self, store: Store) -> list[str]:
        group = await aiozarr.open_group(store)
        return sorted([name async for name, _ in group.members()])

    def _respond(self, head: bytes) -> Response:
        line = head.partition(b"\r\n")[0]
        if not any(word in line for word in (b"list-type", b"comp=list", b"/o?")):
            return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(_GROUP) + _GROUP]
        token = _TOKEN.search(line)
        number = int(token[1]) if token else 0
        if number < len(self._counts):
            self._requests[number] += 1
        if number in self._failing:
            self._failing.remove(number)
            return [b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"]
        body = self._page(number).encode()
        return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body]

    def _page(self, number: int) -> str:
        count = self._counts[number] if number < len(self._counts) else 0
        prefixes = [f"root/n{number}-{each}/" for each in range(count)]
        follows = {"end": "", "circle": "0", "never": str(number + 1)}[self._end]
        token = str(number + 1) if number + 1 < len(self._counts) else follows
        if self._cloud == "gs":
            return json.dumps({"prefixes": prefixes, **({"nextPageToken": token} if token else {})})
        if self._cloud == "s3":
            names = "".join(f"<CommonPrefixes><Prefix>{each}</Prefix></CommonPrefixes>" for each in prefixes)
            more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            return f"<ListBucketResult>{more if token else ''}{names}</ListBucketResult>"
        names = "".join(f"<BlobPrefix><Name>{each}</Name></BlobPrefix>" for each in prefixes)
        return f"<EnumerationResults><Blobs>{names}</Blobs><NextMarker>{token}</NextMarker></EnumerationResults>"
