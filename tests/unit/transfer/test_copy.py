"""`aiozarr.copy` and its blocking twin, between real stores."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

import aiozarr
from aiozarr.model import Entry
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.transfer import journal
from aiozarr.transfer.journal import is_journal_key
from tests.support.servers.moto import LocalS3

ODD = {
    "zarr.json": b"{}",
    "a b/c/0": b"\x00\xff",
    "Ünïcödé/日本/zarr.json": b"{}",
    "%2e%2e/x": b"percent",
    "a:b/~c/#?&+=": b"signs",
    ".hidden/...": b"dots",
    "empty": b"",
    "deep/" * 30 + "leaf": b"x",
    **{f"many/c/{n // 50}/{n % 50}": bytes([n % 256]) * (n % 97) for n in range(1000)},
}


async def contents(store: Store) -> dict[str, bytes]:
    """The objects of a store, without the journal of an unfinished copy."""
    result = {}
    async for entry in store.scan():
        if is_journal_key(entry.key):
            continue
        value = await store.get(entry.key)
        assert value is not None
        result[entry.key] = bytes(value)
    return result


async def fill(store: Store, values: dict[str, bytes]) -> Store:
    for key, data in values.items():
        await store.set(key, data)
    return store


def temporary_files(folder: Path) -> list[Path]:
    return list(folder.rglob(".aiozarr-write~*"))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


MAKERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "local": LocalStore,
    "network": lambda _: FakeStore(latency=0),
}


@pytest.mark.parametrize("make", MAKERS.values())
async def test_a_destination_that_holds_objects_is_refused(tmp_path: Path, make: Callable[[Path], Store]) -> None:
    source = await fill(MemoryStore(), {"zarr.json": b"{}", "c/0": b"new"})
    there = {"c/0": b"old", "other": b"kept"}
    destination = await fill(make(tmp_path), there)
    first = (await destination.list())[0]
    with pytest.raises(aiozarr.CopyError) as caught:
        await aiozarr.copy(source, destination)
    assert str(caught.value) == (
        f"{destination.url} already contains 2 objects, such as {first!r}; overwrite=True replaces objects with the "
        "same key and keeps all others"
    )
    assert await contents(destination) == there
    await aiozarr.copy(source, destination, overwrite=True)
    assert await contents(destination) == {"zarr.json": b"{}", "c/0": b"new", "other": b"kept"}


@pytest.mark.parametrize("verify", ["size", "checksum"])
@pytest.mark.parametrize("destination", MAKERS)
@pytest.mark.parametrize("source", MAKERS)
async def test_odd_and_many_keys_are_copied_with_all_their_bytes(
    tmp_path: Path, source: str, destination: str, verify: Any
) -> None:
    origin = await fill(MAKERS[source](tmp_path / "from"), ODD)
    target = MAKERS[destination](tmp_path / "to")
    report = await aiozarr.copy(origin, target, verify=verify)
    assert await contents(target) == ODD
    assert (report.objects, report.bytes) == (len(ODD), sum(map(len, ODD.values())))
    assert report.metadata_documents == 2
    assert not temporary_files(tmp_path)


async def test_a_copied_hierarchy_reads_equal(tmp_path: Path) -> None:
    values = np.arange(60 * 60, dtype="f4").reshape(60, 60)
    url = f"memory://{tmp_path.name}"
    await aiozarr.create_group(url, attributes={"title": "t"})
    for name, shards in [("plain", None), ("g/sharded", (20, 20))]:
        array = await aiozarr.create_array(url, name, shape=values.shape, dtype="f4", chunks=(10, 10), shards=shards)
        await array[...].write(values)
    await aiozarr.copy(url, tmp_path / "store")
    await aiozarr.copy(tmp_path / "store", f"file://{tmp_path}/again")
    for name in ("plain", "g/sharded"):
        copied = await aiozarr.open_array(tmp_path / "again", name)
        assert np.array_equal(await copied[...], values)
    assert (await aiozarr.open_group(tmp_path / "again")).attrs == {"title": "t"}


async def test_one_array_of_a_hierarchy_is_copied_by_its_own_url(tmp_path: Path) -> None:
    await aiozarr.create_group(tmp_path / "store")
    array = await aiozarr.create_array(tmp_path / "store", "g/a", shape=(4,), dtype="i2", chunks=(2,))
    await array[...].write([1, 2, 3, 4])
    report = await aiozarr.copy(array.url, tmp_path / "a")
    assert report.objects == 3
    assert (await (await aiozarr.open_array(tmp_path / "a"))[...]).tolist() == [1, 2, 3, 4]


async def test_a_mirror_copies_only_what_differs(tmp_path: Path, s3_server: LocalS3) -> None:
    s3_server.create_bucket("mirror")
    options = s3_server.storage_options
    few = dict(list(ODD.items())[:30])
    one = await fill(LocalStore(tmp_path / "one"), few)
    places: list[tuple[Any, Any]] = [
        (one, tmp_path / "two"),
        (one, "s3://mirror/x"),
        ("s3://mirror/x", tmp_path / "three"),
    ]
    for change, copied in ((None, len(few)), (None, 0), ("zarr.json", 1), ("empty", 1)):
        if change is not None:
            data = b"[]" if change == "zarr.json" else b"not empty any more"
            few[change] = data
            await one.set(change, data)
        for source, target in places:
            keywords = {"source_options": options} if isinstance(source, str) else {}
            keywords |= {"destination_options": options} if isinstance(target, str) else {}
            report = await aiozarr.copy(source, target, delete=True, **keywords)
            assert (report.objects, report.skipped) == (copied, len(few) - copied), (source, target, change)
    assert await contents(LocalStore(tmp_path / "three")) == few


async def test_small_files_are_uploaded_side_by_side_and_each_failure_is_named(tmp_path: Path) -> None:
    def faults(call: Any) -> Any:
        return aiozarr.PermissionDeniedError("no") if call.key == "many/c/3/7" else None

    source = await fill(LocalStore(tmp_path), ODD)
    target = FakeStore(latency=0.001, faults=faults)
    report = await aiozarr.copy(source, target, on_error="continue")
    assert {key for key, _ in report.failed} == {"many/c/3/7", "zarr.json"}
    assert await contents(target) == {key: ODD[key] for key in ODD if key not in ("many/c/3/7", "zarr.json")}
    assert target.max_in_flight >= 32
    with pytest.raises(aiozarr.CopyError, match="many/c/3/7"):
        await aiozarr.copy(source, FakeStore(latency=0.001, faults=faults))


async def test_a_large_file_is_copied_in_parts(tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes(3_000_001)
    source = await fill(LocalStore(tmp_path / "from"), {"c/0": data})
    settings = aiozarr.Settings(max_request_bytes=1 << 20)
    for target in (LocalStore(tmp_path / "to"), MemoryStore()):
        await aiozarr.copy(source, target, settings=settings, verify="checksum")
        assert await contents(target) == {"c/0": data}


async def test_progress_is_called_on_the_calling_loop(tmp_path: Path) -> None:
    told: list[tuple[int, aiozarr.Progress]] = []
    source = await fill(MemoryStore(), ODD)
    await aiozarr.copy(source, tmp_path / "x", progress=lambda p: told.append((threading.get_ident(), p)))
    assert {ident for ident, _ in told} == {threading.get_ident()}
    done = [progress.done for _, progress in told]
    assert done == sorted(done)


async def test_the_record_around_a_copy_counts_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MIN_WRITE_SECONDS", math.inf)  # a slow copy would write batches of its journal
    source = await fill(MemoryStore(), ODD)
    with aiozarr.record() as record:
        report = await aiozarr.copy(source, MemoryStore())
    # Both stores are listed once, and the header of the journal is stored and removed.
    assert record.requests == 2 + 2 * len(ODD) + 2 + 2  # versions of documents are looked at again
    assert report.requests == 0  # no network was used
    assert record.bytes_written > report.bytes


async def test_a_file_in_the_place_of_a_folder_fails_and_the_rest_is_copied(tmp_path: Path) -> None:
    source = await fill(MemoryStore(), {"a": b"file", "a/b": b"below", "c": b"other"})
    report = await aiozarr.copy(source, tmp_path / "x", on_error="continue")
    assert [key for key, _ in report.failed] in (["a"], ["a/b"])
    assert (tmp_path / "x" / "c").read_bytes() == b"other"
    with pytest.raises(aiozarr.CopyError) as caught:
        await aiozarr.copy(source, tmp_path / "y")
    assert isinstance(caught.value.__cause__, aiozarr.StoreError)


async def test_a_hostile_listing_never_leaves_the_folder(tmp_path: Path) -> None:
    class Hostile(MemoryStore):
        async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
            yield Entry("../escaped", 1)
            yield Entry("/" + str(tmp_path / "absolute").lstrip("/"), 1)
            async for entry in super().scan(prefix):
                yield entry

    source = await fill(Hostile(), {"c/0": b"x", "zarr.json": b"{}"})
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, tmp_path / "to")
    report = await aiozarr.copy(source, tmp_path / "to", on_error="continue")
    assert len(report.failed) == 3
    assert names_in(tmp_path) == ["to"]
    assert await contents(LocalStore(tmp_path / "to")) == {"c/0": b"x"}


# --- bad input ---------------------------------------------------------------------------------------------------


async def test_an_empty_source_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(aiozarr.NodeNotFoundError, match="missing"):
        await aiozarr.copy(tmp_path / "missing", tmp_path / "to")
    assert not (tmp_path / "to").exists()


async def test_source_and_destination_must_be_disjoint(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    for source, destination in [(".", "."), (".", "to"), ("to", ".")]:
        with pytest.raises(ValueError, match=r"same|inside"):
            await aiozarr.copy(tmp_path / source, tmp_path / destination)


async def test_unlistable_sources_and_unwritable_destinations_are_refused() -> None:
    class Limited(MemoryStore):
        pass

    group = b'{"zarr_format": 3, "node_type": "group"}'
    unlisted, unwritten = await fill(Limited(), ODD | {"zarr.json": group}), Limited()
    unlisted.supports = replace(MemoryStore.supports, listable=False)
    unwritten.supports = replace(MemoryStore.supports, writable=False)
    with pytest.raises(aiozarr.UnsupportedOperationError, match="listed"):
        await aiozarr.copy(unlisted, MemoryStore())
    with pytest.raises(aiozarr.UnsupportedOperationError, match="written"):
        await aiozarr.copy(await fill(MemoryStore(), ODD), unwritten)


async def test_wrong_arguments_raise_type_and_value_errors(tmp_path: Path) -> None:
    store = await fill(MemoryStore(), ODD)
    with pytest.raises(ValueError, match="verify"):
        await aiozarr.copy(store, tmp_path / "x", verify="md5")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_error"):
        await aiozarr.copy(store, tmp_path / "x", on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="storage_options"):
        await aiozarr.copy(store, tmp_path / "x", source_options={"anon": True})
    with pytest.raises(aiozarr.UnknownSchemeError):
        await aiozarr.copy(store, "nonsense://x")
    assert not (tmp_path / "x").exists()


async def test_a_copy_that_takes_too_long_is_stopped() -> None:
    source, destination = FakeStore({"c/0": b"x", "zarr.json": b"{}"}, latency=30), FakeStore()
    with pytest.raises(aiozarr.StoreTimeoutError):
        await aiozarr.copy(source, destination, settings=aiozarr.Settings(timeout=0.05))
    assert source.in_flight == 0


async def test_a_cancelled_copy_between_files_leaves_whole_files_and_no_document(tmp_path: Path) -> None:
    source = await fill(LocalStore(tmp_path / "from"), ODD)
    halfway = asyncio.Event()
    task = asyncio.ensure_future(
        aiozarr.copy(
            source,
            tmp_path / "to",
            settings=aiozarr.Settings(max_requests=1),
            progress=lambda p: halfway.set() if p.done > 50 else None,
        )
    )
    await halfway.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stored = await contents(LocalStore(tmp_path / "to"))
    await asyncio.sleep(0.05)
    assert await contents(LocalStore(tmp_path / "to")) == stored
    assert all(ODD[key] == data for key, data in stored.items())
    assert "zarr.json" not in stored
    assert not temporary_files(tmp_path)


# --- the blocking twin -------------------------------------------------------------------------------------------


def test_the_blocking_twin_copies_and_calls_progress_in_the_calling_thread(tmp_path: Path) -> None:
    source = asyncio.run(fill(MemoryStore(), ODD))
    told: list[tuple[int, aiozarr.Progress]] = []
    report = aiozarr.sync.copy(source, tmp_path / "x", progress=lambda p: told.append((threading.get_ident(), p)))
    assert report.objects == len(ODD)
    assert told[-1] == (threading.get_ident(), aiozarr.Progress(len(ODD), len(ODD), report.bytes, report.bytes))
    assert asyncio.run(contents(LocalStore(tmp_path / "x"))) == ODD


def test_the_blocking_twin_raises_the_same_errors(tmp_path: Path) -> None:
    with pytest.raises(aiozarr.NodeNotFoundError):
        aiozarr.sync.copy(tmp_path / "missing", tmp_path / "to")


# --- an object store ---------------------------------------------------------------------------------------------


async def test_a_bucket_is_copied_to_and_from(tmp_path: Path, s3_server: LocalS3) -> None:
    s3_server.create_bucket("copies")
    options = s3_server.storage_options
    few = dict(list(ODD.items())[:60])
    source = await fill(MemoryStore(), few)
    up = await aiozarr.copy(source, "s3://copies/a.zarr", destination_options=options, verify="checksum")
    across = await aiozarr.copy(
        "s3://copies/a.zarr", "s3://copies/b.zarr", source_options=options, destination_options=options
    )
    down = await aiozarr.copy("s3://copies/b.zarr", tmp_path / "c", source_options=options)
    assert await contents(LocalStore(tmp_path / "c")) == few
    for report in (up, across, down):
        assert (report.objects, report.failed, report.changed) == (len(few), (), ())
    with pytest.raises(ValueError, match="inside"):
        await aiozarr.copy(
            "s3://copies/a.zarr", "s3://copies/a.zarr/b", source_options=options, destination_options=options
        )


def put(url: str, data: bytes) -> None:
    headers = {"Content-Type": "application/octet-stream"}
    with urlopen(Request(url, data=data, method="PUT", headers=headers), timeout=30):
        pass


async def test_folder_markers_in_a_bucket_do_not_stop_a_copy(tmp_path: Path, s3_server: LocalS3) -> None:
    s3_server.create_bucket("marked")
    for key, data in {"x/": b"", "x/c/": b"", "x/c/0": b"chunk", "x/zarr.json": b"{}"}.items():
        await asyncio.to_thread(put, f"{s3_server.endpoint_url}/marked/{key}", data)
    report = await aiozarr.copy("s3://marked/x", tmp_path / "x", source_options=s3_server.storage_options)
    assert (report.objects, report.failed) == (2, ())
    assert await contents(LocalStore(tmp_path / "x")) == {"c/0": b"chunk", "zarr.json": b"{}"}
