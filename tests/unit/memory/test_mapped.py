"""Memory that a thread gives back: when, by whom, and what becomes of it in odd moments of a process."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiozarr.memory import empty, owner_of
from aiozarr.memory.mapped import WAITING_BYTES, Calls, mapped
from aiozarr.memory.pages import VERY_LARGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only the pages of Linux are looked after")


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def wait_for(condition: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.005)
    return False


class Watched(Calls):
    """Notes which thread gives back how much."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[tuple[str, int]] = []
        self.unmapped: list[str] = []

    def drop(self, address: int, nbytes: int) -> None:
        assert is_mapped(address, nbytes)
        super().drop(address, nbytes)
        self.dropped.append((threading.current_thread().name, nbytes))

    def give_back(self, address: int, nbytes: int) -> None:
        assert is_mapped(address, nbytes)
        super().give_back(address, nbytes)
        assert not is_mapped(address, nbytes)
        self.unmapped.append(threading.current_thread().name)

    def share(self, name: str) -> int:
        """Return how many bytes a thread has given back."""
        return sum([nbytes for thread, nbytes in self.dropped if thread == name])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Watched:
    assert wait_for(lambda: "aiozarr-memory" not in names())
    watched = Watched()
    monkeypatch.setattr(mapped, "calls", watched)
    return watched


@pytest.fixture
def unmapped(calls: Watched) -> list[str]:
    """The names of the threads that have given memory back."""
    return calls.unmapped


def is_mapped(address: int, nbytes: int) -> bool:
    """Return whether the process has memory in the middle of this."""
    at = address + nbytes // 2
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, stop = (int(end, 16) for end in line.split()[0].split("-"))
        if start <= at < stop:
            return True
    return False


def test_a_thread_gives_the_memory_back_and_is_there_as_long_as_there_is_some(unmapped: list[str]) -> None:
    first, second = empty((VERY_LARGE // 8,), "f8"), empty(VERY_LARGE, "u1")
    first[:] = 1
    assert names().count("aiozarr-memory") == 1
    del first
    assert wait_for(lambda: unmapped == ["aiozarr-memory"])
    assert "aiozarr-memory" in names()
    del second
    assert wait_for(lambda: "aiozarr-memory" not in names())
    assert empty(VERY_LARGE, "u1").nbytes == VERY_LARGE
    assert wait_for(lambda: "aiozarr-memory" not in names())
    assert unmapped == ["aiozarr-memory"] * 3


def test_what_may_wait_for_the_thread_is_bounded(calls: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = threading.current_thread().name, "aiozarr-memory"
    drop, go_on = calls.drop, threading.Event()

    def slow(address: int, nbytes: int) -> None:
        if threading.current_thread().name == there:
            go_on.wait()
        drop(address, nbytes)

    monkeypatch.setattr(calls, "drop", slow)
    large = empty(WAITING_BYTES + VERY_LARGE + 1, "u1")
    others = [empty(VERY_LARGE, "u1") for _ in range(3)]
    del large
    assert (calls.share(here), calls.share(there)) == (VERY_LARGE + mmap.PAGESIZE, 0)
    others.clear()  # the thread has enough to do
    assert calls.share(here) == 4 * VERY_LARGE + mmap.PAGESIZE
    assert calls.unmapped == [here] * 3
    go_on.set()
    assert wait_for(lambda: there not in names())
    assert calls.share(there) == WAITING_BYTES
    assert calls.unmapped == [here] * 3 + [there]
    assert empty(VERY_LARGE, "u1").nbytes  # and then there is room again
    assert wait_for(lambda: there not in names())
    assert calls.share(there) == WAITING_BYTES + VERY_LARGE


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
def test_whoever_looks_at_the_memory_keeps_it(look: Callable[[np.ndarray], Any], unmapped: list[str]) -> None:
    array = empty(VERY_LARGE // 4, "i4")
    array[:] = np.arange(len(array), dtype="i4")
    expected = np.array(look(array)).tobytes()
    view = look(array)
    del array
    gc.collect()
    time.sleep(0.05)
    assert not unmapped
    assert np.array(view).tobytes() == expected
    del view
    assert wait_for(lambda: bool(unmapped))


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
def test_it_is_an_array_as_numpys(shape: Any, dtype: Any) -> None:
    array, expected = empty(shape, dtype), np.empty(shape, dtype)
    assert type(array) is np.ndarray
    assert (array.shape, array.strides, array.dtype) == (expected.shape, expected.strides, expected.dtype)
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.flags.aligned


def test_the_owner_of_a_view_is_over_all_of_the_memory() -> None:
    for nbytes in (8, VERY_LARGE):
        array = empty(nbytes // 4, "i4")
        for view in (array, array[1:], array.reshape(2, -1).T):
            owner = owner_of(view)
            assert (owner.ctypes.data, owner.nbytes) == (array.ctypes.data, nbytes)


def test_an_object_in_a_cycle_sees_the_memory_with_its_last_word(unmapped: list[str]) -> None:
    class Last:
        def __del__(self) -> None:
            time.sleep(0.1)
            words.append(bytes(self.view[:3]))

    words: list[bytes] = []
    for look in (lambda a: a, lambda a: a.base, memoryview, lambda a: memoryview(a.base)):
        array = empty(VERY_LARGE, "u1")
        array[:] = 7
        last: Any = Last()
        last.me, last.view = last, look(array)
        del array, last
        gc.collect()
    assert words == [b"\7\7\7"] * 4
    assert wait_for(lambda: len(unmapped) == 4)


def test_nothing_shows_the_memory_behind_the_array_that_is_watched() -> None:
    behind = empty(VERY_LARGE, "u1").base.base
    assert np.asarray(behind).dtype == object
    with pytest.raises(TypeError):
        memoryview(behind)


def test_what_is_let_go_of_deep_in_a_recursion_is_found_later(unmapped: list[str]) -> None:
    def deep(arrays: list[Any]) -> None:
        try:
            deep(arrays)
        except RecursionError:
            arrays.clear()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pytest.PytestUnraisableExceptionWarning)
        deep([empty(VERY_LARGE, "u1") for _ in range(2)])
        gc.collect()
    assert empty(VERY_LARGE, "u1").nbytes
    assert wait_for(lambda: len(unmapped) == 3)
    assert wait_for(lambda: "aiozarr-memory" not in names())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_a_signal_interrupts_is_given_back_all_the_same(
    calls: Watched, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    drop, seen = calls.drop, list[int]()

    def interrupted(address: int, nbytes: int) -> None:
        drop(address, nbytes)
        if threading.current_thread() is threading.main_thread():
            raise error

    monkeypatch.setattr(calls, "drop", interrupted)
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        array = empty(WAITING_BYTES + VERY_LARGE, "u1")
        del array
        assert wait_for(lambda: len(calls.unmapped) == 1)
        assert seen == ([signal.SIGINT] if error is KeyboardInterrupt else [])
    finally:
        signal.signal(signal.SIGINT, before)
    assert wait_for(lambda: "aiozarr-memory" not in names())


def test_where_no_memory_can_be_had_numpy_says_so(calls: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryError):
        empty(1 << 62, "u1")
    monkeypatch.setattr(calls, "take", lambda _: None)
    assert empty(VERY_LARGE, "u1").flags.owndata
    monkeypatch.setattr(mapped, "calls", None)
    assert empty(VERY_LARGE, "u1").flags.owndata


def test_where_no_thread_can_be_had_whoever_lets_go_gives_the_memory_back(
    unmapped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        array = empty(VERY_LARGE, "u1")
        array[:] = 7
        del array
        assert unmapped == [threading.current_thread().name]
    assert empty(VERY_LARGE, "u1").nbytes  # and the next one has a thread again
    assert wait_for(lambda: unmapped[1:] == ["aiozarr-memory"])


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
    assert wait_for(lambda: "aiozarr-memory" not in names())
    assert not mapped._lent


def test_an_array_in_a_cycle_is_let_go_of_by_the_garbage_collector(unmapped: list[str]) -> None:
    cycle: list[Any] = [empty(VERY_LARGE, "u1")]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert wait_for(lambda: unmapped == ["aiozarr-memory"])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gives_back_what_was_waiting(calls: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    drop, go_on, begun = calls.drop, threading.Event(), threading.Event()

    def slow(address: int, nbytes: int) -> None:
        begun.set()
        go_on.wait()
        drop(address, nbytes)

    monkeypatch.setattr(calls, "drop", slow)
    arrays = [empty(VERY_LARGE, "u1") for _ in range(2)]
    addresses = [array.ctypes.data for array in arrays]
    arrays.clear()
    assert begun.wait(5)
    child = os.fork()
    if not child:
        try:
            os._exit(sum([is_mapped(address, VERY_LARGE) for address in addresses]))
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go_on.set()
    assert wait_for(lambda: "aiozarr-memory" not in names())


def test_a_forked_child_drops_old_arrays_and_makes_new_ones(unmapped: list[str]) -> None:
    array = empty(VERY_LARGE, "u1")
    array[:] = 3
    child = os.fork()
    if not child:
        try:
            good = bool((array == 3).all())
            del array
            good = good and unmapped == ["MainThread"]
            new = empty(VERY_LARGE, "u1")
            new[:] = 4
            del new
            good = good and wait_for(lambda: unmapped == ["MainThread", "aiozarr-memory"])
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (array == 3).all()


@pytest.mark.parametrize(
    "end",
    ["", "import os; os._exit(0)", "raise SystemExit(0)", "array = None", "import numpy; numpy.zz = [array, kept]"],
)
def test_a_process_ends_and_says_nothing(end: str) -> None:
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
