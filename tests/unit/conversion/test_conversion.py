"""`aiozarr.convert` and its blocking twin."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import zarr

import aiozarr
from aiozarr import sync
from aiozarr.conversion import conversion_task
from aiozarr.conversion.conversion_journal import FOLDER, JOURNAL_KEY
from aiozarr.hierarchy.casting import convert_values
from aiozarr.stores import LocalStore, MemoryStore, PrefixStore, ReadOnlyStore, Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Call, Delay

VALUES = np.arange(16 * 12 * 10, dtype="f4").reshape(16, 12, 10)
NAMES = ("t", "y", "x")


async def maps(store: Any = None, **options: Any) -> Store:
    """A store with an array of one chunk per first index."""
    store = MemoryStore() if store is None else store
    await aiozarr.create_array(
        store, data=VALUES, **{"chunks": (1, 12, 10), "dimension_names": ("t", "y", "x"), **options}
    )
    return store


async def tree(store: Any = None) -> Store:
    store = MemoryStore() if store is None else store
    group = await aiozarr.create_group(store, zarr_format=2, attributes={"title": "a", "missing": float("nan")})
    await group.create_array(
        "sea/t", data=VALUES, chunks=(1, 12, 10), dimension_names=["t", "y", "x"], attributes={"u": "K"}
    )
    await group.create_array("t", data=VALUES[:, 0, 0], dimension_names=["t"], fill_value=-1)
    await group.create_group("empty")
    await aiozarr.consolidate_metadata(store)
    return store


async def values(store: Any, path: str = "") -> np.ndarray:
    return await (await aiozarr.open_array(store, path))[...]


async def test_a_tree_is_converted_with_attributes_names_and_consolidated_metadata(tmp_path: Path) -> None:
    report = await aiozarr.convert(await tree(), tmp_path / "new", zarr_format=3, chunks={"t": -1, "x": 5})
    assert (report.arrays, report.groups, report.failed) == (2, 3, ())
    group = zarr.open_consolidated(tmp_path / "new")
    assert dict(group.attrs) == {"title": "a", "missing": "NaN"}
    assert "NaN" in report.notes[""]
    found: Any = group["sea/t"]
    assert (found.chunks, found.metadata.zarr_format) == ((16, 12, 5), 3)
    assert found.metadata.dimension_names == ("t", "y", "x")
    assert dict(found.attrs) == {"u": "K"}
    assert np.array_equal(found[...], VALUES)
    assert group["t"].fill_value == -1
    assert sorted(name for name, _ in group.members()) == ["empty", "sea", "t"]


@pytest.mark.parametrize("is_consolidated", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_groups_without_documents_are_converted_as_groups(
    tmp_path: Path, zarr_format: int, is_consolidated: bool
) -> None:
    store = LocalStore(tmp_path / "old")
    group = await aiozarr.create_group(store, zarr_format=zarr_format)
    await group.create_array("g/a", data=[1, 2])
    if zarr_format == 2:
        await store.set("g/.zattrs", b'{"level": 1}')
    if is_consolidated:  # as another program does it, without the groups that have no document
        await aiozarr.consolidate_metadata(store)
        key = {2: ".zmetadata", 3: "zarr.json"}[zarr_format]
        document = json.loads(bytes(await store.get(key) or b""))
        copies = document["metadata"] if zarr_format == 2 else document["consolidated_metadata"]["metadata"]
        del copies["g/.zgroup" if zarr_format == 2 else "g"]
        await store.set(key, json.dumps(document).encode())
    await store.erase("g/.zgroup" if zarr_format == 2 else "g/zarr.json")
    report = await aiozarr.convert(store, tmp_path / "new", zarr_format=3)
    assert (report.arrays, report.groups) == (1, 2)
    for options in ({}, {"use_consolidated": False}):
        found: Any = zarr.open_group(tmp_path / "new", mode="r", zarr_format=3, **options)  # type: ignore[arg-type]
        assert [name for name, _ in found.members(max_depth=None)] == ["g", "g/a"]
        assert dict(found["g"].attrs) == ({"level": 1} if zarr_format == 2 else {})


async def test_arrays_below_a_folder_keep_their_format(tmp_path: Path) -> None:
    await aiozarr.create_array(PrefixStore(LocalStore(tmp_path / "old"), "g/a"), data=[1, 2], zarr_format=2)
    await aiozarr.convert(tmp_path / "old", tmp_path / "new")
    found: Any = zarr.open_group(tmp_path / "new", mode="r")
    assert [name for name, _ in found.members(max_depth=None)] == ["g", "g/a"]
    assert not [key for key in await LocalStore(tmp_path).list() if key.endswith("zarr.json")]


async def test_what_belongs_to_no_node_is_named_in_notes() -> None:
    store = await tree()
    for key in ("sea/OME/METADATA.ome.xml", "sea/points.parquet", "notes\n.txt", *[f"x{n}" for n in range(6)]):
        await store.set(key, b"x")
    for report in (await aiozarr.plan_conversion(store, MemoryStore()), await aiozarr.convert(store, MemoryStore())):
        assert report.notes == {
            "": r"not converted, because it is not part of a node: notes\n.txt, x0, x1, x2, x3, …",
            "sea": "not converted, because it is not part of a node: OME/, points.parquet",
        }


async def test_each_node_of_a_tree_keeps_its_format() -> None:
    store, result = MemoryStore(), MemoryStore()
    group = await aiozarr.create_group(store, attributes={"a": 1})
    await group.create_array("three", data=VALUES, chunks=(4, 4, 5), shards=(8, 12, 10))
    await aiozarr.create_group(PrefixStore(store, "old/"), zarr_format=2)
    await aiozarr.create_array(PrefixStore(store, "old/two/"), data=VALUES, zarr_format=2, dimension_separator="/")
    report = await aiozarr.convert(store, result)
    assert (report.arrays, report.groups, dict(report.notes)) == (2, 2, {})
    assert sorted(await result.list()) == sorted(await store.list())
    for key in await store.list():
        if key.rpartition("/")[2] in ("zarr.json", ".zgroup", ".zarray", ".zattrs"):
            assert await result.get(key) == await store.get(key)
    for path in ("three", "old/two"):
        assert np.array_equal(await values(result, path), VALUES)


async def test_a_region_is_cast_sharded_and_compressed_anew() -> None:
    result = MemoryStore()
    region = np.s_[3:9, ..., 2:]
    await aiozarr.convert(
        await maps(), result, region=region, dtype="int16", chunks=(2, 3, 4), shards=(4, 12, 8), codecs=["gzip"]
    )
    array = await aiozarr.open_array(result)
    assert (array.chunks, array.shards, array.dtype) == ((2, 3, 4), (4, 12, 8), np.dtype("int16"))
    assert np.array_equal(await array[...], VALUES[region])


async def test_a_region_is_cast_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def note(values: Any, *args: Any, **options: Any) -> Any:
        if values.ndim:  # not the fill value
            pieces.append(values.nbytes)
        return convert_values(values, *args, **options)

    monkeypatch.setattr("aiozarr.hierarchy.internal.convert_values", note)
    monkeypatch.setattr(conversion_task, "CAST_BYTES", 800)
    result = MemoryStore()
    await aiozarr.convert(await maps(), result, dtype="f8", chunks=VALUES.shape)
    assert np.array_equal(await values(result), VALUES)
    assert sum(pieces) == VALUES.nbytes
    assert max(pieces) <= 2 * 800


async def test_every_source_chunk_is_read_once_and_every_object_written_once() -> None:
    source, result = FakeStore(latency=0), FakeStore(latency=0)
    await maps(source)
    plan = await aiozarr.plan_conversion(source, result, chunks=(16, 4, 5), max_memory=20_000)
    assert len(plan.stages) == 1
    source.reset()
    result.reset()
    report = await aiozarr.convert(source, result, chunks=(16, 4, 5), max_memory=20_000)
    reads = [key for key, _ in source.log() if key.startswith("c/")]
    writes = [key for key, _ in result.log("set") if key.startswith("c/")]
    assert sorted(reads) == sorted(set(reads))
    assert len(reads) == 16
    assert sorted(writes) == sorted(set(writes))
    assert len(writes) == 6
    assert len(reads) + len(writes) <= plan.requests
    assert report.tasks == plan.stages[0].tasks
    assert np.array_equal(await values(result), VALUES)


async def test_intermediate_arrays_are_erased_and_may_have_a_place_of_their_own() -> None:
    for temporary in (None, MemoryStore()):
        result = MemoryStore()
        options: dict[str, Any] = {
            "chunks": (16, 1, 1),
            "max_memory": 4000,
            "max_amplification": 1,
            "temporary": temporary,
        }
        plan = await aiozarr.plan_conversion(await maps(), result, **options)
        assert len(plan.stages) > 1
        await aiozarr.convert(await maps(), result, **options)
        assert np.array_equal(await values(result), VALUES)
        for store in (result, temporary or result):
            assert not [entry async for entry in store.scan(f"{FOLDER}/")]


async def test_arrays_without_dimensions_or_elements_are_converted() -> None:
    for shape in ((), (0,), (3, 0)):
        source, result = MemoryStore(), MemoryStore()
        await aiozarr.create_array(source, data=np.full(shape, 7, "i2"))
        await aiozarr.convert(source, result, zarr_format=2)
        assert np.array_equal(await values(result), np.full(shape, 7, "i2"))


async def test_a_destination_that_holds_keys_is_refused_and_erased_by_overwrite() -> None:
    result = await maps()
    with pytest.raises(aiozarr.NodeExistsError, match=r"overwrite=True would delete the array, 16 objects"):
        await aiozarr.convert(await maps(), result, chunks=8)
    await aiozarr.convert(await maps(), result, chunks=(16, 12, 10), overwrite=True)
    assert [entry.key async for entry in result.scan("c/")] == ["c/0/0/0"]


async def test_a_conversion_that_fails_shows_no_result_and_is_resumed() -> None:
    source, result = await maps(), FakeStore(latency=0)
    options: dict[str, Any] = {"chunks": (4, 4, 4), "max_memory": 4000}
    plan = await aiozarr.plan_conversion(source, result, **options)
    stop_after(result, 20)
    with pytest.raises(aiozarr.StoreError, match="no more"):
        await aiozarr.convert(source, result, **options)
    del result.set
    with pytest.raises((aiozarr.NodeNotFoundError, aiozarr.NodeTypeError)):
        await aiozarr.open_array(result)
    with pytest.raises(aiozarr.CopyError, match="resume=True continues it"):
        await aiozarr.convert(source, result, **options)
    with pytest.raises(aiozarr.CopyError, match="other arguments"):
        await aiozarr.convert(source, result, chunks=(4, 4, 5), max_memory=4000, resume=True)
    report = await aiozarr.convert(source, result, **options, resume=True)
    assert report.skipped > 0
    assert report.skipped + report.tasks == sum(stage.tasks for stage in plan.stages)
    assert np.array_equal(await values(result), VALUES)


def stop_after(store: Any, writes: int) -> None:
    """Let the store fail after so many written chunks."""
    left = [writes]
    original = type(store).set

    async def set_chunk(key: str, value: Any, **options: Any) -> Any:
        if key.startswith("c/"):
            left[0] -= 1
            if left[0] < 0:
                raise aiozarr.StoreError("no more", store=store.url, key=key)
        return await original(store, key, value, **options)

    store.set = set_chunk


async def test_resume_without_an_interrupted_conversion_begins() -> None:
    result = MemoryStore()
    report = await aiozarr.convert(await maps(), result, chunks=8, resume=True)
    assert report.skipped == 0
    assert np.array_equal(await values(result), VALUES)


async def test_on_error_continue_names_the_regions_and_writes_the_other_arrays() -> None:
    source, result = MemoryStore(), MemoryStore()
    group = await aiozarr.create_group(source)
    await group.create_array("good", data=np.arange(4.0))
    await group.create_array("bad", data=np.arange(4.0) / 3)
    report = await aiozarr.convert(source, result, dtype="i4", on_error="continue")
    ((region, error),) = report.failed
    assert region == "bad [(0, 4)]"
    assert isinstance(error, TypeError)
    assert report.arrays == 1
    assert (await values(result, "good")).tolist() == [0, 1, 2, 3]
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open_array(result, "bad")
    assert await result.exists(JOURNAL_KEY)


async def test_an_executor_gives_the_same_report_and_progress() -> None:
    seen: list[aiozarr.Progress] = []
    options: dict[str, Any] = {"chunks": (4, 4, 4), "max_memory": 4000}
    here, there = MemoryStore(), MemoryStore()
    source = await maps()
    first = await aiozarr.convert(source, here, **options)
    with ThreadPoolExecutor(2) as executor:
        second = await aiozarr.convert(source, there, **options, executor=executor, progress=seen.append)
    assert (first.tasks, first.bytes, first.bytes_read) == (second.tasks, second.bytes, second.bytes_read)
    assert (seen[-1].done, seen[-1].bytes_done) == (seen[-1].total, seen[-1].bytes_total)
    assert np.array_equal(await values(there), VALUES)


async def test_the_error_of_a_task_in_an_executor_is_raised_with_its_region() -> None:
    with ThreadPoolExecutor(2) as executor, pytest.raises(TypeError, match="not one of") as caught:
        source = MemoryStore()
        await aiozarr.create_array(source, data=np.array([0.5]))
        await aiozarr.convert(source, MemoryStore(), dtype="i4", executor=executor)
    assert "[(0, 1)]" in caught.value.__notes__[0]


async def test_a_broken_executor_loses_nothing() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    source, result = await maps(), MemoryStore()
    with pytest.raises(aiozarr.CopyError, match="resume=True continues"):
        await aiozarr.convert(source, result, chunks=8, executor=executor)
    await aiozarr.convert(source, result, chunks=8, resume=True)
    assert np.array_equal(await values(result), VALUES)


async def test_a_cancelled_conversion_ends_and_is_resumed() -> None:
    source, result = FakeStore(latency=0.01), MemoryStore()
    await maps(source)
    options: dict[str, Any] = {"chunks": (4, 4, 4), "max_memory": 4000}
    task = asyncio.create_task(aiozarr.convert(source, result, **options))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await aiozarr.convert(source, result, **options, resume=True)
    assert np.array_equal(await values(result), VALUES)


async def test_a_cancelled_conversion_does_not_wait_for_a_store_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.conversion.conversion_run.SAVE_SECONDS", 0.01)
    result = FakeStore(latency=0)
    hangs = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(call: Call) -> Delay | None:
        if call.operation != "set":
            return None
        loop.call_soon_threadsafe(hangs.set)
        return Delay(1e6)

    source = await maps()
    result.faults = hang
    task = asyncio.create_task(aiozarr.convert(source, result, chunks=8))
    await hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result.faults = lambda _: None
    await aiozarr.convert(source, result, chunks=8, overwrite=True)
    assert np.array_equal(await values(result.memory), VALUES)


async def test_progress_that_raises_ends_the_conversion() -> None:
    def fail(_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await aiozarr.convert(await maps(), MemoryStore(), chunks=8, progress=fail)


async def test_consolidated_metadata_above_the_destination_are_updated() -> None:
    url = f"memory://{uuid4()}"
    await aiozarr.create_group(url)
    await aiozarr.consolidate_metadata(url)
    await aiozarr.convert(await tree(), f"{url}/copy", zarr_format=3)
    group = await aiozarr.open_group(url, use_consolidated=True)
    names = [name async for name, _ in group.members(max_depth=None)]
    assert names == ["copy", "copy/empty", "copy/sea", "copy/t", "copy/sea/t"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"zarr_format": 4}, ValueError),
        ({"on_error": "ignore"}, ValueError),
        ({"max_memory": 0}, ValueError),
        ({"max_memory": 1.5}, TypeError),
        ({"max_amplification": 0.5}, ValueError),
        ({"executor": 4}, TypeError),
        ({"chunks": (1, 2)}, ValueError),
        ({"codecs": ["zsdt"]}, aiozarr.UnsupportedMetadataError),
        ({"max_memory": 10}, aiozarr.LimitError),
        ({"casting": "safe", "dtype": "f8"}, ValueError),
    ],
)
async def test_wrong_arguments_are_refused_before_anything_is_stored(options: Any, error: type[Exception]) -> None:
    result = MemoryStore()
    with pytest.raises(error):
        await aiozarr.convert(await maps(), result, **options)
    assert not [entry async for entry in result.scan()]


async def test_impossible_places_are_refused(tmp_path: Path) -> None:
    source = await maps(LocalStore(tmp_path / "a"))
    with pytest.raises(ValueError, match="same"):
        await aiozarr.convert(source, tmp_path / "a")
    with pytest.raises(ValueError, match="inside"):
        await aiozarr.convert(source, tmp_path / "a/b")
    with pytest.raises(aiozarr.UnsupportedOperationError):
        await aiozarr.convert(source, ReadOnlyStore(MemoryStore()))
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.convert(tmp_path / "none", tmp_path / "b")
    with pytest.raises(ValueError, match="does not support groups"):
        await aiozarr.convert(await tree(), tmp_path / "b", zarr_format=1)
    with pytest.raises(ValueError, match="region selects from a single array, but the source is a group; use select"):
        await aiozarr.convert(await tree(), tmp_path / "b", region=np.s_[:2])


def test_the_blocking_twin_converts_and_calls_progress_in_this_thread(tmp_path: Path) -> None:
    sync.create_array(tmp_path / "a", data=VALUES, chunks=(1, 12, 10))
    seen: list[aiozarr.Progress] = []
    report = sync.convert(tmp_path / "a", tmp_path / "b", chunks=(16, 4, 5), progress=seen.append)
    assert report.tasks == len(seen)
    assert np.array_equal(sync.open_array(tmp_path / "b")[...], VALUES)
    assert "tasks" in str(sync.plan_conversion(tmp_path / "a", tmp_path / "c", chunks=(16, 4, 5)))


async def test_python_objects_stay_in_format_2_with_a_codec_that_format_3_lacks() -> None:
    source, result = MemoryStore(), MemoryStore()
    values = np.array(["ü", 1, None], object)
    filters = [{"id": "json2"}]
    array = await aiozarr.create_array(source, shape=3, dtype=object, chunks=2, zarr_format=2, filters=filters)
    await array[...].write(values)
    report = await aiozarr.convert(source, result, zarr_format=2, chunks=3)
    assert not report.notes
    assert (await (await aiozarr.open_array(result))[...]).tolist() == values.tolist()
