"""A small Google Cloud Storage server for tests, with the parts of its two APIs that gcsfs, obstore and aiozarr use.

It keeps generations and their conditions, checks the hashes of uploads and tells those of objects, lists in pages,
takes resumable uploads, and can ask for tokens. A script can spoil every answer (`tests.support.servers.http_replies`):

    with GcsServer("bucket") as server:
        store = ObjectStore("gs://bucket/prefix", **server.storage_options)

A run as a process of its own, `python -m tests.support.servers.gcs_server bucket`, prints its URL and serves until its
standard input ends.
"""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.gcs import json_api, xml_api
from tests.support.servers.gcs.objects import Blob, Effect, Holdings, Refusal, storing
from tests.support.servers.gcs.reading import xml_error
from tests.support.servers.gcs.uploads import Uploads
from tests.support.servers.http_replies import Reply, Request, Script
from tests.support.servers.http_server import ScriptedServer


class GcsServer(ScriptedServer):
    """A server at `url`, for the length of a `with` block, with the counts of `ScriptedServer`.

    A write takes effect unless the script answers it with an error (`aiozarr.testing.http_replies.applied` says else).

    Attributes:
        tokens: bearer tokens that are accepted, or a function that accepts one, or None if requests need none.
        refused: tokens that are known, and allowed nothing (403).
        payer: the project that requests must name as the payer, or None.
        ignores_conditions: conditions of writes are not looked at, as with some other emulators.
        uploads: the resumable uploads under way, and how much of them is kept.
    """

    def __init__(
        self,
        *buckets: str,
        script: Script | None = None,
        latency: float = 0.0,
        tls: ssl.SSLContext | None = None,
        tokens: set[str] | Callable[[str], bool] | None = None,
    ) -> None:
        super().__init__(script=script, latency=latency, tls=tls)
        self.tokens = tokens
        self.refused: set[str] = set()
        self.payer: str | None = None
        self.ignores_conditions = False
        self._holdings = Holdings()
        self.uploads = Uploads(self._holdings)
        self._json = json_api.JsonApi(self._holdings)
        self._xml = xml_api.XmlApi(self._holdings)
        for bucket in buckets:
            self.create_bucket(bucket)

    # --- what it holds -------------------------------------------------------------------------------------------

    @property
    def storage_options(self) -> dict[str, str]:
        """The options with which a store gets here."""
        return {"endpoint_url": self.url}

    def create_bucket(self, name: str) -> None:
        """Create a bucket if it does not exist."""
        with self._lock:
            self._holdings.create(name)

    def put(
        self,
        bucket: str,
        key: str,
        data: bytes,
        *,
        content_type: str | None = None,
        content_encoding: str | None = None,
        composite: bool = False,
    ) -> str:
        """Store an object without a request, and return its generation."""
        with self._lock:
            blob = self._holdings.make(
                key, bytes(data), content_type=content_type, content_encoding=content_encoding, composite=composite
            )
            storing(self._holdings.bucket(bucket), blob)()
        return str(blob.generation)

    def remove(self, bucket: str, key: str) -> None:
        """Remove an object, if it is there."""
        with self._lock:
            self._holdings.bucket(bucket).blobs.pop(key, None)

    def get(self, bucket: str, key: str) -> bytes | None:
        """Return the bytes of an object."""
        found = self.blob(bucket, key)
        return None if found is None else found.data

    def blob(self, bucket: str, key: str) -> Blob | None:
        """Return an object."""
        return self._holdings.bucket(bucket).blobs.get(key)

    def keys(self, bucket: str) -> list[str]:
        """Return all keys of a bucket."""
        return sorted(self._holdings.bucket(bucket).blobs)

    def counts(self) -> Counter[str]:
        """Return how many requests of each method came so far."""
        return Counter(request.method for request in self.requests)

    # --- the answers ---------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> Reply:
        self._holdings.base = self.url
        with self._lock:
            reply, effect = self._judge(self._without_conditions(request) if self.ignores_conditions else request)
        honest_status = reply.status
        if self.script is not None:
            reply = self.script(request, reply)
        if effect is not None and (
            (reply.status == honest_status or reply.status < 300) if reply.applied is None else reply.applied
        ):
            with self._lock:
                effect()
        return reply

    def _judge(self, request: Request) -> tuple[Reply, Effect | None]:
        is_json = request.target.startswith(("/storage/v1/", "/upload/storage/v1/", "/download/storage/", "/batch/"))
        try:
            self._admit(request, is_json)
            if request.target.startswith("/upload/"):
                return self.uploads.answer(request, self.url)
            return self._json.answer(request) if is_json else self._xml.answer(request)
        except Refusal as refusal:
            if is_json:
                return json_api.refuse(refusal), None
            return xml_error(refusal.status, refusal.code, refusal.message), None

    def _admit(self, request: Request, is_json: bool) -> None:
        if "upload_id=" in request.target:
            return  # the address of a session is its own credential
        payers = (request.headers.get("x-goog-user-project"), _project_of(request.target))
        if self.payer is not None and self.payer not in payers:
            raise Refusal(400, "UserProjectMissing", "Bucket is a requester pays bucket but no user project provided.")
        if self.tokens is None:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not token:
            raise Refusal(401 if is_json else 403, "AccessDenied", "Anonymous caller does not have access.")
        if token in self.refused:
            raise Refusal(403, "AccessDenied", "The caller does not have access.")
        known = self.tokens(token) if callable(self.tokens) else token in self.tokens
        if scheme.lower() != "bearer" or not known:
            raise Refusal(401, "AuthenticationRequired", "Invalid Credentials")

    def _without_conditions(self, request: Request) -> Request:
        target, _, query = request.target.partition("?")
        kept = "&".join(part for part in query.split("&") if not part.startswith("if"))
        headers = {name: value for name, value in request.headers.items() if not name.startswith("x-goog-if-")}
        return Request(
            request.number,
            request.connection,
            request.method,
            f"{target}?{kept}" if kept else target,
            request.key,
            headers,
            request.body,
        )


def _project_of(target: str) -> str | None:
    for part in target.partition("?")[2].split("&"):
        name, _, value = part.partition("=")
        if name == "userProject":
            return value
    return None


@contextmanager
def gcs_process(*buckets: str) -> Iterator[dict[str, str]]:
    """Run a `GcsServer` in a process of its own, and yield the storage options that reach it.

    The server lives as long as its standard input is open, so it ends with its parent, whatever ends that.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *buckets],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the GCS server did not start")
        yield {"endpoint_url": url}
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def main() -> None:
    """Serve the buckets that the command line names, until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then closes the standard input
    with GcsServer(*sys.argv[1:]) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
