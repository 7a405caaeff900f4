"""A store of aiozarr as a mapping and as a file system of fsspec."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.asyn import AsyncFileSystem

import aiozarr
from aiozarr import sync
from aiozarr.errors import StoreError
from aiozarr.integrations.fsspec import StoreFileSystem, mapping
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.stores.fsspec.store import FsspecStore
from aiozarr.testing.conformance import StoreConformance


class TestThereAndBackAgain(StoreConformance):
    many_keys = 100

    async def make_store(self) -> Store:
        return FsspecStore(StoreFileSystem(MemoryStore()), path="top")


def filled() -> tuple[MemoryStore, StoreFileSystem]:
    store = MemoryStore()
    for key, data in {"a/b": b"0123456789", "a/c/d": b"", "e": b"xyz"}.items():
        store.set_now(key, data)
    return store, StoreFileSystem(store)


def test_a_mapping_reads_writes_lists_and_removes() -> None:
    store, _ = filled()
    values = mapping(store)
    assert dict(values) == {"a/b": b"0123456789", "a/c/d": b"", "e": b"xyz"}
    assert len(values) == 3
    assert "a/b" in values
    assert "a" not in values
    assert 5 not in values
    values["n"] = np.arange(2, dtype="<u2")
    assert store.fetch_now("n") is not None
    assert values["n"] == b"\0\0\1\0"
    assert values.getitems(["e", "gone", "n"]) == {"e": b"xyz", "n": b"\0\0\1\0"}  # type: ignore[attr-defined]
    del values["n"]
    for remove in (lambda: values["n"], lambda: values.pop("n"), lambda: values.__delitem__("n")):
        with pytest.raises(KeyError):
            remove()
    values.clear()
    assert list(values) == []


async def test_a_mapping_works_inside_a_running_loop() -> None:
    store, _ = filled()
    assert mapping(store)["e"] == b"xyz"
    with aiozarr.record() as report:
        mapping(store)["e"]
    assert report.requests == 1


def test_a_file_system_reads_any_slice() -> None:
    _, fs = filled()
    data = b"0123456789"
    for start in (None, 0, 3, 10, 12, -4, -20):
        for end in (None, 0, 5, 10, 50, -2, -20):
            assert fs.cat_file("a/b", start=start, end=end) == data[start:end], (start, end)
    assert fs.cat("aiozarr://a/b") == data
    assert fs.cat_ranges(["a/b", "e"], [1, 0], [3, 2]) == [b"12", b"xy"]
    with fs.open("a/b") as file:
        file.seek(4)
        assert file.read(3) == b"456"
    for path in ("a", "gone", "a//b", ""):
        with pytest.raises(FileNotFoundError):
            fs.cat_file(path)


def test_a_file_system_lists_and_finds_entries() -> None:
    _, fs = filled()
    assert fs.ls("", detail=False) == ["a", "e"]
    assert fs.ls("a") == [
        {"name": "a/b", "size": 10, "type": "file"},
        {"name": "a/c", "size": 0, "type": "directory"},
    ]
    assert fs.ls("e", detail=False) == ["e"]
    assert fs.find("") == ["a/b", "a/c/d", "e"]
    assert fs.find("a", maxdepth=1) == ["a/b"]
    assert fs.find("e", detail=True) == {"e": {"name": "e", "size": 3, "type": "file"}}
    assert fs.info("a")["type"] == "directory"
    assert fs.isdir("a/c")
    assert fs.isfile("e")
    assert not fs.exists("gone")
    for call in (fs.info, fs.ls):
        with pytest.raises(FileNotFoundError):
            call("gone")


def test_a_file_system_writes_copies_and_removes(tmp_path: Path) -> None:
    store, fs = filled()
    with fs.open("new/x", "wb") as file:
        file.write(b"1")
        file.write(b"2")
    assert fs.cat_file("new/x") == b"12"
    with pytest.raises(FileExistsError):
        fs.pipe_file("new/x", b"3", mode="create")
    fs.pipe_file("new/y", b"3", mode="create")
    fs.cp_file("new/y", "new/z")
    fs.get_file("new/z", str(tmp_path / "z"))
    assert (tmp_path / "z").read_bytes() == b"3"
    fs.put_file(str(tmp_path / "z"), "put")
    assert fs.cat_file("put") == b"3"
    fs.rm("put")
    with pytest.raises(FileNotFoundError):
        fs.rm("put")
    fs.rm("new", recursive=True)
    assert fs.find("new") == []
    with pytest.raises(StoreError):
        fs.pipe_file("a//b", b"")
    assert asyncio.run(store.list()) == ["a/b", "a/c/d", "e"]


def test_file_systems_pickle_with_their_store_and_compare_by_it(tmp_path: Path) -> None:
    fs = StoreFileSystem(LocalStore(tmp_path))
    assert pickle.loads(pickle.dumps(fs)) == fs
    assert fs == StoreFileSystem(LocalStore(tmp_path))
    assert fs != StoreFileSystem(LocalStore(tmp_path / "x"))
    again = AsyncFileSystem.from_json(fs.to_json())
    assert again.store is fs.store
    elsewhere = json.loads(fs.to_json()) | {"store": "0"}
    with pytest.raises(ValueError, match="another process"):
        StoreFileSystem(elsewhere["store"])


@pytest.mark.filterwarnings("ignore:.*:zarr.errors.ZarrUserWarning")
def test_zarr_python_reads_and_writes_arrays_through_it() -> None:
    store = MemoryStore()
    values = np.arange(600).reshape(20, 30)
    sync.create_group(store)
    array = sync.create_array(store, "a", shape=values.shape, dtype=values.dtype, chunks=(5, 6), shards=(10, 30))
    array[...] = values
    mapper = StoreFileSystem(store).get_mapper("")
    theirs = zarr.open_group(mapper, mode="r+")
    assert (theirs["a"][3:15, ::2] == values[3:15, ::2]).all()
    theirs["a"][:2] = -1
    assert (array[:2] == -1).all()
    made = theirs.create_array("b", shape=10, chunks=3, dtype="f4")
    made[:] = 2
    assert (sync.open_array(store, "b")[...] == 2).all()
    del theirs["a"]
    assert "a" not in sync.open_group(store)


async def test_arrays_are_read_and_written_through_a_file_system_by_parts(tmp_path: Path) -> None:
    fs = fsspec.filesystem("memory")
    where = f"memory-{tmp_path.name}"
    store = FsspecStore(fs, path=where)
    values = np.arange(10_000, dtype="i4").reshape(100, 100)
    array = await aiozarr.create_array(store, "a", shape=values.shape, dtype="i4", chunks=(10, 10), shards=(50, 50))
    with pytest.warns(aiozarr.UnsafeWriteWarning):
        await array[...].write(values)
        await array[3:5, 3:5].write(0)
    values[3:5, 3:5] = 0
    again = await aiozarr.open_array(f"simplecache::memory://{where}", "a")
    for each in (array, again):
        assert (await each[...] == values).all()
        with aiozarr.record() as report:
            assert (await each[7:23, 90] == values[7:23, 90]).all()
        assert report.bytes_fetched < 8000
    await again.aclose()


def test_appending_to_a_file_keeps_its_content() -> None:
    _, files = filled()
    for path, expected in {"e": b"xyz+", "new": b"+"}.items():
        with files.open(path, "ab") as file:
            file.write(b"+")
            assert file.tell() == len(expected)
        assert files.cat_file(path) == expected


def test_exclusive_creation_never_replaces_a_file() -> None:
    _, files = filled()
    with pytest.raises(FileExistsError):
        files.open("e", "xb")
    with pytest.raises(FileExistsError), files.open("f", "xb") as file:
        file.write(b"mine")
        files.pipe_file("f", b"theirs")
    assert (files.cat_file("e"), files.cat_file("f")) == (b"xyz", b"theirs")


def test_a_transaction_that_fails_writes_nothing() -> None:
    _, files = filled()

    def fail() -> None:
        with files.transaction, files.open("e", "wb") as file:
            file.write(b"other")
            file.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert files.cat_file("e") == b"xyz"
    with files.transaction, files.open("e", "wb") as file:
        file.write(b"other")
    assert files.cat_file("e") == b"other"


def test_folders_are_fetched_recursively(tmp_path: Path) -> None:
    _, files = filled()
    files.get("a/", f"{tmp_path}/to/", recursive=True)
    assert (tmp_path / "to/b").read_bytes() == b"0123456789"
    assert (tmp_path / "to/c/d").read_bytes() == b""
    with pytest.raises(FileNotFoundError):
        files.get("gone", str(tmp_path / "gone"))
