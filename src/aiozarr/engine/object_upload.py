"""The upload of one object in parts, each of which is a request of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from aiozarr.common.concurrency import map_concurrently
from aiozarr.errors import StoreError
from aiozarr.model import Precondition, Version
from aiozarr.stores.capabilities import UploadedPart, UploadStore

if TYPE_CHECKING:
    from aiozarr.http1.request import BodyReader

T = TypeVar("T")

ABORT_SECONDS = 5.0
"""The time for removing the parts of an upload that failed."""


class RunUploadRequest(Protocol):
    """Schedules and repeats one request of a `MultipartUpload`."""

    def __call__(self, send: Callable[[int], Awaitable[T]], nbytes: int = 0) -> Awaitable[T]:
        """Await `send(attempt)`, which sends `nbytes` bytes, when there is room for a request.

        It is called again if it fails and may be repeated. Attempts count from 1.
        """
        ...


class MultipartUpload:
    """Store one object in parts, whole or not at all. Parts that were stored are removed if the upload fails.

    Each attempt of a request reads its bytes anew.

    Args:
        store, key: the object.
        body: its bytes.
        part_bytes: the size of the parts; the last one may be smaller.
        run_request: schedules one request.
        concurrency: the parts that are uploaded at a time.
    """

    def __init__(
        self,
        store: UploadStore,
        key: str,
        body: BodyReader,
        part_bytes: int,
        run_request: RunUploadRequest,
        *,
        concurrency: int,
    ) -> None:
        self._store = store
        self._key = key
        self._body = body
        self._part_bytes = part_bytes
        self._run_request = run_request
        self._concurrency = concurrency

    async def upload(self, precondition: Precondition | None = None) -> Version | None:
        """Upload the object and return its version, or None if the store reports none.

        Raises:
            PreconditionFailedError: `precondition` does not hold when all parts are stored.
        """
        upload_id = await self._run_request(lambda _: self._store.begin_parts(self._key))
        try:
            return await self._upload_parts(upload_id, precondition)
        except BaseException:
            from anyio import move_on_after  # imported on use: few uploads fail

            with move_on_after(ABORT_SECONDS, shield=True), suppress(StoreError):
                await self._store.abort_parts(self._key, upload_id)
            raise

    async def _upload_parts(self, upload_id: str, precondition: Precondition | None) -> Version | None:
        store, key, body, part_bytes = self._store, self._key, self._body, self._part_bytes

        async def upload_part(number: int) -> UploadedPart:
            start = number * part_bytes
            part = body.part(start, min(part_bytes, body.nbytes - start))
            return await self._run_request(lambda _: store.upload_part(key, upload_id, number, part), part.nbytes)

        async def complete(attempt: int) -> Version | None:
            try:
                return await store.complete_parts(key, upload_id, parts, precondition=precondition)
            except StoreError as error:
                # An earlier attempt may have succeeded and its response been lost: the upload is gone then.
                stored = await store.stat(key) if attempt > 1 and error.status == 404 else None
                if stored is None or stored.size != body.nbytes:
                    raise
                return stored.version

        numbers = range(-(-body.nbytes // part_bytes))
        parts = await map_concurrently(upload_part, numbers, concurrency=self._concurrency)
        return await self._run_request(complete)
