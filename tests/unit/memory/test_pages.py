"""Memory of new arrays."""

from __future__ import annotations

import mmap
import resource
import sys

import numpy as np
import pytest

from aiozarr.memory import HUGE_PAGE, LARGE, PIECE_BYTES, PagePrefaulter, empty, empty_bytes, pages

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is made present by a call of Linux")


def faults_of_filling(array: np.ndarray) -> int:
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    array.fill(1)
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def test_empty_arrays_of_all_sizes_equal_those_of_numpy() -> None:
    for shape, dtype in (((), "i4"), ((0, 3), "f8"), ((LARGE // 4 + 3,), "i4"), ((3, 5), object), (LARGE, "u1")):
        array = empty(shape, dtype)
        assert (array.shape, array.dtype) == (np.empty(shape, dtype).shape, np.dtype(dtype))
        assert array.flags.c_contiguous
        assert array.flags.owndata


def test_objects_begin_as_none_also_in_large_arrays() -> None:
    assert empty(LARGE // 8 + 1, object)[-1] is None


def test_prefaulting_does_not_change_written_memory() -> None:
    array = empty((3 * PIECE_BYTES,), "u1")
    array[::4096] = 7
    presence = PagePrefaulter(array)
    while (populate := presence.next()) is not None:
        populate()
    assert (array[::4096] == 7).all()


def test_an_array_smaller_than_a_huge_page_has_no_pieces() -> None:
    assert PagePrefaulter(empty((HUGE_PAGE - 1,), "u1")).next() is None


@linux
def test_prefaulted_memory_is_filled_without_page_faults() -> None:
    # Straight from the system: an allocator hands out again what others have filled.
    untouched, present = (np.frombuffer(mmap.mmap(-1, 2 * PIECE_BYTES), np.uint8) for _ in range(2))
    presence = PagePrefaulter(present)
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
def test_small_pages_follow_a_slow_huge_page(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    clock = iter(range(100))
    monkeypatch.setattr(pages, "thread_time", lambda: next(clock))
    monkeypatch.setattr(pages, "_advise", lambda _, length, advice: asked.append((length, advice)) or 0)
    populate = PagePrefaulter(np.empty(PIECE_BYTES + HUGE_PAGE, np.uint8)).next()
    assert populate is not None
    populate()
    assert asked == [(HUGE_PAGE, 14), (HUGE_PAGE, 23), (PIECE_BYTES - HUGE_PAGE, 23)]


@linux
def test_a_kernel_without_populate_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_advise", lambda _, __, advice: -1 if advice == 23 else 0)
    presence = PagePrefaulter(np.empty(3 * PIECE_BYTES, np.uint8))
    populate = presence.next()
    assert populate is not None
    populate()
    assert presence.next() is None


@pytest.mark.parametrize("nbytes", [0, 1, 1000, LARGE + 5, pages.VERY_LARGE + 7])
def test_bytes_without_numpy_are_writable_and_as_many_as_asked_for(nbytes: int) -> None:
    view = empty_bytes(nbytes)
    assert (view.nbytes, view.format, view.ndim, view.readonly) == (nbytes, "B", 1, False)
    view[-3:] = b"abc"[: min(3, nbytes)]
    assert bytes(view[-3:]) == b"abc"[: min(3, nbytes)]
