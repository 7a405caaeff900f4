"""Memory of new arrays."""

from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from aiozarr import memory
from aiozarr.memory import (
    HUGE_PAGE,
    LARGE,
    MAX_PENDING_UNMAP_BYTES,
    PIECE_BYTES,
    VERY_LARGE,
    PagePrefaulter,
    empty,
    empty_bytes,
    owner_of,
    releaser,
)

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
    monkeypatch.setattr(memory, "thread_time", lambda: next(clock))
    monkeypatch.setattr(memory, "_advise", lambda _, length, advice: asked.append((length, advice)) or 0)
    populate = PagePrefaulter(np.empty(PIECE_BYTES + HUGE_PAGE, np.uint8)).next()
    assert populate is not None
    populate()
    assert asked == [(HUGE_PAGE, 14), (HUGE_PAGE, 23), (PIECE_BYTES - HUGE_PAGE, 23)]


@linux
def test_a_kernel_without_populate_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_advise", lambda _, __, advice: -1 if advice == 23 else 0)
    presence = PagePrefaulter(np.empty(3 * PIECE_BYTES, np.uint8))
    populate = presence.next()
    assert populate is not None
    populate()
    assert presence.next() is None


@pytest.mark.parametrize("nbytes", [0, 1, 1000, LARGE + 5, VERY_LARGE + 7])
def test_bytes_without_numpy_are_writable_and_as_many_as_asked_for(nbytes: int) -> None:
    view = empty_bytes(nbytes)
    assert (view.nbytes, view.format, view.ndim, view.readonly) == (nbytes, "B", 1, False)
    view[-3:] = b"abc"[: min(3, nbytes)]
    assert bytes(view[-3:]) == b"abc"[: min(3, nbytes)]


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only the pages of Linux are looked after")


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def wait_for(condition: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.005)
    return False


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blocks that the thread has deallocated or is about to."""
    assert wait_for(lambda: not releaser._pending)
    sizes: list[int] = []

    class Pending(dict[int, mmap.mmap]):
        def pop(self, key: int, default: Any = None) -> Any:
            block = super().pop(key, default)
            if block is not None and threading.current_thread().name == "aiozarr-memory":
                sizes.append(len(block))
            return block

    monkeypatch.setattr(releaser, "_pending", Pending())
    return sizes


class HeldQueue(SimpleQueue[Any]):
    """A queue whose items wait until the test lets the thread have them."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self.held.append(item)

    def let_go(self, target: SimpleQueue[Any]) -> None:
        while self.held:
            target.put(self.held.pop(0))


def is_mapped(address: int, nbytes: int) -> bool:
    """Return whether the process has memory in the middle of this."""
    at = address + nbytes // 2
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, stop = (int(end, 16) for end in line.split()[0].split("-"))
        if start <= at < stop:
            return True
    return False


def test_the_thread_returns_the_memory(released: list[int]) -> None:
    first, second = empty((VERY_LARGE // 8,), "f8"), empty(VERY_LARGE + 1, "u1")
    first[:] = 1
    address = first.ctypes.data
    assert names().count("aiozarr-memory") == 1
    del first
    assert wait_for(lambda: released == [VERY_LARGE])
    assert wait_for(lambda: not is_mapped(address, VERY_LARGE))
    del second
    assert wait_for(lambda: released == [VERY_LARGE, VERY_LARGE + 1])
    assert names().count("aiozarr-memory") == 1


def test_the_memory_that_waits_for_the_thread_is_bounded(released: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    queue, held = releaser._queue, HeldQueue()
    monkeypatch.setattr(releaser, "_queue", held)
    large = empty(MAX_PENDING_UNMAP_BYTES, "u1")
    others = [empty(VERY_LARGE, "u1") for _ in range(3)]
    addresses = [each.ctypes.data for each in others]
    del large
    others.clear()  # the thread has enough to do
    assert not any(is_mapped(address, VERY_LARGE) for address in addresses)
    assert len(held.held) == 1
    held.let_go(queue)
    assert wait_for(lambda: released == [MAX_PENDING_UNMAP_BYTES])
    monkeypatch.setattr(releaser, "_queue", queue)
    assert empty(VERY_LARGE, "u1").nbytes  # and then there is room again
    assert wait_for(lambda: released == [MAX_PENDING_UNMAP_BYTES, VERY_LARGE])


def test_the_pages_of_blocks_of_any_size_are_returned(released: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    advise, returned = memory._advise, list[int]()
    assert advise is not None

    def counted(address: int, nbytes: int, advice: int) -> int:
        failed = advise(address, nbytes, advice)
        if advice == mmap.MADV_DONTNEED and not failed:
            returned.append(nbytes)
        return failed

    monkeypatch.setattr(memory, "_advise", counted)
    monkeypatch.setattr(memory, "MAX_PENDING_UNMAP_BYTES", VERY_LARGE + 1000)
    array = empty(2 * VERY_LARGE + 5, "u1")
    del array  # this thread returns what is above the limit
    assert returned[0] == VERY_LARGE + 5
    assert wait_for(lambda: released == [2 * VERY_LARGE + 5])
    assert sum(returned[1:]) == 2 * VERY_LARGE + 5


def test_a_waiting_block_is_reused_for_the_next_array_of_its_size(
    released: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped: list[int] = []
    new_mmap = mmap.mmap

    def counted(fileno: int, length: int, **options: int) -> mmap.mmap:
        mapped.append(length)
        return new_mmap(fileno, length, **options)

    queue, held = releaser._queue, HeldQueue()
    monkeypatch.setattr(releaser, "_queue", held)
    monkeypatch.setattr("aiozarr.memory.mmap.mmap", counted)
    result = None
    for value in range(5):
        array = empty(VERY_LARGE, "u1")
        array[::4096] = value
        assert result is None or (result[::4096] == value - 1).all()  # two arrays at a time
        result = array
        del array
    assert mapped == [VERY_LARGE] * 2
    other = empty(VERY_LARGE + 1, "u1")
    assert mapped == [VERY_LARGE] * 2 + [VERY_LARGE + 1]
    assert len(other) == VERY_LARGE + 1
    # The thread comes across blocks that are in use again, and leaves them alone.
    assert result is not None
    assert len(held.held) == 4
    held.let_go(queue)
    assert wait_for(lambda: released == [VERY_LARGE])
    assert (result[::4096] == 4).all()
    monkeypatch.setattr(releaser, "_queue", queue)
    del result, other
    assert wait_for(lambda: sorted(released) == [VERY_LARGE] * 2 + [VERY_LARGE + 1])


def test_a_block_that_is_being_returned_is_reused_without_losing_what_is_written_then(
    released: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    advise, begun = memory._advise, threading.Event()
    assert advise is not None

    def slowly(address: int, nbytes: int, advice: int) -> int:
        if advice == mmap.MADV_DONTNEED:
            begun.set()
            time.sleep(0.05)
        return advise(address, nbytes, advice)

    monkeypatch.setattr(memory, "_advise", slowly)
    array = empty(VERY_LARGE, "u1")
    address = array.ctypes.data
    del array
    assert begun.wait(10)
    array = empty(VERY_LARGE, "u1")  # waits for the piece that the thread is at
    assert array.ctypes.data == address
    array[:] = 7
    time.sleep(0.2)
    assert (array == 7).all()
    assert not released
    del array
    assert wait_for(lambda: released == [VERY_LARGE])


@pytest.mark.parametrize(
    "look",
    [
        lambda array: array[3:7],
        lambda array: array.reshape(-1, 2)[1:, ::-1].T,
        memoryview,
        lambda array: array.view("u1"),
        lambda array: memoryview(array.base),
        lambda array: np.frombuffer(array.base, "i4"),
    ],
    ids=["slice", "strides", "memoryview", "type", "base", "buffer-of-base"],
)
def test_every_view_keeps_the_memory(look: Callable[[np.ndarray], Any], released: list[int]) -> None:
    array = empty(VERY_LARGE // 4, "i4")
    array[:] = np.arange(len(array), dtype="i4")
    expected = np.array(look(array)).tobytes()
    view = look(array)
    del array
    gc.collect()
    time.sleep(0.05)
    assert not released
    assert np.array(view).tobytes() == expected
    del view
    assert wait_for(lambda: bool(released))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (VERY_LARGE, np.dtype("u1")),
        ((VERY_LARGE // 16, 2), "f8"),
        ([1024, VERY_LARGE // 1024], bool),
        ((VERY_LARGE // 32,), "U8"),
        ((VERY_LARGE // 8,), "M8[ns]"),
        ((VERY_LARGE // 8,), [("a", ">i4"), ("b", "f4")]),
        ((VERY_LARGE // 24, 1), "(2,3)i4"),
        ((VERY_LARGE // 8,), object),
        ((0, VERY_LARGE), "u1"),
        (np.int64(VERY_LARGE), "u1"),
    ],
)
def test_it_behaves_like_an_array_of_numpy(shape: Any, dtype: Any) -> None:
    array, expected = empty(shape, dtype), np.empty(shape, dtype)
    assert type(array) is np.ndarray
    assert (array.shape, array.strides, array.dtype) == (expected.shape, expected.strides, expected.dtype)
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.flags.aligned


def test_the_owner_of_a_view_covers_the_whole_memory() -> None:
    for nbytes in (8, VERY_LARGE):
        array = empty(nbytes // 4, "i4")
        for view in (array, array[1:], array.reshape(2, -1).T):
            owner = owner_of(view)
            assert (owner.ctypes.data, owner.nbytes) == (array.ctypes.data, nbytes)


def test_a_finalizer_in_a_cycle_still_reads_the_memory(released: list[int]) -> None:
    class Last:
        def __del__(self) -> None:
            time.sleep(0.1)
            words.append(bytes(self.view[:3]))

    words: list[bytes] = []
    looks = (lambda a: a, lambda a: a.base, memoryview, lambda a: memoryview(a.base), lambda a: a.base.base)
    for look in looks:
        array = empty(VERY_LARGE, "u1")
        array[:] = 7
        last: Any = Last()
        last.me, last.view = last, look(array)
        del array, last
        gc.collect()
    assert words == [b"\7\7\7"] * 5


def test_a_block_in_a_cycle_is_left_to_other_finalizers(released: list[int]) -> None:
    class Last:
        def __del__(self) -> None:
            time.sleep(0.1)
            words.append(bytes(self.block[:3]))

    words: list[bytes] = []
    for _ in range(3):
        array = empty(VERY_LARGE, "u1")
        array[:] = 7
        last: Any = Last()
        last.me, last.block = last, array.base.base.obj
        last.block.last = last
        address = array.ctypes.data
        del array, last
        gc.collect()
        assert not is_mapped(address, VERY_LARGE)
    assert words == [b"\7\7\7"] * 3
    assert not released


def test_memory_that_is_dropped_deep_in_a_recursion_is_returned() -> None:
    def deep(arrays: list[Any]) -> None:
        try:
            deep(arrays)
        except RecursionError:
            arrays.clear()

    arrays = [empty(VERY_LARGE, "u1") for _ in range(2)]
    addresses = [array.ctypes.data for array in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pytest.PytestUnraisableExceptionWarning)
        deep(arrays)
        gc.collect()
    assert wait_for(lambda: not any(is_mapped(address, VERY_LARGE) for address in addresses))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_memory_is_returned_when_a_signal_interrupts(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    seen = list[int]()

    class Interrupted(HeldQueue):
        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            raise error

    monkeypatch.setattr(releaser, "_queue", Interrupted())
    monkeypatch.setattr(releaser, "_pending", {})
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # pytest's keeps the traceback, and with it the block
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        array = empty(VERY_LARGE, "u1")
        address = array.ctypes.data
        del array
        assert not is_mapped(address, VERY_LARGE)
        assert seen == ([signal.SIGINT] if error is KeyboardInterrupt else [])
        assert not releaser._pending
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_mapped_memory_numpy_allocates(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryError):
        empty(1 << 62, "u1")

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("cannot allocate memory")

    monkeypatch.setattr("aiozarr.memory.mmap.mmap", refuse)
    assert empty(VERY_LARGE, "u1").flags.owndata


def test_without_a_thread_the_memory_is_returned_in_place(released: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(releaser, "_thread", None)
        patch.setattr(threading.Thread, "start", refuse)
        array = empty(VERY_LARGE, "u1")
        array[:] = 7
        address = array.ctypes.data
        del array
        assert not is_mapped(address, VERY_LARGE)
        assert not released
    assert empty(VERY_LARGE, "u1").nbytes  # and the next one has a thread again
    assert wait_for(lambda: released == [VERY_LARGE])


def test_many_threads_make_and_drop_arrays() -> None:
    def work() -> None:
        for at in range(20):
            array = empty(VERY_LARGE + at, "u1")
            array[::4096] = at
            assert (array[::4096] == at).all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wait_for(lambda: not releaser._pending)
    assert names().count("aiozarr-memory") == 1


def test_the_garbage_collector_returns_the_array_of_a_cycle(released: list[int]) -> None:
    cycle: list[Any] = [empty(VERY_LARGE, "u1")]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert wait_for(lambda: released == [VERY_LARGE])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_returns_the_blocks_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_for(lambda: not releaser._pending)
    queue, held = releaser._queue, HeldQueue()
    releaser._queue = held
    try:
        arrays = [empty(VERY_LARGE, "u1") for _ in range(2)]
        addresses = [array.ctypes.data for array in arrays]
        arrays.clear()
        assert len(held.held) == 2
        child = os.fork()
        if not child:
            try:
                held.held.clear()
                os._exit(sum([is_mapped(address, VERY_LARGE) for address in addresses]))
            finally:
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        releaser._queue = queue
        held.let_go(queue)
    assert wait_for(lambda: not releaser._pending)


def test_a_forked_child_drops_old_arrays_and_makes_new_ones() -> None:
    array = empty(VERY_LARGE, "u1")
    array[:] = 3
    child = os.fork()
    if not child:
        try:
            good = bool((array == 3).all()) and releaser._thread is None
            address = array.ctypes.data
            del array
            good = good and not is_mapped(address, VERY_LARGE)
            new = empty(VERY_LARGE, "u1")
            new[:] = 4
            del new
            good = good and wait_for(lambda: not releaser._pending) and names().count("aiozarr-memory") == 1
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (array == 3).all()


@pytest.mark.parametrize(
    "end",
    ["", "import os; os._exit(0)", "raise SystemExit(0)", "array = None", "import numpy; numpy.zz = [array, kept]"],
)
def test_a_process_exits_without_output(end: str) -> None:
    program = f"""
import atexit
from aiozarr.memory import empty
array = empty({VERY_LARGE}, "u1")
array[:] = 1
kept = [empty({VERY_LARGE}, "u1")]
kept.append(kept)
atexit.register(lambda: empty({VERY_LARGE}, "u1").fill(1))
{end}
"""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
