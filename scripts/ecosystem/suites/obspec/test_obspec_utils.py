"""Stores of obstore behind the wrappers of obspec-utils keep aiozarr's store contract."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from obspec_utils.stores import AiohttpStore
from obspec_utils.wrappers import CachingReadableStore, RequestTrace, SplittingReadableStore, TracingReadableStore
from obstore.store import LocalStore, MemoryStore

import aiozarr
from aiozarr.integrations.obspec import from_obspec
from aiozarr.stores import Store
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS

VALUES = np.arange(40 * 30, dtype="i4").reshape(40, 30)


class WrappedConformance(StoreConformance):
    """The suite over a wrapper of obstore's store in memory."""

    # obstore refuses control characters.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if key.isprintable() or "\u2028" in key)
    many_keys: ClassVar[int] = 150
    big_bytes: ClassVar[int] = 3 << 20
    pickles: ClassVar[bool] = False

    def wrapped(self, store: Any) -> Any:
        raise NotImplementedError

    async def make_store(self) -> Store:
        store = from_obspec(self.wrapped(MemoryStore()))
        assert await store.probe_conditional_writes()
        return store


class TestTracing(WrappedConformance):
    """Requests are recorded."""

    def wrapped(self, store: Any) -> Any:
        return TracingReadableStore(store, RequestTrace())


class TestSplitting(WrappedConformance):
    """Large objects are read in parts."""

    def wrapped(self, store: Any) -> Any:
        return SplittingReadableStore(store, request_size=1 << 20)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    aiozarr.sync.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(5, 4), shards=(20, 12))
    array = aiozarr.sync.create_array(tmp_path / "b.zarr", shape=VALUES.shape, dtype="i4", chunks=(20, 15))
    array[:20] = VALUES[:20]
    return tmp_path


@pytest.fixture
def url(stored: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(stored))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def check_reads(store: Any) -> None:
    array = await aiozarr.open_array(store, "a.zarr")
    np.testing.assert_array_equal(await array[3:17, ::7], VALUES[3:17, ::7])
    # Chunks that are not stored are filled.
    array = await aiozarr.open_array(store, "b.zarr")
    np.testing.assert_array_equal(await array[...], np.where(np.arange(40)[:, None] < 20, VALUES, 0))


async def test_a_cache_is_read(stored: Path) -> None:
    await check_reads(CachingReadableStore(LocalStore(stored)))


async def test_a_web_server_is_read_by_aiohttp(url: str) -> None:
    await check_reads(AiohttpStore(url))
