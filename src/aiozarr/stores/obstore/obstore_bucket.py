"""Writes, deletes and lists by obstore, for the clouds that it has clients for."""

from __future__ import annotations

import atexit
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from aiozarr.concurrency import for_each
from aiozarr.errors import ForkedProcessError, StoreError, UnsupportedOperationError
from aiozarr.http1.pool import SLOWEST_BYTES_PER_SECOND
from aiozarr.http1.response_check import Expectation
from aiozarr.model import Entry, IfAbsent, Precondition, Version
from aiozarr.stores.object.bucket_client import PAGE_SIZE, BucketClient
from aiozarr.stores.object.listing import PaginationLoopGuard
from aiozarr.stores.obstore.errors import call, translated

if TYPE_CHECKING:
    from obstore.store import ClientConfig

T = TypeVar("T")

SINGLE_PUT_BYTES = 64 << 20
"""Larger values are uploaded in parts, unless a precondition needs a single request."""

PART_BYTES = 16 << 20
MAX_PARTS = 10_000

WORKERS = 16
"""Requests at once when keys are removed or checked one by one."""

_NOT_IN_BULK = frozenset({None, 200, 405, 500, 501})


class ObstoreBucketClient(BucketClient):
    """A bucket client that writes and lists by obstore.

    Attributes:
        idle_timeout: seconds without progress after which a request fails.
    """

    idle_timeout: float

    @abstractmethod
    async def _client(self) -> Any:
        """Return obstore's client."""

    @abstractmethod
    async def _lister(self) -> Any:
        """Return obstore's client for listings, which may be abandoned at any time.

        It lists only if obstore finds the credentials itself; otherwise the bucket client sends its own requests.
        """

    async def put(self, key: str, data: memoryview, precondition: Precondition | None) -> Version | None:
        import obstore

        mode = _mode(precondition)
        client = await self._client()
        result = await self._done(
            lambda: obstore.put_async(
                client,
                key,
                data,
                mode=mode,
                use_multipart=mode == "overwrite" and data.nbytes > SINGLE_PUT_BYTES,
                chunk_size=max(PART_BYTES, -(-data.nbytes // MAX_PARTS)),
            ),
            data.nbytes,
        )
        return _version(result["e_tag"])

    async def delete_many(self, keys: Sequence[str]) -> dict[str, StoreError]:
        try:
            await self._delete_together(keys)
        except StoreError as error:
            if not may_lack_bulk(error):
                raise
            # obstore raises one error for all keys; single deletes show which keys are left.
            return await self.delete_singly(keys, WORKERS)
        return {}

    async def _delete_together(self, keys: Sequence[str]) -> None:
        import obstore

        client = await self._client()
        await self._done(lambda: obstore.delete_async(client, list(keys)))

    async def pages(self, prefix: str) -> AsyncGenerator[Sequence[Entry], None]:
        import obstore

        client = await self._lister()
        with translated(None, None):
            # The request runs until the stream is dropped, and a traceback may hold frames and arguments.
            held = [obstore.list(client, prefix or None, chunk_size=PAGE_SIZE)]
        try:
            circle = PaginationLoopGuard()
            while (page := await self._done(lambda: anext(held[0], None))) is not None:
                _check_page(page, circle)
                entries = [_entry(found) for found in page if found["path"].startswith(prefix)]
                missing = await self._markers([entry.key for entry in entries if entry.size == 0])
                yield [entry for entry in entries if entry.key not in missing] if missing else entries
        finally:
            held.clear()

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        import obstore

        client = await self._client()
        found = await self._done(lambda: obstore.list_with_delimiter_async(client, prefix or None))
        objects = [entry for entry in found["objects"] if entry["path"].startswith(prefix)]
        missing = await self._markers([entry["path"] for entry in objects if entry["size"] == 0])
        keys = [entry["path"] for entry in objects if entry["path"] not in missing]
        return keys, [f"{name}/" for name in found["common_prefixes"]]

    async def _markers(self, empty: Sequence[str]) -> set[str]:
        """Return the keys that are listed and not stored.

        Other tools mark directories by empty objects whose keys end with a slash, which obstore strips.
        """
        missing: set[str] = set()

        async def check(key: str) -> None:
            if (await self.request("HEAD", key, Expectation(head=True))).status == 404:
                missing.add(key)

        await for_each(check, empty, concurrency=WORKERS)
        return missing

    async def _done(self, operation: Callable[[], Awaitable[T]], nbytes: int = 0) -> T:
        """Await an operation of obstore, for as long as `nbytes` may take."""
        seconds = self.idle_timeout * 2 + nbytes / SLOWEST_BYTES_PER_SECOND
        return await call(operation, seconds, None, None)


def may_lack_bulk(error: StoreError) -> bool:
    """Return whether a bulk delete failed for a reason that need not hold for deletes one by one."""
    return error.status in _NOT_IN_BULK and not (error.status is None and error.retryable)


def _check_page(page: Sequence[Mapping[str, Any]], circle: PaginationLoopGuard) -> None:
    names = {found["path"] for found in page}
    if len(names) < len(page):  # a loop may be shorter than a page
        raise StoreError("the server's listing goes in a circle")
    if page:
        circle.check(names, page[-1]["path"])


def _entry(found: Mapping[str, Any]) -> Entry:
    return Entry(found["path"], found["size"], _version(found["e_tag"]))


def _mode(precondition: Precondition | None) -> Any:
    """Return the precondition as obstore's mode."""
    match precondition:
        case None:
            return "overwrite"
        case IfAbsent():
            return "create"
        case _:
            version = precondition.version
            if version.weak or version.etag is None:
                raise UnsupportedOperationError("a weak version cannot be a condition")
            return {"e_tag": version.etag}


def _version(etag: str | None) -> Version | None:
    if not etag or etag == '""':  # some servers return none after a multipart upload
        return None
    return Version(etag if etag.endswith('"') else f'"{etag}"')


REQUEST_TIMEOUT = 86_400.0
"""Seconds for one request of obstore, longer than any takes. obstore does not measure progress. The caller knows how
many bytes are sent, and sets a limit accordingly."""

NO_RETRIES = 0
"""Only the scheduler retries."""


def client_options(*, secure: bool, connect_timeout: float, keep_alive: bool = True) -> ClientConfig:
    """Return the options of a client.

    A client for listings must not keep connections. An abandoned listing is dropped by Python, outside of obstore's
    threads. Its connection would return to the pool there, where obstore panics and becomes unusable.
    """
    options: ClientConfig = {
        "allow_http": not secure,
        "connect_timeout": f"{min(max(1, round(connect_timeout * 1000)), 86_400_000)} ms",
        "timeout": f"{REQUEST_TIMEOUT:g} s",
    }
    if not keep_alive:
        options["pool_max_idle_per_host"] = "0"
    return options


EXIT_PAUSE = 0.05
"""Seconds. obstore's threads release Python objects shortly after a call has ended. A thread that does so while the
interpreter shuts down aborts the process."""


class _Usage:
    """Whether obstore was used in this process, and whether in the parent before the fork."""

    used = False
    parent_used = False


def check_fork(url: str) -> None:
    """Record that obstore is used in this process.

    Raises:
        ForkedProcessError: it was used before this process was forked. Its threads do not exist here, so it would hang.
    """
    if _Usage.parent_used:
        raise ForkedProcessError(
            "the client library of object stores was used before this process was forked, and cannot be used after "
            "it: start the process with the 'spawn' or 'forkserver' method, or use such stores first in the child",
            store=url,
        )
    if not _Usage.used:
        _Usage.used = True
        atexit.register(time.sleep, EXIT_PAUSE)


def _after_fork() -> None:
    _Usage.parent_used = _Usage.parent_used or _Usage.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
