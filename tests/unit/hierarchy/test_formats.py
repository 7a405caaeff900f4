"""Nodes of every format are found with one round trip, made as their format wants, and changed where it says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError
from aiozarr.stores import MemoryStore, Store

V3, V2, V1 = ["zarr.json"], [".zarray", ".zgroup", ".zattrs", ".zmetadata"], ["meta", "attrs"]


def document(store: MemoryStore, key: str) -> Any:
    value = store.fetch_now(key)
    assert value is not None, key
    return json.loads(bytes(value.data))


async def put(store: Store, key: str, value: Any) -> None:
    await store.set(key, json.dumps(value).encode())


@pytest.mark.parametrize(("zarr_format", "keys"), [(None, V3 + V2 + V1), (3, V3), (2, V2), (1, V1)])
async def test_opening_asks_for_all_documents_at_once_and_for_no_others(
    remote: Any, zarr_format: int | None, keys: list[str]
) -> None:
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4", zarr_format=zarr_format or 2)
    remote.calls.clear()
    under_way: list[str] = []
    together: list[int] = []
    before = remote._before

    async def count(operation: str, key: str) -> None:
        under_way.append(key)
        await before(operation, key)
        together.append(len(under_way))

    remote._before = count
    remote.delay = 0.01
    array = await aiozarr.open(remote, "a", zarr_format=zarr_format)
    assert array.zarr_format == (zarr_format or 2)
    assert sorted(remote.calls) == sorted(("fetch", f"a/{key}") for key in keys)
    assert together[0] == len(keys)


@pytest.mark.parametrize("zarr_format", [1, 2, 3])
async def test_an_array_of_each_format_is_written_read_and_opened_again(store: Store, zarr_format: int) -> None:
    array = await aiozarr.create_array(
        store, "a", shape=(5, 4), dtype=">i2", chunks=2, order="F", attributes={"n": 1}, zarr_format=zarr_format
    )
    values = np.arange(20, dtype="i2").reshape(5, 4)
    await array[...].write(values)
    for known in (None, zarr_format):
        opened = await aiozarr.open_array(store, "a", zarr_format=known, mode="r+")
        assert (opened.zarr_format, opened.order, opened.attrs) == (zarr_format, "F", {"n": 1})
        np.testing.assert_array_equal(await opened[...], values)
        assert opened.metadata == array.metadata
    await opened.append(values[:1])
    await opened.update_attributes({"m": 2})
    again = await aiozarr.open_array(store, "a")
    assert (again.shape, again.attrs) == ((6, 4), {"n": 1, "m": 2})
    np.testing.assert_array_equal(await again[5], values[0])
    info = await again.info()
    assert (info.objects_stored, info.objects_expected, info.zarr_format) == (6, 6, zarr_format)


async def test_of_several_formats_the_newest_holds(memory: MemoryStore) -> None:
    for zarr_format in (1, 2, 3):
        source = MemoryStore()
        await aiozarr.create_array(source, shape=zarr_format, dtype="i4", zarr_format=zarr_format)
        for key in await source.list():
            await memory.set(key, bytes(await source.get(key) or b""))
        assert (await aiozarr.open_array(memory)).shape == (zarr_format,)
    assert [(await aiozarr.open_array(memory, zarr_format=n)).shape for n in (1, 2, 3)] == [(1,), (2,), (3,)]


async def test_a_format_that_is_not_there_is_an_error_that_names_the_one_that_is(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, "a", shape=3, dtype="i4", zarr_format=2)
    with pytest.raises(aiozarr.NodeNotFoundError, match=r"nothing of Zarr format 3 .* an array of 2"):
        await aiozarr.open(memory, "a", zarr_format=3)
    with pytest.raises(aiozarr.NodeNotFoundError, match=r"nothing of Zarr format 1 "):
        await aiozarr.open(memory, "a", zarr_format=1)


async def test_a_refused_probe_is_ignored_if_another_succeeds(remote: Any) -> None:
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4", zarr_format=2)

    def refuse(operation: str, key: str) -> None:
        if key != "a/.zarray":
            raise PermissionDeniedError("no", key=key)

    remote.hook = refuse
    assert (await aiozarr.open_array(remote, "a")).shape == (3,)
    with pytest.raises(PermissionDeniedError):
        await aiozarr.open(remote, "b")


async def test_what_lies_above_nodes_of_another_format_is_an_implicit_group_that_lists_them(store: Store) -> None:
    await aiozarr.create_array(store, "d/one", shape=1, dtype="i4", zarr_format=1)
    await aiozarr.create_array(store, "d/three", shape=3, dtype="i4")
    await store.erase("d/zarr.json")
    await store.erase("zarr.json")
    group = await aiozarr.open_group(store, "d")
    assert {name: node.zarr_format async for name, node in group.members()} == {"one": 1, "three": 3}
    assert (await group.open("one")).zarr_format == 1
    assert await group.contains("one")


async def test_the_chunks_of_an_array_of_format_2_are_no_group(store: Store) -> None:
    array = await aiozarr.create_array(
        store, "a", shape=(4, 4), dtype="i4", chunks=2, zarr_format=2, dimension_separator="/"
    )
    await array[...].write(1)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(store, "a/0")


async def test_format_2_makes_groups_at_all_paths_above(store: Store) -> None:
    await aiozarr.create_array(store, "/g//h\\a/", shape=3, dtype="i4", zarr_format=2)
    assert sorted(await store.list()) == [".zgroup", "g/.zgroup", "g/h/.zgroup", "g/h/a/.zarray", "g/h/a/.zattrs"]
    group = await aiozarr.open_group(store, zarr_format=2)
    assert (await group.open("g//h/a")).path == "g/h/a"
    assert [name async for name, _ in group.members(None)] == ["g", "g/h", "g/h/a"]


async def test_children_have_the_format_of_their_group(store: Store) -> None:
    group = await aiozarr.create_group(store, zarr_format=2, attributes={"a": 1})
    array = await group.create_array(
        "a", shape=3, dtype="i4", compressor=None, filters=[{"id": "delta", "dtype": "<i4"}]
    )
    assert (array.zarr_format, (await group.create_group("g")).zarr_format) == (2, 2)
    with pytest.raises(TypeError, match="codecs goes with Zarr format 3"):
        await group.create_array("b", shape=3, dtype="i4", codecs=["bytes"])
    await group.delete("a")
    assert not await group.contains("a")


async def test_what_hides_a_node_of_another_format_is_not_made(store: Store) -> None:
    await aiozarr.create_group(store, "g", zarr_format=2)
    with pytest.raises(aiozarr.NodeTypeError, match="group of Zarr format 2"):
        await aiozarr.create_array(store, "g/a", shape=1, dtype="i4")
    await aiozarr.create_array(store, "g/b", shape=1, dtype="i4", zarr_format=2)
    with pytest.raises(aiozarr.NodeTypeError, match="is an array"):
        await aiozarr.create_array(store, "g/b/c", shape=1, dtype="i4", zarr_format=2)
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_group(store, "g/b")


@pytest.mark.parametrize(("old", "new"), [(2, 3), (3, 2), (1, 2), (1, 3), (3, 1)])
async def test_overwriting_erases_the_documents_of_every_format(memory: MemoryStore, old: int, new: int) -> None:
    array = await aiozarr.create_array(memory, shape=3, dtype="i4", zarr_format=old, attributes={"old": 1})
    await array[...].write(1)
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_array(memory, shape=5, dtype="i4", zarr_format=new)
    await aiozarr.create_array(memory, shape=5, dtype="i4", zarr_format=new, overwrite=True)
    opened = await aiozarr.open_array(memory)
    assert (opened.zarr_format, opened.shape, opened.attrs) == (new, (5,), {})
    expected = {1: ["attrs", "meta"], 2: [".zarray", ".zattrs"], 3: ["zarr.json"]}
    assert sorted(await memory.list()) == expected[new]


@pytest.mark.parametrize(
    ("zarr_format", "options", "message"),
    [
        (2, {"codecs": ["bytes"]}, "codecs goes with Zarr format 3, not"),
        (2, {"shards": (4,)}, "shards"),
        (2, {"chunk_key_encoding": "v2"}, "chunk_key_encoding"),
        (2, {"compression": "zlib"}, "compression goes with Zarr format 1"),
        (3, {"compressor": None}, "compressor goes with Zarr format 2"),
        (3, {"filters": []}, "filters"),
        (3, {"dimension_separator": "/"}, "dimension_separator"),
        (1, {"compressor": {"id": "zlib"}}, "compressor"),
        (1, {"dimension_names": ["x"]}, "dimension_names goes with Zarr format 3 or 2"),
        (2, {"compressor": {"level": 3}}, "'id'"),
        (2, {"filters": [3]}, "'id'"),
    ],
)
async def test_an_option_of_another_format_is_a_type_error(
    memory: MemoryStore, zarr_format: int, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        await aiozarr.create_array(memory, shape=4, dtype="i4", zarr_format=zarr_format, **options)
    assert await memory.list() == []


async def test_a_group_of_format_1_is_a_value_error(memory: MemoryStore) -> None:
    with pytest.raises(ValueError, match="no groups"):
        await aiozarr.create_group(memory, zarr_format=1)
    with pytest.raises(ValueError, match="zarr_format"):
        await aiozarr.create_array(memory, shape=1, dtype="i4", zarr_format=4)


async def test_the_document_of_format_2_says_what_was_asked_for(memory: MemoryStore) -> None:
    await aiozarr.create_array(
        memory,
        shape=(4, 6),
        dtype=[("x", "<f4"), ("y", ">i2", (2,))],
        chunks=(2, 3),
        order="F",
        compressor={"id": "zlib", "level": 2},
        dimension_separator="/",
        dimension_names=["t", "u"],
        attributes={"n": 1},
        zarr_format=2,
    )
    assert document(memory, ".zattrs") == {"n": 1, "_ARRAY_DIMENSIONS": ["t", "u"]}
    assert document(memory, ".zarray") == {
        "zarr_format": 2,
        "shape": [4, 6],
        "chunks": [2, 3],
        "dtype": [["x", "<f4"], ["y", ">i2", [2]]],
        "compressor": {"id": "zlib", "level": 2},
        "fill_value": None,
        "order": "F",
        "filters": None,
        "dimension_separator": "/",
    }
    assert (await aiozarr.open_array(memory)).dimension_names == ("t", "u")


async def test_the_defaults_of_format_2_are_those_of_zarr_python_2(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, shape=3, dtype="f4", fill_value=1.5, zarr_format=2)
    written = document(memory, ".zarray")
    assert written["compressor"] == {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    assert (written["fill_value"], written["filters"], written["dimension_separator"]) == (1.5, None, ".")


@pytest.mark.parametrize(
    ("given", "name", "options"),
    [
        ({}, "blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1}),
        ({"compression": "zlib"}, "zlib", 1),
        ({"compression": "bz2", "compression_opts": 9}, "bz2", 9),
    ],
)
async def test_the_document_of_format_1_names_compression_and_options(
    memory: MemoryStore, given: dict[str, Any], name: str, options: Any
) -> None:
    array = await aiozarr.create_array(memory, shape=3, dtype="f4", fill_value=0, zarr_format=1, **given)
    await array[...].write(2)
    assert (document(memory, "meta")["compression"], document(memory, "meta")["compression_opts"]) == (name, options)
    assert document(memory, "attrs") == {}
    assert (await (await aiozarr.open_array(memory))[...]).tolist() == [2, 2, 2]


@pytest.mark.parametrize(("dtype", "values"), [(str, ["ä", "", "bc"]), (bytes, [b"\0", b"", b"bc"])])
async def test_strings_of_any_length_get_their_filter(memory: MemoryStore, dtype: Any, values: list[Any]) -> None:
    array = await aiozarr.create_array(memory, shape=3, dtype=dtype, zarr_format=2)
    await array[...].write(np.array(values, dtype=object))
    assert list(await (await aiozarr.open_array(memory))[...]) == values
    assert document(memory, ".zarray")["filters"] == [{"id": "vlen-utf8" if dtype is str else "vlen-bytes"}]


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_an_object_as_a_field_is_refused_and_no_other_format_is_recommended(
    memory: MemoryStore, zarr_format: int
) -> None:
    with pytest.raises(aiozarr.UnsupportedMetadataError, match=r"the field 'b' is object; in no format"):
        await aiozarr.create_array(memory, shape=2, dtype=[("a", "i4"), ("b", "O")], zarr_format=zarr_format)


async def test_objects_need_a_codec_of_their_own(memory: MemoryStore) -> None:
    with pytest.raises(ValueError, match="object codec"):
        await aiozarr.create_array(memory, shape=3, dtype=object, zarr_format=2)
    array = await aiozarr.create_array(memory, shape=2, dtype=object, filters=[{"id": "json2"}], zarr_format=2)
    await array[...].write(np.array([{"a": [1]}, None], dtype=object))
    assert list(await array[...]) == [{"a": [1]}, None]


async def test_a_change_writes_only_the_document_that_it_concerns(remote: Any) -> None:
    await put(remote, ".zgroup", {"zarr_format": 2})
    array = await aiozarr.create_array(remote, "a", shape=3, dtype="i4", zarr_format=2)
    # As another program would have spelt it.
    await remote.held.set("a/.zarray", json.dumps(json.loads(bytes(await remote.get("a/.zarray")))).encode())

    def writes() -> list[str]:
        done = [key for operation, key in remote.calls if operation == "set"]
        remote.calls.clear()
        return done

    writes()
    await array.update_attributes({"a": 1})
    assert writes() == ["a/.zattrs"]
    await array.resize((5,))
    assert writes() == ["a/.zarray"]


async def test_attributes_that_hold_nan_already_are_kept(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, shape=3, dtype="i4", zarr_format=2)
    await memory.set(".zattrs", b'{"limit": NaN}')
    array = await aiozarr.open_array(memory, mode="r+")
    await array.update_attributes({"a": 1})
    assert np.isnan((await aiozarr.open_array(memory)).attrs["limit"])


async def test_in_format_3_nan_is_replaced_and_never_written(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, shape=3, dtype="i4", attributes={"limit": 1})
    text = bytes(await memory.get("zarr.json") or b"").replace(b'"limit": 1', b'"limit": NaN')
    await memory.set("zarr.json", text)
    array = await aiozarr.open_array(memory, mode="r+")
    with pytest.raises(aiozarr.InvalidMetadataError):
        await array.update_attributes({"a": 1})
    await array.replace_attributes({"a": 1})
    assert (await aiozarr.open_array(memory)).attrs == {"a": 1}


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_a_creation_that_is_overtaken_leaves_nothing_of_its_own(remote: Any, zarr_format: int) -> None:
    main = {1: "meta", 2: ".zarray"}[zarr_format]
    other = MemoryStore()
    await aiozarr.create_array(other, shape=9, dtype="i4", zarr_format=zarr_format)

    def overtake(operation: str, key: str) -> None:
        if (operation, key) == ("set", main):
            value = other.fetch_now(main)
            assert value is not None
            remote.held.set_now(main, value.data)

    remote.hook = overtake
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_array(remote, shape=3, dtype="i4", attributes={"mine": 1}, zarr_format=zarr_format)
    found = await aiozarr.open_array(remote)
    assert (found.shape, found.attrs) == ((9,), {})


async def test_what_netcdf_adds_is_passed_over(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, "a", shape=3, dtype="i4", zarr_format=2)
    await put(memory, ".nczgroup", {"dims": {}})
    await put(memory, "a/.nczarray", {"dimrefs": []})
    await put(memory, "a/.zattrs", {"_ARRAY_DIMENSIONS": ["x"], "_NCZARR_ATTR": {"types": {}}})
    array = await aiozarr.open_array(memory, "a")
    assert (array.shape, array.dimension_names) == ((3,), ("x",))
    assert (await array.info()).objects_stored == 0


async def test_a_store_that_cannot_list_opens_what_has_documents(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(listable=False)
    await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4", zarr_format=2)
    group = await aiozarr.open_group(remote)
    assert (await group.open("g/a")).zarr_format == 2
    assert not await group.contains("g/b")


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_a_fill_value_is_from_the_beginning_what_the_document_can_hold(
    memory: MemoryStore, zarr_format: int
) -> None:
    payload = np.array(0xFFC12345, "<u4").view("<f4")[()]
    array = await aiozarr.create_array(memory, shape=2, dtype="<f4", fill_value=payload, zarr_format=zarr_format)
    opened = await aiozarr.open_array(memory)
    assert np.isnan(opened.fill_value)
    assert np.asarray(array.fill_value).tobytes() == np.asarray(opened.fill_value).tobytes()
