"""Stores that the tests of this folder work in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aiozarr.model import Entry, Supports, Value, Version
from aiozarr.stores import LocalStore, MemoryStore, Store

ALL = Supports(writable=True, listable=True, conditional_reads=True, conditional_writes=True)


class Remote(Store):
    """A store whose every operation waits, as one behind a network does; a test may look at each or interfere.

    Attributes:
        calls: (operation, key) of every call so far.
        hook: called with (operation, key) before each; what it raises is the operation's error.
        delay: seconds that each operation takes.
        begun: set when an operation begins.
        closed: how often the store was closed.
    """

    def __init__(self, supports: Supports = ALL) -> None:
        self.supports = supports
        self.held = MemoryStore()
        self.calls: list[tuple[str, str]] = []
        self.hook: Callable[[str, str], None] = lambda operation, key: None
        self.delay = 0.0
        self.begun = threading.Event()
        self.closed = 0

    @property
    def url(self) -> str:
        return "remote://held"

    async def _before(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        self.begun.set()
        self.hook(operation, key)
        await asyncio.sleep(self.delay)

    async def fetch(self, key: str, range: Any = None, *, if_match: Version | None = None) -> Value | None:
        await self._before("fetch", key)
        return await self.held.fetch(key, range, if_match=if_match)

    async def set(self, key: str, value: Any, *, precondition: Any = None) -> Version | None:
        await self._before("set", key)
        if precondition is not None and self.supports.conditional_writes is False:
            raise self._unsupported("set with a precondition")
        return await self.held.set(key, value, precondition=precondition)

    async def erase(self, key: str) -> None:
        await self._before("erase", key)
        await self.held.erase(key)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        if not self.supports.listable:
            raise self._unsupported("list")
        await self._before("scan", prefix)
        async for entry in self.held.scan(prefix):
            yield entry

    async def aclose(self) -> None:
        self.closed += 1


@pytest.fixture
def memory() -> MemoryStore:
    """An empty store in memory."""
    return MemoryStore()


@pytest.fixture
def remote() -> Remote:
    """An empty store that behaves like one behind a network."""
    return Remote()


@pytest.fixture
def remote_with() -> Callable[..., Remote]:
    """Makes a remote store whose `supports` differ from "everything" by the keywords."""
    from dataclasses import replace

    return lambda **changes: Remote(replace(ALL, **changes))


@pytest.fixture(params=["memory", "local", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store, of each kind that needs no server."""
    match request.param:
        case "memory":
            return MemoryStore()
        case "local":
            return LocalStore(tmp_path / "store")
        case _:
            return Remote()
