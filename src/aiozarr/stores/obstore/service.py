"""Writing, deleting and listing by obstore, for the services whose clients it has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.model import Entry, IfAbsent, Precondition, Version
from aiozarr.stores.lane import SLOWEST_BYTES_PER_SECOND, Want
from aiozarr.stores.object.circle import Circle
from aiozarr.stores.object.service import PAGE, Service
from aiozarr.stores.obstore.errors import call, translated
from aiozarr.stores.tasks import each_bounded

T = TypeVar("T")

SINGLE_PUT_BYTES = 64 << 20
"""Larger values go up in parts, unless a condition binds them into one request."""

PART_BYTES = 16 << 20
MAX_PARTS = 10_000

WORKERS = 16
"""Requests at once, where keys are removed or looked at one by one."""

_NOT_IN_BULK = frozenset({None, 200, 405, 500, 501})


class ObstoreService(Service):
    """A service that has clients of obstore.

    Attributes:
        idle_timeout: seconds without progress after which a request fails.
    """

    idle_timeout: float

    @abstractmethod
    async def _client(self) -> Any:
        """Return obstore's client."""

    @abstractmethod
    async def _lister(self) -> Any:
        """Return obstore's client for listings, which may be given up at any time.

        It lists only where the credentials are its own finding; all others list by their own requests.
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
            # The library tells one error for all; only one by one is it seen which keys are left.
            return await self.delete_singly(keys, WORKERS)
        return {}

    async def _delete_together(self, keys: Sequence[str]) -> None:
        import obstore

        client = await self._client()
        await self._done(lambda: obstore.delete_async(client, list(keys)))

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        import obstore

        client = await self._lister()
        with translated(None, None):
            # Its request is under way until the stream is dropped, and a traceback may keep frames and arguments.
            held = [obstore.list(client, prefix or None, chunk_size=PAGE)]
        try:
            circle = Circle()
            while (page := await self._done(lambda: anext(held[0], None))) is not None:
                _check_page(page, circle)
                entries = [_entry(found) for found in page if found["path"].startswith(prefix)]
                gone = await self._markers([entry.key for entry in entries if entry.size == 0])
                yield [entry for entry in entries if entry.key not in gone] if gone else entries
        finally:
            held.clear()

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        import obstore

        client = await self._client()
        found = await self._done(lambda: obstore.list_with_delimiter_async(client, prefix or None))
        objects = [entry for entry in found["objects"] if entry["path"].startswith(prefix)]
        gone = await self._markers([entry["path"] for entry in objects if entry["size"] == 0])
        keys = [entry["path"] for entry in objects if entry["path"] not in gone]
        return keys, [f"{name}/" for name in found["common_prefixes"]]

    async def _markers(self, empty: Sequence[str]) -> set[str]:
        """Return those of the keys that are not stored, though they are listed.

        Other tools mark directories by empty objects whose keys end with a slash, which the library drops.
        """
        gone: set[str] = set()

        async def look(key: str) -> None:
            if (await self.ask("HEAD", key, Want(head=True))).status == 404:
                gone.add(key)

        await each_bounded(look, empty, width=WORKERS)
        return gone

    async def _done(self, operation: Callable[[], Awaitable[T]], nbytes: int = 0) -> T:
        """Await an operation of the client library for as long as it may take."""
        seconds = self.idle_timeout * 2 + nbytes / SLOWEST_BYTES_PER_SECOND
        return await call(operation, seconds, None, None)


def may_lack_bulk(error: StoreError) -> bool:
    """Return whether a bulk delete failed for a reason that need not hold for deletes one by one."""
    return error.status in _NOT_IN_BULK and not (error.status is None and error.retryable)


def _check_page(page: Sequence[Mapping[str, Any]], circle: Circle) -> None:
    names = {found["path"] for found in page}
    if len(names) < len(page):  # a circle may be shorter than a page
        raise StoreError("the server's listing goes in a circle")
    if page:
        circle.check(names, page[-1]["path"])


def _entry(found: Mapping[str, Any]) -> Entry:
    return Entry(found["path"], found["size"], _version(found["e_tag"]))


def _mode(precondition: Precondition | None) -> Any:
    """Return the condition in the client library's words."""
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
    if not etag or etag == '""':  # some servers tell none after an upload in parts
        return None
    return Version(etag if etag.endswith('"') else f'"{etag}"')
