"""The zip store: its requests, its writes, and the archives that it refuses."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import stat
import struct
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr import sync
from aiozarr.errors import (
    AiozarrError,
    ChangedError,
    LimitError,
    PreconditionFailedError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.model import IfAbsent, Range, Suffix
from aiozarr.stores import LocalStore, MemoryStore, ZipStore
from aiozarr.stores.zip import LocalZipStore, archive
from tests.support.servers.http_server import FaultServer
from tests.support.zip_archives import DATA, archive_of, deflated_archive, read, streamed_archive

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]


# --- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
async def test_members_of_every_method_are_read_whole_and_in_part(tmp_path: Path, method: int) -> None:
    data = archive_of({"a/b": DATA, "empty": b"", "z": b"z"}, method)
    (tmp_path / "x.zip").write_bytes(data)
    inner = MemoryStore()
    await inner.set("x.zip", data)
    for store in (ZipStore(tmp_path / "x.zip"), ZipStore(inner, key="x.zip")):
        assert await read(store, "a/b") == DATA
        assert await read(store, "a/b", Range(1000, 7)) == DATA[1000:1007]
        assert await read(store, "a/b", Range(10_000)) == DATA[10_000:]
        assert await read(store, "a/b", Suffix(5)) == DATA[-5:]
        assert await read(store, "a/b", Range(99_999, 5)) == b""
        assert await read(store, "empty") == b""
        assert await store.fetch("b") is None
        assert await store.list_dir("") == (["empty", "z"], ["a/"])


async def test_local_headers_may_differ_in_length_from_the_directory() -> None:
    """Info-ZIP writes longer extra fields into headers; other writers differ in other ways."""
    plain = archive_of({"a": DATA})
    for pad in (4, 40, 5000, 65_000):
        inner = MemoryStore()
        header = bytearray(plain[:31])
        header[28:30] = struct.pack("<H", pad)
        field = struct.pack("<2H", 0x5455, pad - 4) + bytes(pad - 4)
        body = bytes(header) + field + plain[31:]
        end = bytearray(body)
        end[-6:-2] = struct.pack("<L", struct.unpack("<L", body[-6:-2])[0] + pad)
        await inner.set("x.zip", bytes(end))
        assert await read(ZipStore(inner, key="x.zip"), "a", Range(500, 4)) == DATA[500:504]
        assert await read(ZipStore(inner, key="x.zip"), "a") == DATA


@pytest.mark.parametrize("method", METHODS)
async def test_archives_of_streaming_writers_are_read(method: int) -> None:
    inner = MemoryStore()
    await inner.set("x.zip", streamed_archive({"a": DATA, "empty": b"", "b": DATA[:7]}, method))
    store = ZipStore(inner, key="x.zip")
    assert await read(store, "b", Range(2, 3)) == DATA[2:5]
    assert [await read(store, key) for key in ("a", "empty", "b")] == [DATA, b"", DATA[:7]]
    assert await read(store, "a", Suffix(9)) == DATA[-9:]


async def test_members_with_fields_for_sizes_beyond_4_gib_are_read_right(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for key in ("a", "b"):
            with archive.open(key, "w", force_zip64=True) as member:
                member.write(DATA)
    for store in (ZipStore(path), ZipStore(LocalStore(tmp_path), key="x.zip")):
        assert await read(store, "a", Range(500, 4)) == DATA[500:504]
        assert [await read(store, key) for key in "ab"] == [DATA, DATA]


async def test_members_beyond_4_gib_are_read_right(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with path.open("wb") as file:
        file.seek(5 << 30)  # a hole: the disk holds none of it
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a", DATA)
    for store in (ZipStore(path), ZipStore(LocalStore(tmp_path), key="x.zip")):
        assert await read(store, "a", Range(500, 4)) == DATA[500:504]
        assert await read(store, "a") == DATA


async def test_an_archive_beyond_4_gib_is_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made with a hole, as the archive is, so that the disk holds none of it."""
    path = tmp_path / "x.zip"
    with path.open("wb") as file:
        file.seek(5 << 30)
        with zipfile.ZipFile(file, "w") as archive_file:
            archive_file.writestr("a", DATA)

    def copy_end(source: archive.ArchiveFile, start: int, length: int) -> Iterator[bytes]:
        (outer,) = [writer for writer in archive._writers if not hasattr(writer, "contents")]
        outer._output.seek(5 << 30)
        yield source.read(5 << 30, length - (5 << 30))

    monkeypatch.setattr(archive, "pieces_of", copy_end)
    async with ZipStore(path, "a") as store:
        await store.set("b", b"2")
    assert path.stat().st_blocks < 1 << 20
    for read_store in (ZipStore(path), ZipStore(LocalStore(tmp_path), key="x.zip")):
        assert [await read(read_store, key) for key in "ab"] == [DATA, b"2"]


async def test_names_are_utf_8_or_code_page_437_and_folders_have_no_value() -> None:
    into = BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.mkdir("folder")
        archive.writestr("folder/ü", b"1")
        archive.writestr("plain", b"2")
    old = into.getvalue().replace(b"plain", b"pl\x84in")
    inner = MemoryStore()
    await inner.set("x.zip", b"in front of it" + old)
    assert await ZipStore(inner, key="x.zip").list() == ["folder/ü", "pläin"]


async def test_a_name_that_a_field_repeats_in_utf_8_is_that_one() -> None:
    into = BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for raw, name in ((b"caf_", "café"), (b"stale", "other")):
            checked = zlib.crc32(raw if raw == b"caf_" else b"")
            info = zipfile.ZipInfo(raw.decode())
            field = b"\x01" + struct.pack("<L", checked) + name.encode()
            info.extra = struct.pack("<2H", 0x7075, len(field)) + field
            archive.writestr(info, name)
    inner = MemoryStore()
    await inner.set("x.zip", into.getvalue())
    store = ZipStore(inner, key="x.zip")
    assert await store.list() == ["café", "stale"]
    assert await read(store, "café", Range(0, 2)) == b"ca"


async def test_an_archive_comment_with_any_content_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for comment in (b"a comment", b"PK\x05\x06" * 20, b"PK\x05\x06" + bytes(65_000)):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", b"1")
            archive.comment = comment
        for store in (ZipStore(path), ZipStore(LocalStore(tmp_path), key="x.zip")):
            assert await store.list() == ["a"]


async def test_a_replaced_archive_is_read_again(tmp_path: Path) -> None:
    inner = MemoryStore()
    first, second = archive_of({"a": b"1"}), archive_of({"new": b"", "a": b"22"})
    await inner.set("x.zip", first)
    store = ZipStore(inner, key="x.zip")
    value = await store.fetch("a")
    assert value is not None
    await inner.set("x.zip", second)
    with pytest.raises(ChangedError):
        await store.fetch("a", if_match=value.version)
    assert await read(store, "a") == b"22"
    await inner.erase("x.zip")
    with pytest.raises(StoreError, match="removed"):
        await store.fetch("a")


async def test_an_archive_on_a_web_server_is_opened_by_its_url() -> None:
    source = MemoryStore()
    array = await aiozarr.create_array(source, "a b", shape=(40,), dtype="int16", chunks=(4,), shards=(40,))
    await array[...].write(range(40))
    values = {key: bytes(memoryview(await source.get(key) or b"")) for key in await source.list()}
    with FaultServer() as server:
        server.put("data/x y.zip", archive_of({f"top/{key}": data for key, data in values.items()}))
        async with await aiozarr.open_array(f"{server.url}/data/x%20y.zip", "top/a b") as found:
            assert list(await found[10:13]) == [10, 11, 12]
            assert found.url == f"zip::{server.url}/data/x%20y.zip/top/a%20b"
        async with await aiozarr.open_array(found.url) as again:
            assert list(await again[38:]) == [38, 39]
        with pytest.raises(aiozarr.NodeNotFoundError):
            await aiozarr.open(f"{server.url}/data/none.zip")


async def test_a_missing_archive_has_no_keys(tmp_path: Path) -> None:
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(tmp_path / "x.zip")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open("zip::memory://no-archive/x.zip")
    assert os.listdir(tmp_path) == []


# --- writing -----------------------------------------------------------------------------------------------------


async def test_closing_the_store_commits_the_written_archive(tmp_path: Path) -> None:
    path = tmp_path / "below" / "x.zip"
    async with ZipStore(path, "w") as store:
        await store.set("a/ü", DATA)
        await store.set("b", b"1")
        await store.set("b", b"22")
        await store.set("c", b"3")
        await store.erase("c")
        assert not path.exists()
        assert await read(store, "b") == b"22"
        assert await read(ZipStore(path), "b") == b"22"  # the stores of one process see it
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["a/ü", "b"]
        assert archive.testzip() is None
        assert archive.read("a/ü") == DATA
    assert path.stat().st_size > len(DATA)
    assert os.listdir(path.parent) == ["x.zip"]
    async with ZipStore(path, "a") as store:
        await store.set("d", b"4")
        await store.erase("a/ü")
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"b": b"22", "d": b"4"}
    async with ZipStore(path, "w"):
        pass
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == []


async def test_mode_x_never_replaces_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    async with ZipStore(path, "x") as store:
        await store.set("a", b"1")
    with pytest.raises(PreconditionFailedError):
        ZipStore(path, "x")
    store = ZipStore(tmp_path / "y.zip", "x")
    await store.set("a", b"1")
    (tmp_path / "y.zip").write_bytes(b"of another process")
    with pytest.raises(PreconditionFailedError):
        await store.aclose()
    assert (tmp_path / "y.zip").read_bytes() == b"of another process"
    (tmp_path / "y.zip").unlink()
    await store.aclose()


async def test_changes_to_an_archive_that_another_process_has_changed_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(archive_of({"a": b"1"}))
    store = ZipStore(path, "a")
    await store.set("b", b"2")
    theirs = archive_of({"a": b"theirs"})
    path.write_bytes(theirs)
    with pytest.raises(PreconditionFailedError, match="another process"):
        await store.aclose()
    assert path.read_bytes() == theirs
    assert await read(store, "b") == b"2"  # nothing is lost yet: it can be copied elsewhere
    assert isinstance(store, LocalZipStore)
    store._archive._discard()
    assert os.listdir(tmp_path) == ["x.zip"]


async def test_a_version_of_before_a_close_that_failed_names_no_value_of_after_it(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(archive_of({"first": b"0"}))
    store = ZipStore(path, "a")
    old = await store.set("a", b"1")
    await store.set("a", b"2")
    path.write_bytes(archive_of({"of": b"another process"}))
    with pytest.raises(PreconditionFailedError, match="another process"):
        await store.aclose()
    with pytest.raises(ChangedError):
        await store.fetch("a", if_match=old)
    assert isinstance(store, LocalZipStore)
    store._archive._discard()


@pytest.mark.parametrize("moment", ["opening", "closing"])
async def test_where_the_disk_is_full_no_temporary_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(archive_of({"a": DATA}))
    store = ZipStore(path, "a")
    if moment == "closing":
        await store.set("a", b"1")
    before = sorted(os.listdir(tmp_path))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(archive.ArchiveOutput, "write", full)
        with pytest.raises(StoreError, match="ENOSPC"):
            await (store.aclose() if moment == "closing" else store.set("b", b"2"))
    assert sorted(os.listdir(tmp_path)) == before
    if moment == "opening":
        await store.set("b", b"2")
    await store.aclose()
    assert os.listdir(tmp_path) == ["x.zip"]
    assert await read(store, "a") == (DATA if moment == "opening" else b"1")


@pytest.mark.parametrize("operation", ["copy", "convert"])
def test_a_copy_into_an_archive_on_a_full_disk_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    sync.create_array(tmp_path / "a.zarr", data=[1, 2])
    (tmp_path / "full").mkdir()
    other = ZipStore(tmp_path / "full/x.zip", "a")
    assert isinstance(other, LocalZipStore)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(archive.zipfile.ZipFile, "close", full)
        with pytest.raises(StoreError, match="ENOSPC") as caught:
            getattr(sync, operation)(tmp_path / "a.zarr", tmp_path / "full/x.zip")
        assert os.listdir(tmp_path / "full") == []
    assert "ENOSPC" in str(caught.value)
    with pytest.raises(StoreError, match="ENOSPC"):
        other._archive.commit()  # its changes went with the same file
    other.set_now("a", b"1")
    other._archive.commit()
    assert os.listdir(tmp_path / "full") == ["x.zip"]


async def test_an_unclosed_store_is_closed_with_a_warning_when_it_is_collected(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "x.zip", "w")
    assert isinstance(store, LocalZipStore)
    store.set_now("a", b"1")
    with pytest.warns(ResourceWarning, match=r"x\.zip was not closed"):
        del store
    assert await read(ZipStore(tmp_path / "x.zip"), "a") == b"1"


KILLED = """
import asyncio, os, sys
from aiozarr.stores import ZipStore
from aiozarr.stores.zip import archive

async def main(path, moment):
    store = ZipStore(path, "a")
    await store.set("a", b"new")
    await store.set("b", b"more")
    if moment == "while writing":
        os._exit(9)
    if moment == "within the directory":
        write = archive.ArchiveOutput.write
        archive.ArchiveOutput.write = lambda file, data: (write(file, data[:9]), os._exit(9))
    elif moment == "before the name":
        os.replace = lambda *_: os._exit(9)
    await store.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("moment", ["while writing", "within the directory", "before the name"])
async def test_a_writer_that_is_killed_leaves_the_archive_as_it_was(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(archive_of({"a": b"old"}))
    before = path.read_bytes()
    run = [sys.executable, "-c", KILLED, str(path), moment]
    assert subprocess.run(run, check=False).returncode == 9  # noqa: ASYNC221  # nothing else is to happen
    assert path.read_bytes() == before
    assert await read(ZipStore(path), "a") == b"old"
    # What is left lies beside it, under a name that is no archive's, and goes where the directory is swept.
    assert len(os.listdir(tmp_path)) == 2
    async with ZipStore(path, "a") as store:
        await store.set("a", b"newer")
    assert await read(ZipStore(path), "a") == b"newer"
    await LocalStore(tmp_path)._sweep(0)
    assert os.listdir(tmp_path) == ["x.zip"]


def test_an_archive_is_written_and_read_in_several_threads_and_loops(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    store = ZipStore(path, "w")

    async def write(thread: int) -> None:
        await asyncio.gather(*(store.set(f"c/{thread}/{i}", DATA[i:]) for i in range(16)))

    async def look(thread: int) -> None:
        behind = ZipStore(LocalStore(tmp_path), key="x.zip")
        for each in (store, behind):
            found = await asyncio.gather(*(read(each, f"c/{thread}/{i}") for i in range(16)))
            assert found == [DATA[i:] for i in range(16)]

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda thread: asyncio.run(write(thread)), range(3)))
        asyncio.run(store.aclose())
        list(threads.map(lambda thread: asyncio.run(look(thread)), range(3)))
    with zipfile.ZipFile(path) as archive:
        assert len(set(archive.namelist())) == len(archive.namelist()) == 48
    asyncio.run(store.aclose())


async def test_members_are_deflated_on_request(tmp_path: Path) -> None:
    async with ZipStore(tmp_path / "x.zip", "w", compression=zipfile.ZIP_DEFLATED) as store:
        await store.set("a", bytes(1000))
        await store.set("b", b"xy")
        assert [await read(store, key) for key in "ab"] == [bytes(1000), b"xy"]
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert [each.compress_type for each in archive.infolist()] == [zipfile.ZIP_DEFLATED] * 2
        assert archive.testzip() is None


async def test_a_value_that_a_full_disk_cut_off_is_in_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.zip"
    store = ZipStore(path, "w")
    await store.set("a", b"old")
    write = archive.ArchiveOutput.write

    def fail_within_value(file: archive.ArchiveOutput, data: bytes) -> int:
        if len(data) == len(DATA):
            write(file, data[:1000])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(archive.ArchiveOutput, "write", fail_within_value)
        for key in "ab":
            with pytest.raises(StoreError, match="ENOSPC"):
                await store.set(key, DATA)
    assert await read(store, "a") == b"old"
    await store.set("c", b"3")
    await store.aclose()
    with zipfile.ZipFile(path) as found:
        assert {name: found.read(name) for name in found.namelist()} == {"a": b"old", "c": b"3"}
    assert await ZipStore(path).list() == ["a", "c"]


async def test_bytes_of_replaced_values_stay_until_the_archive_is_copied(tmp_path: Path) -> None:
    async with ZipStore(tmp_path / "x.zip", "w") as store:
        for _ in range(3):
            await store.set("a", DATA)
        await store.set("b", DATA)
        await store.erase("b")
    assert (tmp_path / "x.zip").stat().st_size > 4 * len(DATA)
    await aiozarr.copy(tmp_path / "x.zip", tmp_path / "y.zip")
    assert (tmp_path / "y.zip").stat().st_size < 2 * len(DATA)
    assert await read(ZipStore(tmp_path / "y.zip"), "a") == DATA


async def test_a_store_is_read_only_unless_it_is_made_to_write(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "x.zip")
    for change in (store.set("a", b""), store.erase("a")):
        with pytest.raises(UnsupportedOperationError):
            await change
    with pytest.raises(UnsupportedOperationError, match="read-only"):
        ZipStore(MemoryStore(), "w", key="x.zip")
    with pytest.raises(UnsupportedOperationError):
        await store.set("a", b"", precondition=IfAbsent())
    for wrong in ({"mode": "r+"}, {"compression": 99}):
        with pytest.raises(ValueError, match="must be"):
            ZipStore(tmp_path / "x.zip", **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="key"):
        ZipStore(MemoryStore())


async def test_a_store_with_changes_is_not_pickled(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "x.zip", "a", prefix="p/")
    assert pickle.loads(pickle.dumps(store)) == store
    await store.set("a", b"1")
    with pytest.raises(UnsupportedOperationError, match="close"):
        pickle.dumps(store)
    await store.aclose()
    assert await read(pickle.loads(pickle.dumps(store)), "a") == b"1"


async def test_a_forked_child_does_not_commit_the_writes_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    async with ZipStore(path, "w") as store:
        await store.set("old", b"1")
    async with ZipStore(path, "a") as store:
        assert isinstance(store, LocalZipStore)
        await store.set("new", b"2")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            status = 1
            try:
                assert store.fetch_now("old") is not None
                assert store.fetch_now("new") is None
                try:
                    store.set_now("other", b"3")
                except aiozarr.ForkedProcessError:
                    status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222  # it does one thing and ends
    assert await ZipStore(path).list() == ["new", "old"]


# --- hierarchies -------------------------------------------------------------------------------------------------


async def test_a_hierarchy_is_made_in_an_archive_and_read_from_it(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    async with await aiozarr.create_group(path, attributes={"a": 1}) as group:
        async with await group.create_array("b/c", shape=(100,), dtype="int16", chunks=(10,), shards=(50,)) as array:
            await array[...].write(range(100))
        await group.update_attributes({"a": 2})
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert len(set(names)) == len(names)
    async with await aiozarr.open_group(path) as group:
        assert group.attrs["a"] == 2
        node = await group.open("b/c")
        assert isinstance(node, aiozarr.Array)
        assert list(await node[95:]) == [95, 96, 97, 98, 99]
        assert node.url == f"zip::file://{path}/b/c"
    for place in (node.url, f"{path}/b/c", f"zip://b/c::file://{path}"):
        assert list(await (await aiozarr.open_array(place))[:2]) == [0, 1]


async def test_a_copy_goes_into_an_archive_and_out_of_it(tmp_path: Path) -> None:
    source = LocalStore(tmp_path / "a.zarr")
    array = await aiozarr.create_array(source, "x", shape=(4,), dtype="int8", chunks=(2,))
    await array[...].write([1, 2, 3, 4])
    await aiozarr.copy(source, tmp_path / "b.zip", verify="checksum")
    await aiozarr.copy(tmp_path / "b.zip", tmp_path / "c.zarr", verify="checksum")
    assert list(await (await aiozarr.open_array(tmp_path / "c.zarr", "x"))[...]) == [1, 2, 3, 4]
    assert sorted(await LocalStore(tmp_path / "c.zarr").list()) == sorted(await source.list())


# --- hostile archives --------------------------------------------------------------------------------------------


def link(**others: bytes) -> bytes:
    into = BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for name, value in others.items():
            archive.writestr(name, value)
        info = zipfile.ZipInfo("a")
        info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return into.getvalue()


def patched(data: bytes, at: str, offset: int, value: bytes) -> bytes:
    place = data.rindex({"entry": b"PK\x01\x02", "end": b"PK\x05\x06", "header": b"PK\x03\x04"}[at]) + offset
    return data[:place] + value + data[place + len(value) :]


ONE = archive_of({"a": b"value"})
BOMB = archive_of({"a": bytes(50 << 20)}, zipfile.ZIP_DEFLATED)
HOSTILE: dict[str, tuple[bytes, type[AiozarrError], str]] = {
    "a link": (link(), UnsupportedOperationError, "symbolic"),
    "an encrypted member": (patched(ONE, "entry", 8, b"\x01"), UnsupportedOperationError, "encrypted"),
    "an unknown method": (patched(ONE, "entry", 10, b"\x63"), UnsupportedOperationError, "method 99"),
    "sizes that differ": (patched(ONE, "entry", 24, b"\x06"), StoreError, "sizes differ"),
    "a size without its zip64 field": (patched(ONE, "entry", 20, b"\xff" * 8), StoreError, "zip64"),
    "a size beyond the file": (
        patched(ONE, "entry", 20, b"\x00\x00\x00\x10" * 2),
        StoreError,
        "overlap",
    ),
    "an offset beyond the file": (patched(ONE, "entry", 42, b"\xf0\xf0"), StoreError, "overlap"),
    "a value with another checksum": (patched(ONE, "header", 31, b"V"), StoreError, "checksum"),
    "another name in the header": (patched(ONE, "header", 30, b"b"), StoreError, "header differs"),
    "a directory beyond the file": (patched(ONE, "end", 12, b"\xff\xff\xff\x0f"), StoreError, "exceeds the file"),
    "a huge directory": (patched(ONE, "end", 12, b"\xff\xff\xff\x7f"), LimitError, "directory"),
    "more members than bytes": (patched(ONE, "end", 10, b"\xf0\xf0"), StoreError, "exceeds the file"),
    "fewer members than there are": (
        patched(ONE, "end", 10, b"\0\0"),
        StoreError,
        "1 entries but announces 0",
    ),
    "a lost zip64 record": (patched(ONE, "end", 10, b"\xff\xff"), StoreError, "exceeds the file"),
    "a bomb": (BOMB, LimitError, "decompresses to"),
    "a bomb that lies": (patched(BOMB, "entry", 24, b"\x10\x00\x00\x00"), StoreError, "another size"),
    "a size that deflate cannot reach": (
        patched(archive_of({"a": b"xy" * 9}, 8), "entry", 24, b"\0\0\0\x10"),
        StoreError,
        "cannot decompress",
    ),
    "a member that ends early": (
        patched(archive_of({"a": DATA}, 8), "entry", 24, struct.pack("<L", len(DATA) + 1)),
        StoreError,
        "another size",
    ),
    "no archive": (b"x" * 100, StoreError, "not a zip archive"),
    "nothing": (b"", StoreError, "not a zip archive"),
    "half an archive": (archive_of({"a": DATA})[: len(DATA) // 2], StoreError, "not a zip archive"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_archive_is_refused_with_a_typed_error(tmp_path: Path, name: str) -> None:
    data, kind, message = HOSTILE[name]
    (tmp_path / "x.zip").write_bytes(data)
    inner = MemoryStore()
    await inner.set("x.zip", data)
    for store in (
        ZipStore(tmp_path / "x.zip", max_member_bytes=1 << 20),
        ZipStore(inner, key="x.zip", max_member_bytes=1 << 20),
    ):
        began = time.monotonic()
        with pytest.raises(kind, match=message):
            await store.fetch("a")
        assert time.monotonic() - began < 5  # no bound of speed: the rows ask for an answer at all
    assert os.listdir(tmp_path) == ["x.zip"]


TWO = archive_of({"b": b"other", "a": b"value"})
UNWANTED: dict[str, tuple[bytes, str | None]] = {
    "a name that leads out": (archive_of({"../a": b"", "b": b"other"}), None),
    "an absolute name": (archive_of({"//a": b"", "b": b"other"}), None),
    "a name with an empty part": (archive_of({"a//b": b"", "b": b"other"}), None),
    "a name that is not UTF-8": (archive_of({"ä": b"", "b": b"other"}).replace("ä".encode(), b"\xff\xff"), None),
    "a link": (link(b=b"other"), "symbolic links"),
    "an encrypted member": (patched(TWO, "entry", 8, b"\x01"), "encrypted"),
    "deflate64": (patched(TWO, "entry", 10, b"\x09"), "compressed by Deflate64 are not read; write the archive again"),
    "bzip2": (patched(TWO, "entry", 10, b"\x0c"), "bzip2 are not read; write the archive again with deflate"),
    "LZMA": (patched(TWO, "entry", 10, b"\x0e"), "LZMA"),
    "sizes that differ": (patched(TWO, "entry", 24, b"\x06"), "sizes differ"),
    "a byte behind the end": (TWO + b"\0", None),
    "lines behind the end": (TWO + b"\r\n" * 1000, None),
}


@pytest.mark.parametrize("name", UNWANTED)
async def test_members_that_nobody_asks_for_do_not_hide_the_others(tmp_path: Path, name: str) -> None:
    data, message = UNWANTED[name]
    (tmp_path / "x.zip").write_bytes(data)
    for store in (ZipStore(tmp_path / "x.zip"), ZipStore(LocalStore(tmp_path), key="x.zip")):
        assert bytes(await store.get("b") or b"") == b"other"
        assert {"b"} <= {entry.key async for entry in store.scan()} <= {"a", "b"}
        if message is not None:
            with pytest.raises(StoreError, match=message) as raised:
                await store.get("a")
            assert raised.value.key == "a"


async def test_a_number_of_members_that_has_overflowed_hides_none(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    names = [f"{i:x}" for i in range(65_537)]
    directory = b"".join(
        struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 40 * i)
        + name.encode()
        for i, name in enumerate(names)
    )
    headers = b"".join(
        (struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0) + name.encode()).ljust(
            40, b"\0"
        )
        for name in names
    )
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), len(headers), 0)
    path.write_bytes(headers + directory + end)
    assert await ZipStore(path).get(names[-1]) == b""


async def test_a_bomb_uses_no_more_memory_than_its_declared_size(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(patched(BOMB, "entry", 24, b"\x10\x00\x00\x00"))
    tracemalloc.start()
    try:
        with pytest.raises(StoreError):
            await ZipStore(tmp_path / "x.zip").fetch("a")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_of_a_name_twice_the_last_member_is_read_unless_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for value in ("first", "second"):
            archive.writestr("a", value)
    remote = ZipStore(LocalStore(tmp_path), key="twice.zip")
    assert [bytes(await store.get("a") or b"") for store in (ZipStore(path), remote)] == [b"second"] * 2
    refuse: dict[str, Any] = {"duplicates": "refuse"}
    for refusing in (ZipStore(path, "a", **refuse), ZipStore(LocalStore(tmp_path), key="twice.zip", **refuse)):
        with pytest.raises(StoreError, match="occurs twice"):
            await refusing.get("a")
    with pytest.raises(StoreError, match="occurs twice"):
        await ZipStore(path, "a", **refuse).set("b", b"")


@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_rewriting_an_archive_removes_duplicate_names(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for value in ("first", "second"):
            archive.writestr("a", value)
    store = pickle.loads(pickle.dumps(ZipStore(path, "a")))
    await store.set("b", b"more")
    await store.aclose()
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["a", "b"]
        assert archive.read("a") == b"second"


async def test_special_files_are_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "folder.zip").mkdir()
    for name in ("pipe.zip", "folder.zip"):
        async with asyncio.timeout(10):
            with pytest.raises(StoreError, match=r"not a zip archive|directory"):
                await ZipStore(tmp_path / name).get("a")
    with pytest.raises(StoreError, match="directory"):
        ZipStore(tmp_path / "folder.zip", "w")
    assert sorted(os.listdir(tmp_path)) == ["folder.zip", "pipe.zip"]


def named_by_others() -> bytes:
    """An archive whose names are in code page 437, and in a code page that only a field beside the name makes clear."""
    data = archive_of({"caf_": b"1", "b_r": b"2"})
    data = data.replace(b"caf_", b"caf\x82")  # é
    raw = b"b\xe4r"  # ä in Latin-1
    data = data.replace(b"b_r", raw)
    name = "bär".encode()
    field = struct.pack("<2HBL", 0x7075, 5 + len(name), 1, zlib.crc32(raw)) + name
    at = data.rindex(raw)
    entry = at - 46
    data = data[: entry + 30] + struct.pack("<H", len(field)) + data[entry + 32 : at + 3] + field + data[at + 3 :]
    end = data.rindex(b"PK\5\6")
    length = struct.unpack_from("<L", data, end + 12)[0]
    return data[: end + 12] + struct.pack("<L", length + len(field)) + data[end + 16 :]


@pytest.mark.parametrize("erased", [False, True])
async def test_appending_keeps_the_names_of_other_writers(tmp_path: Path, erased: bool) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(named_by_others())
    assert sorted(await ZipStore(path).list()) == ["bär", "café"]
    async with ZipStore(path, "a") as store:
        await store.set("ü", b"3")
        if erased:
            await store.erase("café")
    expected = {"bär": b"2", "ü": b"3"} | ({} if erased else {"café": b"1"})
    store = ZipStore(path)
    assert {key: await read(store, key) for key in await store.list()} == expected
    inner = MemoryStore()
    await inner.set("x.zip", path.read_bytes())
    behind = ZipStore(inner, key="x.zip")
    assert {key: await read(behind, key) for key in await behind.list()} == expected
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert "ü" in archive.namelist()


UNPACKED_BYTES = 1 << 27


def test_a_bounded_read_of_a_member_that_unpacks_to_far_more_unpacks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    packer = zlib.compressobj(wbits=-15)
    piece = bytes(1 << 24)
    packed = b"".join([packer.compress(piece) for _ in range(UNPACKED_BYTES // len(piece))]) + packer.flush()
    checksum = 0
    for _ in range(UNPACKED_BYTES // len(piece)):
        checksum = zlib.crc32(piece, checksum)
    path.write_bytes(deflated_archive(packed, UNPACKED_BYTES, checksum))
    store = ZipStore(path)
    tracemalloc.start()
    try:
        with pytest.raises(LimitError) as caught:
            store.fetch_now("a", max_bytes=80)  # type: ignore[attr-defined]  # of the class for the local disk
        assert (caught.value.value, caught.value.allowed, caught.value.key) == (UNPACKED_BYTES, 80, "a")
        value = store.fetch_now("a", Range(0, 80), max_bytes=80)  # type: ignore[attr-defined]
        assert bytes(value.data) == bytes(80)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
