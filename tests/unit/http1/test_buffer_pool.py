"""Memory for bodies: whose it is, when it is used again, how much is held."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from aiozarr.http1 import buffer_pool
from aiozarr.http1.buffer_pool import MAX_BLOCK_BYTES, MAX_POOLED_BYTES, MIN_BLOCK_BYTES, BufferPool

SIZE = 100_000


def place(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).ctypes.data
    return address


@pytest.mark.parametrize(
    "size", [0, 1, MIN_BLOCK_BYTES - 1, MIN_BLOCK_BYTES, SIZE, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES + 1]
)
def test_a_body_has_the_bytes_that_were_asked_for(size: int) -> None:
    bodies = BufferPool()
    view = bodies.take(size)
    assert (view.nbytes, view.format, view.readonly) == (size, "B", False)
    view[:] = bytes(size)


def test_unreferenced_memory_is_reused() -> None:
    bodies = BufferPool()
    view = bodies.take(SIZE)
    first = place(view)
    assert bodies.free_bytes == 0
    del view
    assert SIZE <= bodies.free_bytes <= SIZE * 1.07
    again = bodies.take(SIZE - 100)  # sizes that differ little share blocks
    assert place(again) == first
    assert bodies.free_bytes == 0


def test_memory_that_any_view_references_is_not_reused() -> None:
    bodies = BufferPool()
    view = bodies.take(SIZE)
    seen = [
        lambda view: view[5:10],
        lambda view: np.frombuffer(view, np.uint8)[50:],
        lambda view: view[8:].toreadonly().cast("B"),
        lambda view: memoryview(np.frombuffer(view[: 4 * 1000], "<f4").reshape(10, 100)[3]),
    ]
    for see in seen:
        view = bodies.take(SIZE)
        view[:] = b"\x07" * SIZE
        kept = see(view)
        del view
        others = [bodies.take(SIZE) for _ in range(3)]
        for other in others:
            other[:] = bytes(SIZE)
        assert set(bytes(kept)) == {7}
        del kept, others, other
        assert bodies.free_bytes > 0


def test_the_pooled_memory_is_bounded() -> None:
    bodies = BufferPool()
    for count, size in ((1600, SIZE), (40, MAX_BLOCK_BYTES), (1400, 50_000), (4000, MIN_BLOCK_BYTES)):
        views = [bodies.take(size) for _ in range(count)]
        assert len({place(view) for view in views}) == count
        del views
        assert MAX_POOLED_BYTES - MAX_BLOCK_BYTES < bodies.free_bytes <= MAX_POOLED_BYTES


def test_unused_memory_is_freed() -> None:
    bodies = BufferPool()
    view = bodies.take(SIZE)
    bodies.sweep()  # asked for since the last one
    del view
    assert bodies.free_bytes > 0
    bodies.sweep()
    assert bodies.free_bytes == 0
    # None of it counts as held any more.
    views = [bodies.take(SIZE) for _ in range(800)]
    del views
    assert bodies.free_bytes > MAX_POOLED_BYTES - MAX_BLOCK_BYTES


def test_cleared_memory_does_not_return_to_the_pool() -> None:
    bodies = BufferPool()
    kept, gone = bodies.take(SIZE), bodies.take(SIZE)
    kept[:] = b"\x07" * SIZE
    del gone
    bodies.clear()
    other = bodies.take(SIZE)
    other[:] = bytes(SIZE)
    assert set(bytes(kept)) == {7}
    del kept
    assert bodies.free_bytes == 0
    del other
    assert bodies.free_bytes > 0


def test_bodies_are_released_in_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "MAX_POOLED_BYTES", 40 * SIZE)
    bodies = BufferPool()
    wrong: list[int] = []

    def use(views: list[memoryview], mark: int) -> None:
        for view in views:
            view[:] = bytes([mark]) * SIZE
        wrong.extend(mark for view in views if set(bytes(view)) != {mark})
        views.clear()

    for turn in range(20):
        shares = [[bodies.take(SIZE) for _ in range(10)] for _ in range(4)]
        threads = [threading.Thread(target=use, args=(share, turn * 4 + number)) for number, share in enumerate(shares)]
        del shares
        for thread in threads:
            thread.start()
        spare = [bodies.take(SIZE) for _ in range(10)]
        for thread in threads:
            thread.join()
        del threads, thread, spare
    assert not wrong
    assert 0 < bodies.free_bytes <= 40 * SIZE
