"""An object server of our own, for machines without nginx: files below a folder, with latency, in one Python process.

    python -m benchmarks.python_server FOLDER SECONDS

It prints its URL and lives as long as its standard input is open. Being Python, it is slower than the fastest readers:
with it, figures of small objects are those of the server.
"""

from __future__ import annotations

import asyncio
import re
import sys
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchmarks.server_status import STATUS

_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")


class Files:
    """The files below a folder, as answers to requests; counts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self.requests = 0

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        self.requests += 1
        path = unquote(urlsplit(target).path)
        if path == STATUS:
            return 200, {}, f"server accepts handled requests\n 1 1 {self.requests}\n".encode()
        file = (self._folder / path.lstrip("/")).resolve()
        if not file.is_relative_to(self._folder):
            return 403, {}, b""
        if method == "PUT":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
            return 201, {"ETag": etag(file)}, b""
        if method == "DELETE":
            file.unlink(missing_ok=True)
            return 204, {}, b""
        if method not in ("GET", "HEAD"):
            return 405, {}, b""
        try:
            data = file.read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return 404, {}, b""
        tag = etag(file)
        if headers.get("if-match", tag) not in (tag, "*"):
            return 412, {}, b""
        about = {"ETag": tag, "Last-Modified": formatdate(file.stat().st_mtime, usegmt=True), "Accept-Ranges": "bytes"}
        wanted = _RANGE.match(headers.get("range", ""))
        if wanted is None:
            return 200, about, data
        first, last = span(wanted[1], wanted[2], len(data))
        if first >= len(data):
            return 416, {**about, "Content-Range": f"bytes */{len(data)}"}, b""
        return 206, {**about, "Content-Range": f"bytes {first}-{last}/{len(data)}"}, data[first : last + 1]


def span(first: str, last: str, size: int) -> tuple[int, int]:
    """Return the first and the last byte of a range of an object of `size` bytes, from the numbers in its header."""
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(size - 1, int(last) if last else size - 1)


def etag(file: Path) -> str:
    """Return a version made of time and size, as nginx makes it."""
    status = file.stat()
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


class Connection(asyncio.Protocol):
    """One connection: requests one after the other, each answered after the latency."""

    def __init__(self, files: Files, latency: float) -> None:
        self._files, self._latency = files, latency
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        while True:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            first, *lines = self._received[:end].decode("latin-1").split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            stop = end + 4 + int(headers.get("content-length", 0))
            if len(self._received) < stop:
                return
            body = bytes(self._received[end + 4 : stop])
            del self._received[:stop]
            method, target, _ = first.split(" ", 2)
            delay = 0.0 if target == STATUS else self._latency
            asyncio.get_running_loop().call_later(delay, self._answer, method, target, headers, body)

    def _answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        if self._transport is None:
            return
        status, about, data = self._files.answer(method, target, headers, body)
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in about.items()]
        if status != HTTPStatus.NO_CONTENT:
            lines.append(f"Content-Length: {len(data)}")
        self._transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if method != "HEAD":
            self._transport.write(data)


async def serve(folder: Path, latency: float) -> None:
    """Serve until standard input ends."""
    files, loop = Files(folder), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(files, latency), "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
