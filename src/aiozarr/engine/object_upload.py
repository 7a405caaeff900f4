"""The upload of one object in parts, each of which is a request of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from aiozarr.common.concurrency import map_concurrently
from aiozarr.errors import StoreError
from aiozarr.model import Precondition, Version
from aiozarr.stores.blocking import undone_on_failure
from aiozarr.stores.capabilities import UploadedPart, UploadStore

if TYPE_CHECKING:
    from aiozarr.http1.request import BodyReader

T = TypeVar("T")


class RunUploadRequest(Protocol):
    """Schedules and repeats one request of `upload_in_parts`."""

    def __call__(self, send: Callable[[int], Awaitable[T]], nbytes: int = 0) -> Awaitable[T]:
        """Await `send(attempt)`, which sends `nbytes` bytes, when there is room for a request.

        It is called again if it fails and may be repeated. Attempts count from 1.
        """
        ...


async def upload_in_parts(
    store: UploadStore,
    key: str,
    body: BodyReader,
    part_bytes: int,
    run_request: RunUploadRequest,
    precondition: Precondition | None = None,
    *,
    concurrency: int,
) -> Version | None:
    """Store one object in parts, whole or not at all. Parts that were stored are removed if the upload fails.

    Each attempt of a request reads its bytes again.

    Args:
        store: the store of the object.
        key: the object.
        body: its bytes.
        part_bytes: the size of the parts; the last one may be smaller.
        run_request: schedules one request.
        precondition: the condition of the request that makes the object of its parts.
        concurrency: the parts that are uploaded at a time.

    Returns: the version of the object, or None if the store reports none.

    Raises:
        PreconditionFailedError: `precondition` does not hold when all parts are stored.
    """
    upload_id = await run_request(lambda _: store._begin_parts(key))

    async def upload_part(number: int) -> UploadedPart:
        start = number * part_bytes
        part = body.part(start, min(part_bytes, body.nbytes - start))
        return await run_request(lambda _: store._upload_part(key, upload_id, number, part), part.nbytes)

    async def complete(attempt: int) -> Version | None:
        try:
            return await store._complete_parts(key, upload_id, parts, precondition=precondition)
        except StoreError as error:
            # An earlier attempt may have succeeded and its response been lost: the upload is gone then.
            is_gone = error.status == 404 and not error.retryable  # a proxy's 404 says nothing of the upload
            stored = await store.stat(key) if attempt > 1 and is_gone else None
            if stored is None or stored.size != body.nbytes:
                raise
            with suppress(StoreError):
                await store._abort_parts(key, upload_id)  # removes the record of the upload
            return stored.version

    async with undone_on_failure(lambda: store._abort_parts(key, upload_id)):
        parts = await map_concurrently(upload_part, range(-(-body.nbytes // part_bytes)), concurrency=concurrency)
        return await run_request(complete)
