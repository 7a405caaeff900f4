"""Files that are read while they are sent: in little memory, of one version."""

from __future__ import annotations

import asyncio
import ctypes
import os
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.engine.copy import local_files
from aiozarr.engine.copy.copy_route import MAX_UPLOADED_BYTES
from aiozarr.engine.copy.local_files import open_body
from aiozarr.errors import ChangedError, StoreError
from aiozarr.stores import LocalStore, ObjectStore
from aiozarr.stores.local.stored_file import StoredFile
from tests.support.certificates import authority
from tests.support.engine_samples import engine
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_replies import Reply, Request, Script
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3

MIB = 1 << 20
EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
LARGE = {f"c/{n}": bytes([n, 7, 9]) * (2 * MIB + n) for n in range(6)}
TREE = {"zarr.json": b"{}", "c/small": b"x", "c/most": b"y" * MAX_UPLOADED_BYTES, **LARGE}


def served(script: Script | None = None, tls: ssl.SSLContext | None = None) -> FaultServer:
    """A bucket of S3, which is always listed as an empty one."""

    def answer(request: Request, usual: Reply) -> Reply:
        if "list-type=2" in request.target:
            return Reply(200, (), EMPTY)
        return usual if script is None else script(request, usual)

    return FaultServer(script=answer, tls=tls)


def options(server: FaultServer) -> dict[str, Any]:
    return {"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1", "verify": False}


def fill(folder: Path, tree: dict[str, bytes] = TREE) -> Path:
    store = LocalStore(folder)
    for key, data in tree.items():
        store.set_now(key, data)
    return folder


def stored(server: FaultServer) -> dict[str, bytes | None]:
    keys = [key for key in server.keys() if ".aiozarr-copy~" not in key]  # noqa: SIM118  # it is no mapping
    return {key.removeprefix("bkt/x/"): server.get(key) for key in keys}


def uploads(server: FaultServer, key: str) -> list[Request]:
    return [request for request in server.requests if request.method == "PUT" and request.key == f"bkt/x/{key}"]


def on_read(monkeypatch: pytest.MonkeyPatch, call: Callable[[StoredFile, int, memoryview], None]) -> None:
    """Have `call` called before each piece of a file is read."""
    read_into = StoredFile.read_into

    def read(self: StoredFile, start: int, memory: memoryview) -> None:
        call(self, start, memory)
        read_into(self, start, memory)

    monkeypatch.setattr(StoredFile, "read_into", read)


@pytest.mark.parametrize(("slow", "secure"), [(False, False), (True, False), (False, True)])
async def test_large_files_are_sent_once_from_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool, secure: bool
) -> None:
    memory: set[int] = set()
    threads: set[str] = set()

    def look(_: StoredFile, start: int, piece: memoryview) -> None:
        memory.add(ctypes.addressof(ctypes.c_char.from_buffer(piece)))
        threads.add(threading.current_thread().name)

    on_read(monkeypatch, look)
    monkeypatch.setattr(local_files, "MAX_READ_SECONDS", -1.0 if slow else 3600.0)
    with served(tls=authority().server() if secure else None) as server:
        report = await aiozarr.copy(fill(tmp_path), "s3://bkt/x", destination_options=options(server))
        assert stored(server) == TREE
        assert all(len(uploads(server, key)) == 1 for key in TREE)
    assert (report.objects, report.bytes, report.changed) == (len(TREE), sum(map(len, TREE.values())), ())
    # Of each object one piece is read, while the transport may hold the one before.
    assert 0 < len(memory) <= 3 * len(LARGE)
    assert (len(threads) > 1) == slow  # the loop's own thread, unless that takes long


@pytest.mark.parametrize("forever", [False, True])
async def test_a_file_that_changes_while_it_is_sent_is_sent_anew_and_never_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forever: bool
) -> None:
    key, folder = "c/3", fill(tmp_path)
    sent = 0

    def change(reader: StoredFile, start: int, _: memoryview) -> None:
        nonlocal sent
        if start and reader.size == len(LARGE[key]) and (forever or sent < 3):
            sent += 1
            with (folder / key).open("r+b") as file:
                file.write(b"%d" % sent)
            os.utime(folder / key, ns=(sent, sent))

    on_read(monkeypatch, change)
    with served() as server:
        report = await aiozarr.copy(
            folder, "s3://bkt/x", destination_options=options(server), on_error="continue" if forever else "raise"
        )
        expected = TREE | {key: b"3" + LARGE[key][1:]}
        if forever:
            assert {failed for failed, _ in report.failed} == {key, "zarr.json"}
            assert "replaced during every attempt" in str(dict(report.failed)[key])
            del expected[key], expected["zarr.json"]
        else:
            assert report.changed == (key,)
            assert len(uploads(server, key)) == 1  # the others were incomplete
        assert stored(server) == expected


@pytest.mark.parametrize("change", ["shorter", "gone"])
async def test_a_file_that_ends_early_is_an_error_of_this_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    key, folder = "c/3", fill(tmp_path)

    def cut(reader: StoredFile, start: int, _: memoryview) -> None:
        if start and reader.size == len(LARGE[key]):
            os.truncate(folder / key, start + 1)
            if change == "gone":
                (folder / key).unlink()

    on_read(monkeypatch, cut)
    with served() as server:
        report = await aiozarr.copy(folder, "s3://bkt/x", destination_options=options(server), on_error="continue")
        if change == "shorter":  # it is whole then, and no file any more that `cut` changes
            assert report.changed == (key,)
            assert server.get(f"bkt/x/{key}") == (folder / key).read_bytes()
        else:
            assert {failed for failed, _ in report.failed} == {key, "zarr.json"}
            assert server.get(f"bkt/x/{key}") is None


async def test_an_upload_that_is_interrupted_is_repeated_from_its_beginning(tmp_path: Path) -> None:
    busy = 3

    def script(request: Request, usual: Reply) -> Reply:
        nonlocal busy
        if request.key.endswith("c/2") and request.method == "PUT" and busy:
            busy -= 1
            return Reply(503, (("Retry-After", "0"),), applied=False) if busy else Reply(reset=True, applied=False)
        return usual

    with served(script) as server:
        report = await aiozarr.copy(fill(tmp_path), "s3://bkt/x", destination_options=options(server))
        assert stored(server) == TREE
        assert [request.body for request in uploads(server, "c/2")] == [LARGE["c/2"]] * 4
    assert report.changed == ()


@pytest.mark.parametrize("damaged", [0, 1, 2])
async def test_a_checksum_compares_the_file_with_what_is_stored(tmp_path: Path, damaged: int) -> None:
    left = damaged

    def script(request: Request, usual: Reply) -> Reply:
        nonlocal left
        if request.method == "GET" and request.key.endswith("c/1") and left:
            left -= 1
            return Reply(usual.status, usual.headers, usual.body[:-1] + b"!")
        return usual

    settings = aiozarr.Settings(max_request_bytes=MIB)
    with served(script) as server:
        arguments: Any = {"destination_options": options(server), "settings": settings, "verify": "checksum"}
        if damaged == 2:
            with pytest.raises(aiozarr.CopyError, match="differ from those stored"):
                await aiozarr.copy(fill(tmp_path), "s3://bkt/x", **arguments)
            return
        await aiozarr.copy(fill(tmp_path), "s3://bkt/x", **arguments)
        assert stored(server) == TREE
        assert len(uploads(server, "c/1")) == 1 + damaged


async def test_each_read_and_each_upload_is_an_event(tmp_path: Path) -> None:
    events: list[Any] = []
    settings = aiozarr.Settings(on_event=events.append)
    with served() as server:
        report = await aiozarr.copy(
            fill(tmp_path, LARGE), "s3://bkt/x", destination_options=options(server), settings=settings
        )
    assert report.requests == sum(event.attempts for event in events if event.store.startswith("s3:"))
    for operation, field in (("fetch", "bytes_fetched"), ("set", "bytes_written")):
        found = {event.key: getattr(event, field) for event in events if event.operation == operation}
        assert {key: found[key] for key in LARGE} == {key: len(data) for key, data in LARGE.items()}


async def test_an_md5_of_the_server_saves_reading_back(tmp_path: Path, s3_server: LocalS3) -> None:
    s3_server.create_bucket("tagged")
    fill(tmp_path, LARGE)
    async with ObjectStore("s3://tagged/x", **s3_server.storage_options) as target:
        with aiozarr.record() as record:
            await aiozarr.copy(tmp_path, target, verify="checksum")
        assert {entry.key: bytes(await target.get(entry.key) or b"") async for entry in target.scan()} == LARGE
    assert record.bytes_fetched == sum(map(len, LARGE.values()))  # of the source alone


@pytest.mark.parametrize("moment", ["opening", "sending"])
async def test_a_cancelled_copy_closes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    opened: list[StoredFile] = []
    begun = threading.Event()
    open_value = LocalStore._open_value

    def note(self: LocalStore, key: str) -> StoredFile | None:
        reader = open_value(self, key)
        assert reader is not None
        opened.append(reader)
        if moment == "opening":
            begun.set()
        return reader

    monkeypatch.setattr(LocalStore, "_open_value", note)
    on_read(monkeypatch, lambda reader, start, memory: begun.set())

    def stall(request: Request, usual: Reply) -> Reply:
        is_large = request.method == "PUT" and len(request.body) > MAX_UPLOADED_BYTES
        return Reply(raw=b"", then="stall", applied=False) if is_large else usual

    with served(stall) as server:
        task = asyncio.ensure_future(aiozarr.copy(fill(tmp_path), "s3://bkt/x", destination_options=options(server)))
        assert await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [key for key in stored(server) if key in LARGE]
    assert opened
    for reader in opened:
        with pytest.raises(StoreError, match="Bad file descriptor"):
            reader.check()


async def test_the_last_bytes_are_not_given_to_a_request_of_two_versions(tmp_path: Path) -> None:
    one, source = engine(), LocalStore(fill(tmp_path))
    async with open_body(one, source, "c/1") as body:
        assert body is not None
        memory = memoryview(bytearray(MIB))
        part = body.part(MIB, 2 * MIB)
        os.utime(tmp_path / "c/1", ns=(1, 1))
        await part.read_into(0, memory)
        assert bytes(memory) == LARGE["c/1"][MIB : 2 * MIB]
        with pytest.raises(ChangedError):
            await part.read_into(MIB, memory)
    async with open_body(one, source, "missing") as body:
        assert body is None


async def test_a_cloud_that_takes_whole_values_only_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("it was not read whole")

    on_read(monkeypatch, refuse)
    with GcsServer("b") as server:
        async with ObjectStore("gs://b/x", **server.storage_options) as target:
            assert not target._can_upload(1)
            await aiozarr.copy(fill(tmp_path, LARGE), target)
            assert {entry.key: bytes(await target.get(entry.key) or b"") async for entry in target.scan()} == LARGE
