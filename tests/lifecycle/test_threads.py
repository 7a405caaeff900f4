"""Threads that read, write and open the same arrays, while the interpreter switches between them as often as it can."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import aiozarr
from aiozarr import Settings, sync
from aiozarr.stores import MemoryStore

DATA = np.arange(1024).reshape(32, 32)
# Room for a few chunks: they are evicted while other threads copy from them.
CACHED = Settings(chunk_cache_bytes=8 << 10)


@pytest.fixture
def busy_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("busy_switching")
@pytest.mark.parametrize("shards", [None, (16, 16)])
def test_threads_share_arrays_caches_and_stores(shards: tuple[int, int] | None) -> None:
    store = MemoryStore()
    sync.create_array(store, "read", data=DATA, chunks=(8, 8), shards=shards)
    written = sync.create_array(store, "written", shape=DATA.shape, dtype="i8", chunks=(8, 8), shards=shards)

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        shared = sync.open_array(store, "read", settings=CACHED)
        for _ in range(12):
            row, column = chosen.randrange(30), chosen.randrange(30)
            window = np.s_[row : row + chosen.randrange(1, 9), column : column + chosen.randrange(1, 9)]
            with aiozarr.record() as report:
                assert np.array_equal(shared[window], DATA[window])
            assert report.chunks
            # Two threads may write one element, but never half of one, and no write of a neighbour is lost.
            written[window] = DATA[window] + 1024 * chosen.randrange(1, 9)
            assert np.array_equal(written[window] % 1024, DATA[window])
        asyncio.run(read_rows())

    async def read_rows() -> None:
        array = await aiozarr.open_array(store, "read", settings=CACHED)
        rows = await asyncio.gather(*[array[row] for row in range(0, 32, 4)])
        assert np.array_equal(rows, DATA[::4])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.parametrize(
    ("name", "module", "question"),
    [
        ("gevent", "gevent.monkey", "is_module_patched"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched"),
    ],
)
def test_threads_that_a_library_has_replaced_are_an_error_and_no_hang(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, question: str
) -> None:
    replaced: set[str] = set()
    array = sync.create_array(MemoryStore(), data=[1, 2])
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{question: replaced.__contains__}))
    for harmless in ("ssl", "socket"):
        replaced.add(harmless)
        assert array[...].sum() == 3
    for module_name in ("threading", "thread", "queue"):
        replaced.add(module_name)
        with pytest.raises(RuntimeError, match=f"cannot be used under {name}"):
            sync.create_array(MemoryStore(), data=[1, 2])
        with pytest.raises(RuntimeError, match=name):
            array[...]
        replaced.discard(module_name)
    assert array[...].sum() == 3
