"""A cache in a directory outlives its process, can be shared, and survives damage to its files."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiozarr.errors import PermissionDeniedError
from aiozarr.model import Range, Suffix, Value, Version
from aiozarr.stores import CacheStore, HTTPStore, LocalStore, MemoryStore, PrefixStore, disk_cache
from aiozarr.stores.cache_backend import InvalidationGuard
from aiozarr.stores.disk_cache import DiskCache, stable_name
from aiozarr.testing.fakes import FakeStore
from tests.support.child_process import run_script

DATA = bytes(range(256)) * 4
OBJECT_KEY = ("store", "a/k")


def entries(directory: Path) -> list[Path]:
    """The files of cached values."""
    # Directories may vanish meanwhile, which `Path.glob` does not take.
    found = [Path(folder, name) for folder, _, names in os.walk(directory) for name in names]
    return sorted(path for path in found if len(path.relative_to(directory).parts) == 3)


def insert(cache: DiskCache, key: str = "a/k", data: bytes = DATA, version: str = '"1"') -> None:
    cache.insert(("store", key), None, Value(data, Version(version), len(data)), time.time(), InvalidationGuard())


def found(cache: DiskCache, key: str = "a/k") -> bytes | None:
    cached = cache.lookup(("store", key), None)
    return None if cached is None else bytes(cached.value.data)


def test_cached_values_are_found_by_the_next_store(tmp_path: Path) -> None:
    insert(DiskCache(10_000, str(tmp_path)))
    cached = DiskCache(10_000, str(tmp_path)).lookup(OBJECT_KEY, Range(10, 3))
    assert cached is not None
    assert cached.value == Value(DATA[10:13], Version('"1"'), len(DATA))
    assert abs(time.time() - cached.checked) < 60


def test_values_are_kept_with_versions_and_sizes_of_every_kind(tmp_path: Path) -> None:
    cache = DiskCache(1 << 20, str(tmp_path))
    for number, version in enumerate([None, Version('W/"ü"'), Version(generation="5"), Version('"e"', "6")]):
        for data, size in ((b"", 0), (b"x", None), (DATA, 1 << 40)):
            cache.insert(("store", f"k{number}"), Suffix(5), Value(data, version, size), 5.25, InvalidationGuard())
            cached = cache.lookup(("store", f"k{number}"), Suffix(5))
            assert cached is not None
            assert (cached.value, cached.checked) == (Value(data, version, size), 5.25)


def test_ranges_of_a_large_value_are_read_and_proved_by_blocks(tmp_path: Path) -> None:
    cache = DiskCache(8 << 20, str(tmp_path))
    data = random.Random(1).randbytes((2 << 20) + 77)
    insert(cache, data=data)
    for start, length in ((0, 1), (262_143, 2), (1 << 20, 1 << 20), (len(data) - 3, 100), (len(data), 5), (0, 1 << 40)):
        cached = cache.lookup(OBJECT_KEY, Range(start, length))
        assert cached is not None
        assert bytes(cached.value.data) == data[start : start + length]


def test_a_damaged_file_counts_as_missing_wherever_the_damage_is(tmp_path: Path) -> None:
    cache = DiskCache(10_000, str(tmp_path))
    insert(cache, data=b"12345678")
    (path,) = entries(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        assert found(cache) is None
        assert not path.exists()
        path.write_bytes(whole[:at])
        assert found(cache) is None
    for other in (b"", b"x" * 1000, whole + b"x", whole * 2, whole[:8] + b"\xff" * 100):
        path.write_bytes(other)
        assert found(cache) is None
    path.write_bytes(whole)
    assert found(cache) == b"12345678"


def test_other_entries_than_files_count_as_missing(tmp_path: Path) -> None:
    cache = DiskCache(10_000, str(tmp_path))
    insert(cache)
    (path,) = entries(tmp_path)
    path.unlink()
    path.mkdir()
    assert found(cache) is None
    cache.invalidate(OBJECT_KEY)
    path.rmdir()
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    assert found(cache) is None
    assert not path.exists()
    shutil.rmtree(path.parent.parent)
    path.parent.parent.write_bytes(b"in the way")
    assert found(cache) is None
    insert(cache)
    assert found(cache) is None


def test_anybody_may_remove_any_of_it_at_any_time(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    cache = DiskCache(10_000, str(directory))
    for remove in (
        lambda: shutil.rmtree(directory),
        (directory / "size").unlink,
        lambda: [path.unlink() for path in entries(directory)],
        lambda: [shutil.rmtree(path) for path in directory.glob("??")],
    ):
        insert(cache)
        assert found(cache) == DATA
        remove()
        assert found(cache) in (None, DATA)
        cache.invalidate(OBJECT_KEY)
        cache.invalidate_prefix("store", "")


def test_an_unwritable_directory_warns_once_and_reads_continue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = CacheStore(FakeStore({"k": b"123"}, latency=0), 1000, tmp_path / "file" / "cache")

    async def main() -> None:
        for _ in range(3):
            assert bytes(await store.get("k") or b"") == b"123"
        await store.erase("k")

    with caplog.at_level(logging.WARNING, "aiozarr"):
        asyncio.run(main())
    assert len(caplog.records) == 1
    assert "cannot be written" in caplog.records[0].message


def test_all_files_together_stay_below_the_bound_also_those_of_another_backend(tmp_path: Path) -> None:
    caches = [DiskCache(20_000, str(tmp_path)) for _ in range(2)]
    for number in range(60):
        insert(caches[number % 2], f"k{number}", bytes(1500))
        assert caches[0].nbytes <= 20_000
    assert found(caches[0], "k59") == bytes(1500)
    assert found(caches[0], "k0") is None


def test_a_count_that_is_wrong_is_put_right(tmp_path: Path) -> None:
    cache = DiskCache(20_000, str(tmp_path))
    for number in range(100):  # each replaces the one before
        insert(cache, data=bytes(1000), version=f'"{number}"')
    insert(cache, "other")
    assert found(cache) == bytes(1000)
    for text in (b"", b"nonsense", b"9" * 20, b"9" * 1000):
        (tmp_path / "size").write_bytes(text)
        insert(cache, f"k{len(text)}")
        assert found(cache, f"k{len(text)}") == DATA
    assert found(cache) == bytes(1000)


def test_files_of_killed_writers_are_evicted(tmp_path: Path) -> None:
    cache = DiskCache(5000, str(tmp_path))
    insert(cache)
    old, young = tmp_path / ".writing-old", tmp_path / ".writing-young"
    for path in (old, young):
        path.write_bytes(bytes(1000))
    os.utime(old, (time.time() - 10_000,) * 2)
    for number in range(10):
        insert(cache, f"k{number}")
    assert not old.exists()
    assert young.exists()
    assert cache.nbytes <= 5000


def test_forgetting_below_a_prefix_leaves_the_rest_and_other_stores(tmp_path: Path) -> None:
    cache = DiskCache(100_000, str(tmp_path))
    for key in ("a/1", "a/2", "ab/1", "b"):
        insert(cache, key)
    cache.insert(("other", "a/1"), None, Value(DATA, None, len(DATA)), 0, InvalidationGuard())
    cache.invalidate_prefix("store", "a/")
    assert [found(cache, key) is None for key in ("a/1", "a/2", "ab/1", "b")] == [True, True, False, False]
    assert cache.lookup(("other", "a/1"), None) is not None


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    cache = DiskCache(10_000, str(tmp_path / "cache"))
    insert(cache)
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in entries(tmp_path / "cache"))


def test_threads_that_share_a_directory_read_stored_values(tmp_path: Path) -> None:
    inner = MemoryStore()
    for number in range(20):
        inner.set_now(f"k{number}", bytes([number]) * 3000)
    ends = threading.Event()

    def work(seed: int) -> None:
        choose = random.Random(seed)
        store = CacheStore(inner, 20_000, tmp_path)

        async def main() -> None:
            for _ in range(150):
                number = choose.randrange(20)
                assert bytes(await store.get(f"k{number}") or b"") == bytes([number]) * 3000

        asyncio.run(main())

    def remove() -> None:
        choose = random.Random(7)
        while not ends.wait(0.001):
            for path in choose.sample(files := entries(tmp_path), len(files) // 3):
                path.unlink(missing_ok=True)

    with ThreadPoolExecutor(4) as threads:
        removing = threads.submit(remove)
        try:
            for done in [threads.submit(work, seed) for seed in range(3)]:
                done.result()
        finally:
            ends.set()
        removing.result()


PROCESS = """
    import asyncio, contextlib, os, random, sys
    from aiozarr.stores import CacheStore, LocalStore

    root, cache, seed = sys.argv[1:]
    choose = random.Random(seed)
    store = CacheStore(LocalStore(root), 40_000, cache)

    def stored() -> int:
        sizes = {}  # by inode: a file may get its name while others are looked at
        with store._backend._locked_total():  # nobody makes room meanwhile
            for folder, _, names in os.walk(cache):
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        if name != "size":
                            status = os.stat(os.path.join(folder, name))
                            sizes[status.st_ino] = status.st_size
        return sum(sizes.values())

    async def main():
        for step in range(300):
            key = f"c/{choose.randrange(30)}"
            if choose.random() < 0.1:
                await store.set(key, key.encode() * choose.randrange(1, 1500))
            data = bytes(await store.get(key))
            assert data == key.encode() * (len(data) // len(key)), key
            # What is replaced while it is being counted counts twice: not each time.
            total = min(stored() for _ in range(3)) if stored() > 40_000 else 0
            assert total <= 40_000, total

    asyncio.run(main())
    print(store.nbytes > 0)
"""


def test_processes_that_share_a_directory_read_stored_values_within_the_bound(tmp_path: Path) -> None:
    root, cache = tmp_path / "root", tmp_path / "cache"
    inner = LocalStore(root)
    for number in range(30):
        inner.set_now(f"c/{number}", f"c/{number}".encode() * 900)
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(run_script, PROCESS, str(root), str(cache), str(seed)) for seed in range(2)]
        assert [each.result() for each in running] == ["True\n"] * 2
    assert not list(cache.glob(".writing-*"))


NEXT = """
    import asyncio, sys
    from aiozarr.stores import CacheStore, LocalStore, MemoryStore, TraceStore

    seen = []
    inner = LocalStore(sys.argv[1]) if sys.argv[3] == "local" else MemoryStore.named("n")
    store = CacheStore(TraceStore(inner, lambda event: seen.append(event.operation)), 1000, sys.argv[2])

    async def main():
        if sys.argv[3] == "memory":
            await inner.set("k", sys.argv[4].encode())
        assert bytes(await store.get("k")) == sys.argv[4].encode()
        print(*seen)

    asyncio.run(main())
"""


def test_the_next_process_finds_cached_values(tmp_path: Path) -> None:
    root, cache = str(tmp_path / "root"), str(tmp_path / "cache")
    LocalStore(root).set_now("k", b"first")
    assert run_script(NEXT, root, cache, "local", "first") == "fetch\n"
    assert run_script(NEXT, root, cache, "local", "first") == "stat\n"
    LocalStore(root).set_now("k", b"later")
    assert run_script(NEXT, root, cache, "local", "later") == "stat fetch\n"


def test_stores_that_live_in_one_process_are_not_found_by_the_next(tmp_path: Path) -> None:
    """Two processes have memory stores of one name, and versions that count from 1."""
    cache = str(tmp_path / "cache")
    for text in ("one", "two"):
        assert run_script(NEXT, "", cache, "memory", text) == "fetch\n"


FORK = """
    import asyncio, os, sys, threading
    from aiozarr.stores import CacheStore, LocalStore

    store = CacheStore(LocalStore(sys.argv[1]), 10_000, sys.argv[2] or None)
    asyncio.run(store.get("k"))
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with store._backend._lock, store._requests._lock:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        ok = bytes(asyncio.run(store.get("k"))) == b"123"
        asyncio.run(store.set("k", b"456"))
        os._exit(0 if ok and bytes(asyncio.run(store.get("k"))) == b"456" else 1)
    leave.set()
    thread.join()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bytes(asyncio.run(store.get("k"))))
"""


@pytest.mark.parametrize("directory", ["", "cache"])
def test_a_forked_process_continues_despite_locks_held_in_the_parent(tmp_path: Path, directory: str) -> None:
    LocalStore(tmp_path / "root").set_now("k", b"123")
    cache = str(tmp_path / directory) if directory else ""
    script = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + _dedented(FORK)
    assert run_script(script, str(tmp_path / "root"), cache) == "0 b'456'\n"


def _dedented(code: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in code.splitlines())


async def test_directories_are_named_by_text_or_bytes_and_names_that_no_file_has_are_refused(tmp_path: Path) -> None:
    inner = FakeStore()
    await inner.set("k", DATA)
    name: Any = os.fsencode(tmp_path / "ü")
    assert await CacheStore(inner, 1 << 20, name).get("k") == DATA
    assert entries(tmp_path / "ü")
    with pytest.raises(ValueError, match="NUL"):
        CacheStore(inner, 1 << 20, "a\0b")


def test_eviction_removes_empty_directories(tmp_path: Path) -> None:
    cache = DiskCache(4000, str(tmp_path))
    for number in range(50):
        insert(cache, f"k/{number}")
    assert found(cache, "k/49") == DATA
    assert len(list(tmp_path.glob("??/*"))) == len(entries(tmp_path)) < 4


def test_a_file_that_takes_its_name_while_all_are_counted_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(10_000, str(tmp_path))
    temporary = tmp_path / f"{disk_cache._TEMPORARY}1"
    temporary.write_bytes(bytes(700))
    names = disk_cache._names

    def list_then_rename(folder: str) -> list[str]:
        listed = names(folder)
        if temporary.exists():
            final = tmp_path / "ab" / "abcd"
            final.mkdir(parents=True)
            temporary.rename(final / "value")
        return listed

    monkeypatch.setattr(disk_cache, "_names", list_then_rename)
    assert [file.size for file in cache._files()] == [700]


def test_equal_identities_have_equal_names_and_others_have_others() -> None:
    identities: list[Any] = [
        LocalStore("/a").identity,
        LocalStore("/b").identity,
        HTTPStore("http://host/a").identity,
        HTTPStore("http://host/a", auth=("user", "password")).identity,
        PrefixStore(LocalStore("/a"), "b").identity,
        PrefixStore(LocalStore("/a"), "c").identity,
        CacheStore(LocalStore("/a"), 1, max_age=5).identity,
        MemoryStore().identity,
        MemoryStore.named("lasting").identity,
        FakeStore().identity,
        ("a", "b"),
        ("ab",),
        (("a",), "b"),
        ("a", None),
        ("a", 1),
        ("a", "1"),
        (b"a", 1.5),
    ]
    names = [stable_name(each) for each in identities]
    assert len(set(names)) == len(identities)
    assert names == [stable_name(each) for each in identities]


@pytest.mark.parametrize("identity", [MemoryStore.named("x").identity, FakeStore().identity, ("a", frozenset({1}))])
def test_stores_of_one_process_have_other_names_in_other_processes(
    identity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = (PrefixStore, identity, "a/")
    here = [stable_name.__wrapped__(each) for each in (identity, nested, ("LocalStore", "/a"))]
    monkeypatch.setattr("os.getpid", lambda: 1)
    there = [stable_name.__wrapped__(each) for each in (identity, nested, ("LocalStore", "/a"))]
    assert [a == b for a, b in zip(here, there, strict=True)] == [False, False, True]


def test_a_directory_is_created_with_access_for_this_user_only(tmp_path: Path) -> None:
    insert(DiskCache(10_000, str(tmp_path / "cache")))
    folders = [Path(folder) for folder, _, _ in os.walk(tmp_path / "cache")]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_directory_that_other_users_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    insert(DiskCache(10_000, str(tmp_path)))
    tmp_path.chmod(mode)
    cache = DiskCache(10_000, str(tmp_path))
    for use in (insert, found):
        with pytest.raises(
            PermissionDeniedError, match=rf"{tmp_path} .*mode {mode:04o}.*choose a directory that does not"
        ):
            use(cache)


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(DiskCache(10_000, str(tmp_path)))
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    for use in (insert, found):
        with pytest.raises(
            PermissionDeniedError, match=rf"{tmp_path} belongs to user {owner}; choose a directory that"
        ):
            use(DiskCache(10_000, str(tmp_path)))


@pytest.mark.parametrize("depth", [1, 2])
def test_nothing_behind_a_linked_folder_is_removed(tmp_path: Path, depth: int) -> None:
    directory, other = tmp_path / "cache", tmp_path / "other"
    cache = DiskCache(10_000, str(directory))
    insert(cache)
    (file,) = entries(directory)
    folder = file.parents[depth - 1]
    folder.rename(other)
    folder.symlink_to(other)
    moved = other / file.relative_to(folder)
    moved.write_bytes(b"another program's")
    assert found(cache) is None
    cache.invalidate(OBJECT_KEY)
    cache.invalidate_prefix("store", "a/")
    for number in range(30):
        insert(cache, f"b/{number}")
    assert moved.read_bytes() == b"another program's"


def test_a_link_that_another_user_has_made_to_a_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("own")
    insert(DiskCache(10_000, str(tmp_path / "link")))
    before, lstat = entries(tmp_path / "own"), os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: os.stat_result([*lstat(path)[:4], 65534, *lstat(path)[5:10]]))
    for use in (insert, found):
        with pytest.raises(PermissionDeniedError, match="choose a directory that does not exist yet"):
            use(DiskCache(10_000, str(tmp_path / "link")))
    assert entries(tmp_path / "own") == before


def test_files_that_are_links_are_not_followed(tmp_path: Path) -> None:
    directory, victim = tmp_path / "cache", tmp_path / "victim"
    victim.write_bytes(b"precious")
    directory.mkdir(mode=0o700)
    (directory / "size").symlink_to(victim)
    insert(DiskCache(10_000, str(directory)))
    assert victim.read_bytes() == b"precious"
    assert entries(directory) == []
    (directory / "size").unlink()
    cache = DiskCache(10_000, str(directory))
    insert(cache)
    (file,) = entries(directory)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert found(cache) is None


@pytest.mark.parametrize("other", [("store", "a/other"), ("another store", "a/k")])
def test_a_file_that_names_another_store_or_key_is_a_miss(tmp_path: Path, other: tuple[str, str]) -> None:
    cache = DiskCache(10_000, str(tmp_path))
    cache.insert(other, None, Value(b"theirs", Version('"1"'), 6), time.time(), InvalidationGuard())
    (theirs,) = entries(tmp_path)
    insert(cache)
    (ours,) = set(entries(tmp_path)) - {theirs}
    shutil.copy(theirs, ours)
    assert found(cache) is None
