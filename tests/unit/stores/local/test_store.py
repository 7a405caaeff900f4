"""What the local store promises beyond the contract: files, links, locks, failures of the disk, and killed writers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aiozarr.sync
from aiozarr.errors import (
    ChangedError,
    InvalidKeyError,
    PermissionDeniedError,
    PreconditionFailedError,
    ShortReadError,
    StoreError,
    UnsafeWriteWarning,
)
from aiozarr.model import IfAbsent, IfMatch, Range, Value
from aiozarr.stores import LocalStore
from aiozarr.stores.local import atomic_write
from aiozarr.stores.local import store as local_store
from aiozarr.stores.local.open_directory import OpenDirectory

TEMPORARY = ".aiozarr-write~0123456789abcdef"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


def files(root: Path) -> set[str]:
    """All names below root, directories too."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


# --- names and roots ---------------------------------------------------------------------------------------------


def test_nothing_is_created_before_the_first_write(store: LocalStore, root: Path) -> None:
    assert store.fetch_now("a") is None
    store.erase_now("a/b")
    assert not root.exists()
    store.set_now("a/b", b"1")
    assert (root / "a" / "b").read_bytes() == b"1"


def test_a_relative_root_does_not_move_with_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("data")
    monkeypatch.chdir("/")
    store.set_now("a", b"1")
    assert (tmp_path / "data" / "a").read_bytes() == b"1"


def test_a_tilde_is_a_directory_like_any_other(tmp_path: Path) -> None:
    store = LocalStore(f"{tmp_path}/~")
    store.set_now("~", b"1")
    assert (tmp_path / "~" / "~").read_bytes() == b"1"


def test_stores_of_one_directory_are_equal_for_all_paths_to_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert LocalStore(tmp_path / "real") == LocalStore(f"{tmp_path}/x/../link/")
    assert LocalStore(tmp_path / "real") != LocalStore(tmp_path)


def test_an_empty_root_is_refused() -> None:
    with pytest.raises(ValueError, match="the root of a local store must not be empty"):
        LocalStore("")


@pytest.mark.parametrize("key", [TEMPORARY, f"a/{TEMPORARY}", f"{TEMPORARY}/a"])
def test_names_of_temporary_files_are_not_keys(store: LocalStore, root: Path, key: str) -> None:
    (root / key).parent.mkdir(parents=True)
    (root / key).write_bytes(b"half written")
    assert store.fetch_now(key) is None
    assert store._stat_now(key) is None
    with pytest.raises(InvalidKeyError, match="temporary"):
        store.set_now(key, b"1")
    store.erase_now(key)
    assert (root / key).exists()
    assert asyncio.run(store.list()) == []


async def test_a_name_the_file_system_cannot_hold_is_missing_and_cannot_be_written(
    store: LocalStore, root: Path
) -> None:
    key = "a/" + "n" * 256
    assert await store.get(key) is None
    assert await store.stat(key) is None
    await store.erase(key)
    assert (await store.list_dir(key + "/")) == ([], [])
    with pytest.raises(InvalidKeyError):
        await store.set(key, b"1")
    assert files(root) == set()


def test_names_in_other_encodings_than_utf8_are_not_keys_and_stay(store: LocalStore, root: Path) -> None:
    store.set_now("a/b", b"1")
    odd = os.path.join(os.fsencode(root), b"a", b"\xff\xfe")
    Path(os.fsdecode(odd)).write_bytes(b"foreign")
    assert asyncio.run(store.list()) == ["a/b"]
    assert asyncio.run(store.list_dir("a/")) == (["a/b"], [])
    asyncio.run(store.erase_prefix(""))
    assert os.path.exists(odd)


async def test_a_directory_has_no_value(store: LocalStore) -> None:
    await store.set("a/b/c", b"1")
    assert await store.get("a/b") is None
    assert await store.exists("a") is False
    await store.erase("a/b")
    assert await store.list() == ["a/b/c"]
    with pytest.raises(StoreError, match="other keys below") as caught:
        await store.set("a/b", b"2")
    assert caught.value.key == "a/b"
    assert await store.list() == ["a/b/c"]


async def test_no_value_can_be_written_below_a_value(store: LocalStore, root: Path) -> None:
    await store.set("a/b", b"1")
    assert await store.get("a/b/c") is None
    with pytest.raises(StoreError, match="where a directory is needed"):
        await store.set("a/b/c/d", b"2")
    await store.erase("a/b/c")
    await store.erase_prefix("a/b/")
    assert files(root) == {"a", "a/b"}


def test_an_empty_directory_does_not_keep_a_value_away(store: LocalStore, root: Path) -> None:
    (root / "a").mkdir(parents=True)
    store.set_now("a", b"1", precondition=IfAbsent())
    assert (root / "a").read_bytes() == b"1"


# --- reading -----------------------------------------------------------------------------------------------------


def test_a_pipe_among_the_files_does_not_hang_a_reader(store: LocalStore, root: Path) -> None:
    root.mkdir()
    os.mkfifo(root / "pipe")
    assert store.fetch_now("pipe") is None
    assert asyncio.run(store.list()) == []


def test_blocking_and_async_reads_agree_for_all_kinds_of_files(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_now("some", bytes(range(200)))
    store.set_now("none", b"")
    store.set_now("many", bytes(1000))
    os.mkfifo(root / "pipe")
    (root / "directory").mkdir()
    (root / "device").symlink_to("/dev/zero")
    (root / "link").symlink_to("some")
    monkeypatch.setattr(local_store, "MAX_FAST_READ_BYTES", 500)
    for key in ("some", "none", "many", "pipe", "directory", "device", "link", "missing", "some/below"):
        value, read = store.fetch_now(key), store._read_now(key)
        assert (None if read is None else bytes(read)) == (None if value is None else bytes(value.data)), key
        for room in (0, 199, 200, 2000):
            memory, sizes = memoryview(bytearray(room)), list[int | None]()
            store._read_values_now([key], memory, sizes)
            if value is None:
                assert sizes == [None], key
            elif len(memoryview(value.data)) > room:
                assert sizes == [], key
            else:
                assert sizes == [len(memoryview(value.data))], key
                assert bytes(memory[: sizes[0]]) == bytes(value.data)


def test_the_faster_reads_of_a_store_are_not_those_of_a_subclass_with_other_reads(store: LocalStore) -> None:
    class Reversed(LocalStore):
        def fetch_now(self, key: str, *arguments: Any, **keywords: Any) -> Value | None:
            value = super().fetch_now(key, *arguments, **keywords)
            return None if value is None else replace(value, data=bytes(value.data)[::-1])

    store.set_now("a", b"123")
    other, memory, sizes = Reversed(store.root), bytearray(9), list[int | None]()
    assert bytes(other._read_now("a") or b"") == b"321"
    other._read_values_now(["a"], memoryview(memory), sizes)
    assert (bytes(memory[:3]), sizes) == (b"321", [3])


def test_short_reads_are_continued(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.set_now("a", bytes(range(200)))
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: pread(fd, min(length, 10), offset))
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: preadv(fd, [buffers[0][:7]], offset))
    value = store.fetch_now("a", Range(5, 150))
    assert value is not None
    assert bytes(memoryview(value.data)) == bytes(range(5, 155))


def test_a_file_that_is_cut_while_it_is_read_is_a_short_read(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_now("a", b"x" * 100)
    pread = os.pread

    def cut_then_read(fd: int, length: int, offset: int) -> bytes:
        os.truncate(root / "a", 30)
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", cut_then_read)
    with pytest.raises(ShortReadError) as caught:
        store.fetch_now("a")
    assert (caught.value.key, caught.value.retryable) == ("a", True)


@pytest.mark.parametrize(
    ("number", "kind", "retryable"),
    [
        (errno.EACCES, PermissionDeniedError, False),
        (errno.EMFILE, StoreError, True),
        (errno.EIO, StoreError, False),
        (errno.ESTALE, StoreError, True),
    ],
)
async def test_errors_of_the_system_are_typed_and_say_whether_to_try_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError], retryable: bool
) -> None:
    def fail(*args: Any, **keywords: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(kind) as caught:
        await store.fetch("a/b", Range(3, 4))
    assert (caught.value.key, caught.value.range, caught.value.store) == ("a/b", Range(3, 4), store.url)
    assert caught.value.retryable is retryable
    assert errno.errorcode[number] in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


# --- symbolic links ----------------------------------------------------------------------------------------------


def test_reading_follows_links_a_write_replaces_them_and_erasing_removes_them(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    root.mkdir()
    (root / "written").symlink_to(outside)
    (root / "erased").symlink_to(outside)
    value = store.fetch_now("written")
    assert value is not None
    assert value.data == b"precious"
    store.set_now("written", b"new")
    store.erase_now("erased")
    assert outside.read_bytes() == b"precious"
    assert not (root / "written").is_symlink()
    assert not (root / "erased").is_symlink()


async def test_linked_directories_are_listed_and_erasing_takes_the_link_alone(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "disk" / "deep" / "x").write_bytes(b"1")
    (root / "top").mkdir(parents=True)
    (root / "top" / "link").symlink_to(tmp_path / "disk")
    (root / "link").symlink_to(tmp_path / "disk")
    assert sorted(await store.list()) == ["link/deep/x", "top/link/deep/x"]
    with pytest.raises(StoreError, match="other keys below"):
        await store.set("link", b"1")
    await store.erase("link")
    assert (root / "link").is_symlink()
    await store.erase_prefix("link/")
    await store.erase_prefix("top/")
    assert files(root) == set()
    assert (tmp_path / "disk" / "deep" / "x").exists()


async def test_links_that_lead_back_end_a_listing(store: LocalStore, root: Path) -> None:
    await store.set("a/x", b"1")
    await store.set("b/y", b"2")
    (root / "a" / "self").symlink_to(".")
    (root / "a" / "to-b").symlink_to("../b")
    (root / "b" / "to-a").symlink_to("../a")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("nowhere")
    assert sorted(await store.list()) == ["a/to-b/y", "a/x", "b/to-a/x", "b/y"]
    # Whoever looks into them is told that they lead nowhere.
    assert await store.list_dir("") == ([], ["a/", "b/", "dangling/", "loop/"])
    faults = {entry.key: entry.fault for entry in [each async for each in store.scan()] if entry.fault}
    assert set(faults) == {"a/self", "a/to-b/to-a", "b/to-a/self", "b/to-a/to-b", "dangling", "loop"}
    assert "[ENOENT]" in faults["dangling"]
    assert "[ELOOP]" in faults["loop"]
    assert "leads back" in faults["a/self"]
    await store.set("loop", b"3", precondition=IfAbsent())
    await store.set("dangling", b"4", precondition=IfAbsent())
    assert await store.list_dir("") == (["dangling", "loop"], ["a/", "b/"])
    await store.erase_prefix("")
    assert files(root) == set()


# --- writing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
async def test_the_new_content_of_a_file_is_never_readable_by_more_people_than_the_old_one(
    mode: int, store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: set[int] = set()
    pwrite = os.pwrite

    def noted(descriptor: int, data: memoryview, start: int) -> int:
        modes.add(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return pwrite(descriptor, data, start)

    monkeypatch.setattr(os, "pwrite", noted)
    before = os.umask(0o022)
    try:
        for key in ("a", "b", "c"):
            await store.set(key, b"old")
            (root / key).chmod(mode)
        modes.clear()
        await store.set("a", b"new")
        store._set_values_now([("b", b"new")])
        file = store._begin_file("c", 3)
        file.write(0, b"new")
        file.commit()
    finally:
        os.umask(before)
    assert all(each & ~mode == 0 for each in modes), f"{modes} for {mode:o}"
    assert {stat.S_IMODE((root / key).stat().st_mode) for key in ("a", "b", "c")} == {mode}


def test_a_file_that_replaces_one_of_another_group_gets_its_group_or_none(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_now("a", b"old")
    (root / "a").chmod(0o660)
    if os.geteuid() == 0:
        os.chown(root / "a", -1, 12345)
        store.set_now("a", b"new")
        assert (root / "a").stat().st_gid == 12345
        assert stat.S_IMODE((root / "a").stat().st_mode) == 0o660

        def refused(*arguments: object) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "chown", refused)
        store.set_now("a", b"newer")
        assert stat.S_IMODE((root / "a").stat().st_mode) == 0o600


def test_new_files_have_the_mode_the_umask_leaves(store: LocalStore, root: Path) -> None:
    before = os.umask(0o027)
    try:
        store.set_now("a/b", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "a" / "b").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o750


def test_states_of_one_size_have_versions_of_their_own_however_fast_they_follow(store: LocalStore) -> None:
    """The kernel's clock has ticks of milliseconds, inodes are used again: two states must not look alike for that."""
    versions = [store.set_now("a", b"%04d" % number) for number in range(100)]
    assert len(set(versions)) == 100
    with pytest.raises(ChangedError):
        store.fetch_now("a", if_match=versions[0])


def test_short_writes_are_continued(store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, start: write(fd, data[:3], start))
    store.set_now("a", b"0123456789")
    assert (root / "a").read_bytes() == b"0123456789"


STEPS = ["pwrite", "utime", "fsync", "fstat", "close", "replace"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("existing", [True, False])
def test_a_write_that_fails_at_any_step_leaves_the_old_value_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int, existing: bool
) -> None:
    store = LocalStore(root, fsync=True)
    root.mkdir()
    if existing:
        store.set_now("a/b", b"old")
    real = getattr(os, step)

    def fail(*args: Any, **keywords: Any) -> Any:
        if step == "close":
            real(*args)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, step, fail)
        with pytest.raises(PermissionDeniedError if number == errno.EACCES else StoreError) as caught:
            store.set_now("a/b", b"new")
    assert caught.value.key == "a/b"
    assert files(root) == ({"a", "a/b"} if existing else set())
    if existing:
        assert (root / "a" / "b").read_bytes() == b"old"


def test_values_stored_together_take_one_lock_per_directory_and_have_versions_of_their_own(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks: list[int] = []
    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda fd, kind: (locks.append(kind), flock(fd, kind))[1])
    keys = [f"c/{row}/{column}" for row in range(3) for column in range(20)]
    store._set_values_now([(key, b"1") for key in keys])
    assert locks == [fcntl.LOCK_EX, fcntl.LOCK_UN] * 3
    before = [store._stat_now(key) for key in keys]
    store._set_values_now([(key, b"2") for key in keys])
    assert all(one != other for one, other in zip(before, map(store._stat_now, keys), strict=True))


def test_values_stored_together_of_which_one_fails_leave_no_temporary_file(store: LocalStore, root: Path) -> None:
    store.set_now("a/2/below", b"")
    descriptors = len(os.listdir("/dev/fd"))
    with pytest.raises(StoreError, match="other keys below"):
        store._set_values_now([("a/1", b"1"), ("a/2", b"2"), ("a/3", b"3")])
    assert not any("~" in name for name in files(root))
    assert len(os.listdir("/dev/fd")) == descriptors


def test_values_stored_together_are_stored_singly_after_a_sweep_of_their_temporary_files(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = atomic_write.NewFile.seal

    def seal_and_sweep(file: atomic_write.NewFile) -> None:
        seal(file)
        for path in root.rglob(".aiozarr-write~*"):
            with OpenDirectory(os.fsencode(path.parent)) as directory:
                if not atomic_write.has_writer(directory, os.fsencode(path.name)):
                    path.unlink()

    monkeypatch.setattr(atomic_write.NewFile, "seal", seal_and_sweep)
    array = aiozarr.sync.create_array(store, shape=(4, 4), chunks=(1, 4), dtype="u1", fill_value=0)
    array[...] = 7
    assert (array[...] == 7).all()
    assert len([name for name in files(root) if name.startswith("c/")]) >= 4


def test_a_precondition_that_fails_leaves_no_directory(store: LocalStore, root: Path) -> None:
    version = store.set_now("a", b"1")
    with pytest.raises(PreconditionFailedError):
        store.set_now("x/y/z", b"2", precondition=IfMatch(version))
    assert files(root) == {"a"}


def test_erasing_prunes_empty_directories_but_never_the_root(store: LocalStore, root: Path) -> None:
    store.set_now("a/b/c", b"1")
    store.set_now("a/d", b"2")
    store.erase_now("a/b/c")
    assert files(root) == {"a", "a/d"}
    store.erase_now("a/d")
    assert files(root) == set()
    assert root.is_dir()


def test_creating_and_pruning_one_directory_at_once_loses_no_write(store: LocalStore) -> None:
    """Eight threads write and erase in directories that are empty, and pruned, most of the time."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(150):
                store.set_now(f"a/{step % 2}/{number}", b"%d" % step, precondition=IfAbsent())
                value = store.fetch_now(f"a/{step % 2}/{number}")
                assert value is not None
                assert value.data == b"%d" % step
                store.erase_now(f"a/{step % 2}/{number}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


async def test_a_cancelled_write_has_ended_when_the_cancellation_arrives(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = os.replace

    def slow(*args: Any) -> None:
        begun.set()
        go_on.wait(10)
        real(*args)

    monkeypatch.setattr(os, "replace", slow)
    task = asyncio.create_task(store.set("a", b"1"))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.get("a") == b"1"


# --- other processes ---------------------------------------------------------------------------------------------


COUNTER = """
import sys
from aiozarr.errors import PreconditionFailedError
from aiozarr.stores import IfMatch, LocalStore
store = LocalStore(sys.argv[1])
done = 0
while done < 100:
    value = store.fetch_now("deep/counter")
    try:
        store.set_now("deep/counter", b"%08d" % (int(value.data) + 1), precondition=IfMatch(value.version))
    except PreconditionFailedError:
        continue
    done += 1
"""


def test_compare_and_swap_holds_between_processes(store: LocalStore, root: Path) -> None:
    store.set_now("deep/counter", b"%08d" % 0)
    processes = [subprocess.Popen([sys.executable, "-c", COUNTER, str(root)]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    value = store.fetch_now("deep/counter")
    assert value is not None
    assert value.data == b"%08d" % 300
    assert files(root) == {"deep", "deep/counter"}


async def test_sweep_takes_old_temporary_files_alone(store: LocalStore, root: Path) -> None:
    await store.set("a/b", b"1")
    for name in ("old", "fresh"):
        (root / "a" / f".aiozarr-write~{name}").write_bytes(b"")
    (root / "gone").mkdir()
    (root / "gone" / TEMPORARY).write_bytes(b"")
    for path in (root / "a" / ".aiozarr-write~old", root / "gone" / TEMPORARY):
        os.utime(path, (0, 0))
    assert await store._sweep() == 2
    assert files(root) == {"a", "a/b", "a/.aiozarr-write~fresh"}


@pytest.mark.parametrize("remove", [lambda store: store._sweep(None), lambda store: store.erase_prefix("a/")])
async def test_files_of_killed_writers_are_removed_and_those_of_living_ones_stay(
    remove: Callable[[LocalStore], Awaitable[Any]], store: LocalStore, root: Path
) -> None:
    await store.set("b", b"1")
    (root / "a").mkdir()
    (root / "a" / ".aiozarr-write~killed").write_bytes(b"")
    os.utime(root / "a" / ".aiozarr-write~killed", (0, 0))
    (root / "a" / ".aiozarr-write~new").write_bytes(b"")
    file = store._begin_file("a/written", 1)
    written = next(
        path for path in (root / "a").iterdir() if path.name not in (".aiozarr-write~killed", ".aiozarr-write~new")
    )
    os.utime(written, (0, 0))
    await remove(store)
    assert files(root) == {"a", "b", "a/.aiozarr-write~new", f"a/{written.name}"}
    file.write(0, b"1")
    file.commit()
    assert await store.get("a/written") == b"1"


def test_a_lock_is_given_back_though_a_forked_child_holds_the_same_open_file(root: Path) -> None:
    root.mkdir()
    with atomic_write._locked(os.fsencode(root)) as directory:
        child = os.dup(directory.descriptor)  # what a fork leaves in the child
    other = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
        os.close(child)


def test_where_the_file_system_has_no_locks_writers_of_the_process_take_turns_and_are_warned(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(atomic_write.fcntl, "flock", no_locks)
    with pytest.warns(UnsafeWriteWarning, match="within this process only"):
        store.set_now("a", b"1", precondition=IfAbsent())
    with pytest.warns(UnsafeWriteWarning), pytest.raises(PreconditionFailedError):
        store.set_now("a", b"2", precondition=IfAbsent())


def test_a_directory_that_was_replaced_while_its_lock_was_awaited_is_locked_again(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock on a directory that is no longer at its path protects nothing."""
    store.set_now("a/b", b"1")
    flock = atomic_write.fcntl.flock
    locked: list[int] = []

    def swap_then_lock(descriptor: int, operation: int) -> None:
        if not locked:
            (root / "a").rename(root / "moved")
            (root / "a").mkdir()
            (root / "a" / "b").write_bytes(b"2")
        if operation == fcntl.LOCK_EX:
            locked.append(os.fstat(descriptor).st_ino)
        flock(descriptor, operation)

    monkeypatch.setattr(atomic_write.fcntl, "flock", swap_then_lock)
    store.erase_now("a/b")
    assert locked == [(root / "moved").stat().st_ino, locked[1]]
    assert locked[0] != locked[1]
    assert files(root) == {"moved", "moved/b"}


def test_a_file_is_opened_once_and_always_closed(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    version = store.set_now("a/b", b"1")
    store.set_now("a/b", b"2")

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    calls: list[Callable[[], object]] = [
        lambda: store.fetch_now("a/b"),
        lambda: store.fetch_now("a"),
        lambda: store.fetch_now("a/b", if_match=version),
        lambda: store.set_now("a/b", b"3", precondition=IfAbsent()),
        lambda: store.set_now("a/b/c", b"3"),
        lambda: store.set_now("a", b"3"),
        lambda: store.erase_now("a/b"),
    ]
    for call in calls:
        with contextlib.suppress(StoreError):
            call()
        assert descriptors() == before


def test_the_store_above_is_that_of_the_directory_above(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "a" / "b", fsync=True)
    found = store.parent_store()
    assert found is not None
    above, name = found
    assert isinstance(above, LocalStore)
    assert (above, above.root, name, above.fsync) == (LocalStore(tmp_path / "a"), str(tmp_path / "a"), "b", True)
    assert LocalStore("/").parent_store() is None
    assert LocalStore(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).parent_store() is None
    levels, at = 0, store.parent_store()
    while at is not None:
        levels, at = levels + 1, at[0].parent_store()
    assert levels == len((tmp_path / "a" / "b").parts) - 1
