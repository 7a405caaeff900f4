"""Files that are read in pieces of one version."""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import md5
from pathlib import Path

import google_crc32c
import pytest

from aiozarr.errors import ChangedError, PermissionDeniedError
from aiozarr.stores import LocalStore
from aiozarr.stores.local.stored_file import READ_BYTES, StoredFile

DATA = bytes(range(256)) * (READ_BYTES // 100)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path)
    made.set_now("a", DATA)
    return made


def opened(store: LocalStore) -> StoredFile:
    reader = store._open_value("a")
    assert reader is not None
    return reader


def test_pieces_and_digests_are_those_of_the_file(store: LocalStore) -> None:
    reader = opened(store)
    value = store.fetch_now("a")
    assert value is not None
    assert (reader.size, reader.version) == (len(DATA), value.version)
    memory = memoryview(bytearray(READ_BYTES))
    reader.read_into(1000, memory)
    assert bytes(memory) == DATA[1000 : 1000 + READ_BYTES]
    part = DATA[7 : 7 + 2 * READ_BYTES]
    assert reader.crc32c(7, len(part)) == b64encode(google_crc32c.value(part).to_bytes(4, "big")).decode()
    assert reader.md5() == md5(DATA, usedforsecurity=False).hexdigest()
    reader.check()
    reader.close()


def test_a_replaced_file_stays_as_it_was(store: LocalStore) -> None:
    reader = opened(store)
    store.set_now("a", b"new")
    memory = memoryview(bytearray(len(DATA)))
    reader.read_into(0, memory)
    assert bytes(memory) == DATA
    reader.check()
    reader.close()


def test_a_file_that_is_changed_in_place_is_found_out(store: LocalStore, tmp_path: Path) -> None:
    reader = opened(store)
    with (tmp_path / "a").open("r+b") as file:
        file.write(b"x")
    os.utime(tmp_path / "a", ns=(1, 1))  # file systems keep the time of a change to some milliseconds
    with pytest.raises(ChangedError) as caught:
        reader.check()
    assert (caught.value.store, caught.value.key) == (store.url, "a")
    os.truncate(tmp_path / "a", 10)
    for read in (
        lambda: reader.read_into(0, memoryview(bytearray(20))),
        lambda: reader.crc32c(0, 20),
        reader.md5,
    ):
        with pytest.raises(ChangedError):
            read()
    reader.close()


def test_what_is_no_value_is_none(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for key in ("missing", "folder", "pipe", ".aiozarr-write~x"):
        assert store._open_value(key) is None
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
    if os.geteuid():
        (tmp_path / "a").chmod(0)
        with pytest.raises(PermissionDeniedError):
            store._open_value("a")
