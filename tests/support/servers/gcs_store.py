"""Runs a use of a store in a bucket of the test's GCS server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiozarr.stores.bucket.store import ObjectStore
from tests.support.servers.gcs_server import GcsServer

T = TypeVar("T")


def run(server: GcsServer, use: Callable[[ObjectStore], Awaitable[T]], url: str = "gs://bucket", **options: Any) -> T:
    """Return what `use` returns in a loop of its own, which must leave no task."""

    async def main() -> T:
        async with ObjectStore(url, **server.storage_options, **options) as store:
            result = await use(store)
        assert len(asyncio.all_tasks()) == 1
        return result

    return asyncio.run(main())
