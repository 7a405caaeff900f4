"""Memory of new arrays."""

from __future__ import annotations

import mmap
import resource
import sys

import numpy as np
import pytest

from aiozarr.memory import HUGE_PAGE, LARGE, PIECE, Presence, empty, pages

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is made present by a call of Linux")


def faults_of_filling(array: np.ndarray) -> int:
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    array.fill(1)
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def test_an_empty_array_is_as_numpys_whatever_its_size() -> None:
    for shape, dtype in (((), "i4"), ((0, 3), "f8"), ((LARGE // 4 + 3,), "i4"), ((3, 5), object), (LARGE, "u1")):
        array = empty(shape, dtype)
        assert (array.shape, array.dtype) == (np.empty(shape, dtype).shape, np.dtype(dtype))
        assert array.flags.c_contiguous
        assert array.flags.owndata


def test_objects_begin_as_none_also_in_large_arrays() -> None:
    assert empty(LARGE // 8 + 1, object)[-1] is None


def test_what_was_written_stays_while_memory_is_made_present() -> None:
    array = empty((3 * PIECE,), "u1")
    array[::4096] = 7
    presence = Presence(array)
    while (populate := presence.next()) is not None:
        populate()
    assert (array[::4096] == 7).all()


def test_an_array_smaller_than_a_huge_page_has_no_pieces() -> None:
    assert Presence(empty((HUGE_PAGE - 1,), "u1")).next() is None


@linux
def test_memory_that_was_made_present_is_filled_without_page_faults() -> None:
    # Straight from the system: an allocator hands out again what others have filled.
    untouched, present = (np.frombuffer(mmap.mmap(-1, 2 * PIECE), np.uint8) for _ in range(2))
    presence = Presence(present)
    populate = presence.next()
    if populate is None:
        pytest.skip("this system's C library has no madvise")
    while populate is not None:
        populate()
        populate = presence.next()
    plain = faults_of_filling(untouched)
    made = faults_of_filling(present)
    # The ends that are no whole huge page are left to whoever writes to them.
    assert made <= 2 * HUGE_PAGE // 4096
    assert made < plain


@linux
def test_where_the_first_huge_page_is_dear_small_ones_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    clock = iter(range(100))
    monkeypatch.setattr(pages, "thread_time", lambda: next(clock))
    monkeypatch.setattr(pages, "_advise", lambda _, length, advice: asked.append((length, advice)) or 0)
    populate = Presence(np.empty(PIECE + HUGE_PAGE, np.uint8)).next()
    assert populate is not None
    populate()
    assert asked == [(HUGE_PAGE, 14), (HUGE_PAGE, 23), (PIECE - HUGE_PAGE, 23)]


@linux
def test_a_kernel_that_cannot_make_memory_present_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_advise", lambda _, __, advice: -1 if advice == 23 else 0)
    presence = Presence(np.empty(3 * PIECE, np.uint8))
    populate = presence.next()
    assert populate is not None
    populate()
    assert presence.next() is None
