"""Signs URLs and caches them: a signed URL can be requested with any range and condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import AzureStore, S3Store

VALID_SECONDS = 3600
KEEP_SECONDS = 900
"""A URL is reused for this long: far less than its validity, for clocks that differ."""

KEPT_URLS = 1 << 14

_REPEATED = frozenset({"GET", "HEAD"})  # the same key is seldom written or removed twice


class Signer:
    """Signs URLs of one bucket or container.

    With fixed credentials, signing is arithmetic and done at once. Otherwise obstore may request new credentials, so
    all keys of one turn of the loop are signed in one task.
    """

    def __init__(self, client: S3Store | AzureStore, base: str, *, fixed: bool) -> None:
        self._client = client
        self._skip = len("/".join(base.split("/", 3)[:3]))  # a target begins after scheme and host
        self._fixed = fixed
        self._kept: dict[tuple[str, str], tuple[float, str]] = {}
        self._batches: dict[tuple[asyncio.AbstractEventLoop, str], _SigningBatch] = {}

    def kept(self, method: str, key: str) -> str | None:
        """Return path and query of a cached signed URL, or None."""
        kept = self._kept.get((method, key))
        return None if kept is None or kept[0] < time.monotonic() else kept[1]

    async def target(self, method: str, key: str) -> str:
        """Return path and query of a signed URL."""
        kept = self.kept(method, key)
        if kept is not None:
            return kept
        if self._fixed:
            import obstore

            url = obstore.sign(self._client, method, key, timedelta(seconds=VALID_SECONDS))  # type: ignore[call-overload]
        else:
            url = await self._sign_together(method, key)
        target: str = url[self._skip :]
        if len(self._kept) >= KEPT_URLS:
            self._kept.clear()
        if method in _REPEATED:
            self._kept[method, key] = (time.monotonic() + KEEP_SECONDS, target)
        return target

    def forget(self) -> None:
        """Discard the cached URLs, whose credentials have expired."""
        self._kept.clear()

    async def _sign_together(self, method: str, key: str) -> str:
        loop = asyncio.get_running_loop()
        batch = self._batches.get((loop, method))
        if batch is None:
            batch = self._batches[loop, method] = _SigningBatch(lambda keys: self._sign(method, keys))
            loop.call_soon(self._send, loop, method)
        return await batch.add(loop, key)

    def _send(self, loop: asyncio.AbstractEventLoop, method: str) -> None:
        self._batches.pop((loop, method)).send(loop)

    async def _sign(self, method: str, keys: Sequence[str]) -> Sequence[str]:
        import obstore

        return await obstore.sign_async(self._client, method, keys, timedelta(seconds=VALID_SECONDS))  # type: ignore[call-overload,no-any-return]


class _SigningBatch:
    """Keys that are signed together, and the futures of their URLs."""

    def __init__(self, sign: Callable[[Sequence[str]], Awaitable[Sequence[str]]]) -> None:
        self._sign = sign
        self._waiters: dict[str, list[asyncio.Future[str]]] = {}
        self._task: asyncio.Task[Any] | None = None

    def add(self, loop: asyncio.AbstractEventLoop, key: str) -> asyncio.Future[str]:
        waiter: asyncio.Future[str] = loop.create_future()
        self._waiters.setdefault(key, []).append(waiter)
        return waiter

    def send(self, loop: asyncio.AbstractEventLoop) -> None:
        for key in [key for key, waiters in self._waiters.items() if all(waiter.done() for waiter in waiters)]:
            del self._waiters[key]  # cancelled meanwhile
        if self._waiters:
            self._task = loop.create_task(self._run())
            for waiters in self._waiters.values():
                for waiter in waiters:
                    waiter.add_done_callback(self._stop_if_unused)

    def _stop_if_unused(self, waiter: asyncio.Future[str]) -> None:
        """Cancel the task when the last future was cancelled, so that no task remains."""
        if self._task is not None and all(waiter.done() for waiters in self._waiters.values() for waiter in waiters):
            self._task.cancel()

    async def _run(self) -> None:
        try:
            urls = await self._sign(list(self._waiters))
        except Exception as error:  # raised to the callers
            for waiters in self._waiters.values():
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_exception(error)
            return
        for waiters, url in zip(self._waiters.values(), urls, strict=True):
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(url)
