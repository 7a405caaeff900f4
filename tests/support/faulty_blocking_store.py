"""A blocking store whose calls fail by plan: its requests run in the worker threads, as those of memory and disk do."""

from __future__ import annotations

import copy
import threading
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import contextmanager

from typing_extensions import Buffer

from aiozarr.stores import BlockingStore, ByteRange, Entry, Precondition, Value, Version
from aiozarr.testing.faults import Call, Hang, LoseResponse, Plan


class FaultyBlockingStore(BlockingStore):
    """A store around a blocking store. A call that hangs ends once its caller was told to cancel the operation.

    Attributes:
        calls: every call, in the order in which they started.
        faults: the plan of faults; `Delay` and `Corrupt` are not among them.
    """

    def __init__(self, store: BlockingStore) -> None:
        self.store = store
        self.supports = store.supports
        self.calls: list[Call] = []
        self.faults: Plan | None = None
        self._process = object()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self.store.url

    @property
    def identity(self) -> Hashable:
        return (FaultyBlockingStore, self._process, self.store.identity)

    def object_identity(self, key: str) -> Hashable:
        return (FaultyBlockingStore, self._process, self.store.object_identity(key))

    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        with self._call("fetch", key):
            return self.store.fetch_now(key, range, if_match=if_match, max_bytes=max_bytes)

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        with self._call("set", key):
            return self.store.set_now(key, value, precondition=precondition)

    def erase_now(self, key: str) -> None:
        with self._call("erase", key):
            self.store.erase_now(key)

    def erase_if_match_now(self, key: str, version: Version) -> None:
        with self._call("erase", key):
            self.store.erase_if_match_now(key, version)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        with self._call("list", prefix):
            entries = [entry async for entry in self.store.scan(prefix)]
        for entry in entries:
            yield entry

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        with self._call("list", prefix):
            return await self.store.list_dir(prefix)

    async def aclose(self) -> None:
        """Leave the inner store open."""

    @contextmanager
    def _call(self, operation: str, key: str) -> Iterator[None]:
        with self._lock:
            call = Call(len(self.calls) + 1, operation, key, None, 0.0)
            self.calls.append(call)
        action = None if self.faults is None else self.faults(call)
        try:
            if isinstance(action, Exception):
                raise copy.copy(action)
            if isinstance(action, Hang) and not action.takes_effect:
                action.called()
            yield
            if isinstance(action, Hang) and action.takes_effect:
                action.called()
            if isinstance(action, LoseResponse):
                raise copy.copy(action.error)
        except BaseException as error:
            call.error = error
            raise
        finally:
            call.ended = 0.0
