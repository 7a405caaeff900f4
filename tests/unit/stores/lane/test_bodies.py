"""Memory for bodies: whose it is, when it is used again, how much is held."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from aiozarr.stores.lane import bodies as lane_bodies
from aiozarr.stores.lane.bodies import KEPT_BYTES, LEAST_BYTES, MOST_BYTES, Bodies

SIZE = 100_000


def place(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).ctypes.data
    return address


@pytest.mark.parametrize("size", [0, 1, LEAST_BYTES - 1, LEAST_BYTES, SIZE, MOST_BYTES, MOST_BYTES + 1])
def test_a_body_has_the_bytes_that_were_asked_for(size: int) -> None:
    bodies = Bodies()
    view = bodies.take(size)
    assert (view.nbytes, view.format, view.readonly) == (size, "B", False)
    view[:] = bytes(size)


def test_memory_that_nobody_refers_to_is_used_again() -> None:
    bodies = Bodies()
    view = bodies.take(SIZE)
    first = place(view)
    assert bodies.held == 0
    del view
    assert SIZE <= bodies.held <= SIZE * 1.07
    again = bodies.take(SIZE - 100)  # sizes that differ little share blocks
    assert place(again) == first
    assert bodies.held == 0


def test_memory_that_somebody_sees_in_any_way_is_not() -> None:
    bodies = Bodies()
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
        assert bodies.held > 0


def test_what_is_held_is_bounded_whatever_is_asked_for() -> None:
    bodies = Bodies()
    for count, size in ((400, SIZE), (40, MOST_BYTES), (300, 50_000), (1000, LEAST_BYTES)):
        views = [bodies.take(size) for _ in range(count)]
        assert len({place(view) for view in views}) == count
        del views
        assert KEPT_BYTES - MOST_BYTES < bodies.held <= KEPT_BYTES


def test_what_is_free_and_not_asked_for_is_let_go_of() -> None:
    bodies = Bodies()
    view = bodies.take(SIZE)
    bodies.sweep()  # asked for since the last one
    del view
    assert bodies.held > 0
    bodies.sweep()
    assert bodies.held == 0
    # None of it counts as held any more.
    views = [bodies.take(SIZE) for _ in range(400)]
    del views
    assert bodies.held > KEPT_BYTES - MOST_BYTES


def test_of_what_was_cleared_nothing_comes_back() -> None:
    bodies = Bodies()
    kept, gone = bodies.take(SIZE), bodies.take(SIZE)
    kept[:] = b"\x07" * SIZE
    del gone
    bodies.clear()
    other = bodies.take(SIZE)
    other[:] = bytes(SIZE)
    assert set(bytes(kept)) == {7}
    del kept
    assert bodies.held == 0
    del other
    assert bodies.held > 0


def test_bodies_are_let_go_of_in_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_bodies, "KEPT_BYTES", 40 * SIZE)
    bodies = Bodies()
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
    assert 0 < bodies.held <= 40 * SIZE
