"""What anybody would type: `data=`, `mode="a"`, `require_*`, `async with`, `len`, the regions of blocks, and more."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import inspect
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore, Store


def test_the_version_is_that_of_the_package() -> None:
    assert aiozarr.__version__ == importlib.metadata.version("aiozarr")


class TestData:
    @pytest.mark.parametrize("zarr_format", [1, 2, 3])
    async def test_gives_shape_type_and_values(self, store: Store, zarr_format: int) -> None:
        values = np.arange(12, dtype="f4").reshape(3, 4)
        array = await aiozarr.create_array(store, "a", data=values, chunks=2, zarr_format=zarr_format)
        assert (array.shape, array.dtype, array.chunks) == ((3, 4), np.dtype("f4"), (2, 2))
        assert np.array_equal(await array[...], values)

    async def test_may_be_a_list_or_a_number(self, memory: MemoryStore) -> None:
        group = await aiozarr.create_group(memory)
        assert (await (await group.create_array("a", data=[[1, 2], [3, 4]]))[...]).tolist() == [[1, 2], [3, 4]]
        assert (await (await group.create_array("b", data=5, dtype="u1"))[...]) == 5
        assert (await (await group.create_array("c", data=["x", "yz"], dtype=str))[...]).tolist() == ["x", "yz"]

    async def test_agree_with_shape_and_dtype(self, memory: MemoryStore) -> None:
        array = await aiozarr.create_array(memory, "a", data=[1, 2], shape=2, dtype="u2")
        assert array.dtype == np.uint16
        with pytest.raises(ValueError, match=r"shape is \(3,\), but the data have the shape \(2,\)"):
            await aiozarr.create_array(memory, "b", data=[1, 2], shape=3)
        with pytest.raises(OverflowError, match="300"):
            await aiozarr.create_array(memory, "b", data=[1, 300], dtype="u1")
        assert not [key for key in await memory.list() if key.startswith("b/")]

    async def test_are_needed_where_shape_or_dtype_is_missing(self, memory: MemoryStore) -> None:
        with pytest.raises(TypeError, match=r"create_array needs shape=, or data="):
            await aiozarr.create_array(memory, dtype="i4")
        with pytest.raises(TypeError, match=r"create_array needs dtype=, or data="):
            await aiozarr.create_array(memory, shape=4)

    def test_of_a_blocking_array_are_read_in_the_calling_thread(self) -> None:
        first = aiozarr.sync.create_array(MemoryStore(), data=[1, 2, 3])
        second = aiozarr.sync.create_array(MemoryStore(), data=first)
        third = aiozarr.sync.create_group(MemoryStore()).create_array("a", data=second)
        assert third[...].tolist() == [1, 2, 3]


class TestModeA:
    async def test_opens_a_group_or_creates_it(self, store: Store) -> None:
        created = await aiozarr.open_group(store, "g", mode="a", attributes={"n": 1})
        await created.create_group("below")
        opened = await aiozarr.open_group(store, "g", mode="a", attributes={"n": 2})
        assert opened.attrs == {"n": 1}
        assert await opened.contains("below")
        await opened.update_attributes({"n": 3})

    async def test_opens_an_array_or_creates_it(self, store: Store) -> None:
        created = await aiozarr.open_array(store, "a", mode="a", shape=3, dtype="i4", chunks=2)
        await created[...].write([1, 2, 3])
        opened = await aiozarr.open_array(store, "a", mode="a", shape=9, dtype="i8")
        assert (await opened[...]).tolist() == [1, 2, 3]
        await opened[0].write(7)

    async def test_needs_to_know_what_to_create(self, store: Store) -> None:
        with pytest.raises(aiozarr.NodeNotFoundError, match="with shape= and dtype=, mode='a' creates it"):
            await aiozarr.open_array(store, "a", mode="a")
        with pytest.raises(ValueError, match="use open_array or open_group"):
            await aiozarr.open(store, "a", mode="a")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="'shape' describes a new array; use it with mode='a'"):
            await aiozarr.open_array(store, "a", shape=3)
        with pytest.raises(TypeError, match="'attributes' describes a new group"):
            await aiozarr.open_group(store, "a", attributes={})

    @pytest.mark.parametrize(
        ("mode", "advice"), [("w", "overwrite=True"), ("w-", "refuse to replace"), ("q", "create")]
    )
    async def test_other_modes_are_refused_with_the_word_to_use(self, store: Store, mode: Any, advice: str) -> None:
        for open_node in (aiozarr.open, aiozarr.open_array, aiozarr.open_group):
            with pytest.raises(ValueError, match=rf"mode must be 'r', 'r\+' or 'a', not '{mode}'; .*{advice}"):
                await open_node(store, mode=mode)

    async def test_a_mode_in_the_place_of_the_path_is_refused(self, store: Store) -> None:
        with pytest.raises(TypeError, match=r"second argument is a path.*write mode='r\+'"):
            await aiozarr.open_array(store, "r+")
        group = await aiozarr.create_group(store)
        with pytest.raises(aiozarr.NodeNotFoundError) as caught:
            await group.open("x")
        assert "given as mode" not in str(caught.value)
        with pytest.raises(aiozarr.NodeNotFoundError) as caught:
            await aiozarr.open_group(store, "x")
        assert "given as mode" not in str(caught.value)
        with pytest.raises(aiozarr.NodeNotFoundError, match="'a' is a path here: a mode is given as mode='a'"):
            await aiozarr.open_group(store, "a")


class TestRequire:
    async def test_opens_or_creates(self, store: Store) -> None:
        group = await aiozarr.require_group(store, "g", attributes={"n": 1})
        assert (await aiozarr.require_group(store, "g")).attrs == group.attrs == {"n": 1}
        array = await aiozarr.require_array(store, "g/a", shape=3, dtype="i4", chunks=2)
        await array[...].write([1, 2, 3])
        again = await aiozarr.require_array(store, "g/a", shape=3, dtype="i8")
        assert (await again[...]).tolist() == [1, 2, 3]

    async def test_refuses_another_shape_type_or_kind(self, store: Store) -> None:
        await aiozarr.require_array(store, "a", shape=3, dtype="i4")
        with pytest.raises(TypeError, match=r"has the shape \(3,\), not \(4,\)"):
            await aiozarr.require_array(store, "a", shape=4, dtype="i4")
        with pytest.raises(TypeError, match="has the data type int32, not int64"):
            await aiozarr.require_array(store, "a", shape=3, dtype="i8", exact=True)
        with pytest.raises(aiozarr.NodeTypeError, match="is an array, not a group"):
            await aiozarr.require_group(store, "a")

    async def test_of_many_tasks_at_once_one_creates(self, store: Store) -> None:
        groups = await asyncio.gather(*[aiozarr.require_group(store, "g") for _ in range(8)])
        assert {group.path for group in groups} == {"g"}


class TestOpening:
    @pytest.mark.parametrize(
        "open_node",
        [
            aiozarr.open,
            aiozarr.open_array,
            lambda url: aiozarr.create_array(url, data=[1], overwrite=True),
            lambda url: aiozarr.require_array(url, shape=1, dtype="i8"),
        ],
    )
    async def test_can_be_entered_or_awaited(self, tmp_path: Path, open_node: Callable[[Path], Any]) -> None:
        await aiozarr.create_array(tmp_path / "a", data=[1])
        async with open_node(tmp_path / "a") as array:
            assert array.shape == (1,)
        assert (await open_node(tmp_path / "a")).shape == (1,)
        assert (await asyncio.create_task(open_node(tmp_path / "a"))).shape == (1,)

    async def test_from_a_group_can_be_entered(self, memory: MemoryStore) -> None:
        async with (
            aiozarr.create_group(memory) as group,
            group.create_array("a", data=[1]) as array,
            group.open("a") as again,
        ):
            assert again.path == array.path == "a"

    @pytest.mark.parametrize(
        "look",
        [
            repr,
            asyncio.Task.get_stack,
            lambda task: task.print_stack(file=io.StringIO()),
            lambda task: hasattr(task.get_coro(), "shape"),
            lambda task: getattr(task.get_coro(), "cr_frame"),  # noqa: B009
            lambda task: inspect.getcoroutinestate(task.get_coro()),
        ],
    )
    async def test_goes_on_when_its_task_is_inspected(
        self, memory: MemoryStore, look: Callable[[asyncio.Task[Any]], object]
    ) -> None:
        task = asyncio.ensure_future(aiozarr.create_array(memory, "a", data=[1, 2]))
        look(task)
        await asyncio.sleep(0)
        assert not task.done()
        look(task)
        assert "create_array" in repr(task)
        assert (await (await task)[...]).tolist() == [1, 2]
        look(task)

    async def test_in_place_of_its_node_says_what_to_await(self, memory: MemoryStore) -> None:
        for use in (lambda o: o.shape, lambda o: o[0], lambda o: o.__enter__()):
            with (
                pytest.raises(TypeError, match=r"`await open_array\(...\)` or `async with open_array\(...\) as node:`"),
                contextlib.closing(aiozarr.open_array(memory)) as opening,
            ):
                use(opening)  # type: ignore[no-untyped-call]


class TestKeywords:
    @pytest.mark.parametrize(
        ("keyword", "meant"),
        [
            ("chunk", "chunks"),
            ("fillvalue", "fill_value"),
            ("overwite", "overwrite"),
        ],
    )
    async def test_that_are_misspelled_are_refused_with_the_nearest_one(
        self, memory: MemoryStore, keyword: str, meant: str
    ) -> None:
        group = await aiozarr.create_group(memory)
        calls: list[Callable[..., Awaitable[Any]]] = [
            lambda **options: aiozarr.create_array(memory, "a", **options),
            lambda **options: group.create_array("a", **options),
        ]
        for create in calls:
            with pytest.raises(TypeError, match=f"create_array has no keyword '{keyword}'; did you mean '{meant}'"):
                await create(shape=3, dtype="i4", **{keyword: None})
        with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
            aiozarr.sync.create_array(memory, "a", shape=3, dtype="i4", **{keyword: None})

    async def test_that_are_unknown_are_refused_by_every_function(self, memory: MemoryStore) -> None:
        with pytest.raises(TypeError, match="open_array has no keyword 'mod'; did you mean 'mode'"):
            await aiozarr.open_array(memory, mod="r")
        with pytest.raises(TypeError, match="create_group has no keyword 'attribute'; did you mean 'attributes'"):
            await aiozarr.create_group(memory, attribute={})  # type: ignore[call-arg]

    async def test_of_format_2_are_refused_in_format_3(self, memory: MemoryStore) -> None:
        with pytest.raises(TypeError, match=r"compressor is an option of format 2, .*compressors="):
            await aiozarr.create_array(memory, shape=3, dtype="i4", compressor=None)


class TestProperties:
    async def test_of_arrays(self, memory: MemoryStore) -> None:
        array = await aiozarr.create_array(memory, "g/a", shape=(7, 10), dtype="i4", chunks=(3, 5), shards=(6, 5))
        assert (len(array), array.itemsize, array.nchunks, array.name) == (7, 4, 6, "/g/a")
        assert len(array[2:5]) == 3
        assert (await aiozarr.open_group(memory)).name == "/"
        blocking = aiozarr.sync.open_array(memory, "g/a")
        assert (len(blocking), blocking.itemsize, blocking.nchunks, blocking.name) == (7, 4, 6, "/g/a")
        assert len(blocking.view) == 7
        scalar = await aiozarr.create_array(memory, "s", data=1)
        assert scalar.nchunks == 1
        with pytest.raises(TypeError, match="without dimensions has no length"):
            len(scalar)

    async def test_of_a_rectilinear_grid(self, memory: MemoryStore) -> None:
        array = await aiozarr.create_array(memory, shape=(10, 4), dtype="i4", chunks=([3, 7], 3))
        assert array.nchunks == 4
        assert list(array.blocks)[1] == (slice(0, 3), slice(3, 4))

    async def test_blocks_have_a_shape_and_regions(self, memory: MemoryStore) -> None:
        values = np.arange(70).reshape(7, 10)
        array = await aiozarr.create_array(memory, "a", data=values, chunks=(3, 5), shards=(6, 5))
        assert (array.blocks.shape, len(array.blocks)) == ((2, 2), 2)
        regions = list(array.blocks)
        assert regions == [
            (slice(0, 6), slice(0, 5)),
            (slice(0, 6), slice(5, 10)),
            (slice(6, 7), slice(0, 5)),
            (slice(6, 7), slice(5, 10)),
        ]
        for region in regions:
            assert np.array_equal(await array[region], values[region])
        blocking = aiozarr.sync.open_array(memory, "a")
        assert (list(blocking.blocks), blocking.blocks.shape, len(blocking.blocks)) == (regions, (2, 2), 2)
        scalar = await aiozarr.create_array(memory, "s", data=1)
        assert (list(scalar.blocks), scalar.blocks.shape) == ([()], ())


class TestConsolidated:
    async def test_metadata_can_be_left_unused_or_required(self, memory: MemoryStore) -> None:
        group = await aiozarr.create_group(memory)
        await group.create_group("a")
        with pytest.raises(aiozarr.InvalidMetadataError, match="has no consolidated metadata; use_consolidated=None"):
            await aiozarr.open_group(memory, use_consolidated=True)
        await aiozarr.consolidate_metadata(memory)
        await memory.set("b/zarr.json", b'{"zarr_format":3,"node_type":"group"}')
        for use, names in ((None, ["a"]), (True, ["a"]), (False, ["a", "b"])):
            opened = await aiozarr.open_group(memory, use_consolidated=use)
            assert [name async for name, _ in opened.members()] == names


class TestSiblings:
    async def test_of_nearly_the_same_name_are_suggested(self, store: Store) -> None:
        group = await aiozarr.create_group(store, "g")
        await group.create_array("temperature", data=[1])
        url = f"{store.url}/g/temprature"
        expected = f"there is no array and no group at {url}; did you mean 'temperature'?"
        with pytest.raises(aiozarr.NodeNotFoundError) as caught:
            await aiozarr.open_array(store, "g/temprature")
        assert str(caught.value) == expected
        with pytest.raises(KeyError) as missing:
            await group.open("temprature")
        assert str(missing.value) == expected
        await aiozarr.consolidate_metadata(store, "g")
        with pytest.raises(KeyError, match="did you mean 'temperature'"):
            await (await aiozarr.open_group(store, "g")).open("temprature")

    async def test_a_name_that_no_file_can_have_is_a_missing_node(self, tmp_path: Path) -> None:
        with pytest.raises(aiozarr.NodeNotFoundError):
            await aiozarr.open(tmp_path / ("a" * 300) / "b")

    async def test_a_file_in_the_place_of_a_node_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "data b.nc").write_bytes(b"CDF")
        with pytest.raises(aiozarr.NodeNotFoundError, match="there is a file of this name, and a node is a directory"):
            await aiozarr.open(tmp_path / "data b.nc")


class TestBlockingGroups:
    def test_read_as_mappings(self) -> None:
        group = aiozarr.sync.create_group(MemoryStore())
        assert group
        assert len(group) == 0
        group.create_array("a", data=[1])
        group.create_group("b/c")
        assert (list(group), list(group.keys()), len(group)) == (["a", "b"], ["a", "b"], 2)
        assert [node.path for node in group.values()] == ["a", "b"]
        assert [name for name, _ in group.items()] == ["a", "b"]
        assert dict(group).keys() == {"a", "b"}
        found = group.get("a")
        assert isinstance(found, aiozarr.sync.Array)
        assert group.get("x") is None
        assert group.get("x", 5) == 5
        with pytest.raises(KeyError, match="no array and no group"):
            group["x"]
        with pytest.raises(FileNotFoundError):
            group["x"]
        del group["a"]
        assert "a" not in group
