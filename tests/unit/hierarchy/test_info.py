"""The facts of an array, as a record and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.stores import MemoryStore, Store


async def test_stored_objects_are_counted(store: Store) -> None:
    array = await aiozarr.create_array(store, "a", shape=(4, 6), dtype="f8", chunks=2, codecs=["bytes"], fill_value=1)
    await aiozarr.create_array(store, "ab", shape=1, dtype="f8")
    await array[:2].write(3)
    info = await array.info()
    assert (info.objects_stored, info.objects_expected, info.bytes_stored) == (3, 6, 3 * 4 * 8)
    assert info.ratio == 2
    assert (info.shape, info.chunks, info.shards, info.codecs) == ((4, 6), (2, 2), None, ("bytes",))
    assert (info.url, info.data_type, info.fill_value) == (array.url, "float64", "1.0")
    assert info.as_dict()["nbytes"] == 192


async def test_other_objects_are_counted_apart(store: Store) -> None:
    group = await aiozarr.create_group(store)
    for name, options in (("two", {}), ("three", {"chunk_key_encoding": ("v2", "/")})):
        await group.create_array(f"g/{name}", data=np.ones((2, 4), "i4"), chunks=(2, 2), codecs=["bytes"], **options)
    keys = ["two/.DS_Store", "two/c/.DS_Store", "two/c/00/1", "two/0.partial", "two/c/9/0", "two/0.1", "two/c/1/0/0"]
    for key in [*keys, "three/0.1", "three/c/0/0", "three/._0", "Thumbs.db"]:
        await store.set(f"g/{key}", b"x" * 100)
    two, three = [await (await group.open(f"g/{name}")).info() for name in ("two", "three")]
    assert (two.objects_stored, two.bytes_stored, two.objects_outside, two.objects_other) == (2, 32, 2, 5)
    assert (three.objects_stored, three.bytes_stored, three.objects_outside, three.objects_other) == (2, 32, 2, 1)
    info = await group.info()
    assert (info.objects_stored, info.bytes_stored, info.objects_outside, info.objects_other) == (4, 64, 4, 7)
    assert "objects outside  : 2" in str(two).splitlines()
    report = await aiozarr.verify(store)
    assert (report.objects, report.missing, len(report.outside), report.other) == (4, 0, 4, 6)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"zarr_format": 2, "dimension_separator": "/"}, "{}.{}"),
        ({"zarr_format": 2}, "{}/{}"),
        ({}, "{}/{}"),
        ({"chunk_key_encoding": ("default", ".")}, "c/{}/{}"),
        ({"chunk_key_encoding": "v2"}, "c/{}/{}"),
    ],
)
async def test_chunks_under_the_other_separator_are_found(store: Store, options: dict[str, Any], key: str) -> None:
    await aiozarr.create_array(store, shape=(4, 4), dtype="i4", chunks=(2, 2), **options)
    for y, x in np.ndindex(2, 2):
        await store.set(key.format(y, x), bytes(16))
    info = await (await aiozarr.open_array(store)).info()
    assert (info.objects_stored, info.objects_outside, info.objects_other) == (0, 4, 0)
    report = await aiozarr.verify(store)
    assert (report.missing, len(report.outside), report.other, report.bad) == (4, 4, 0, [])
    assert "never read" in report.outside[0].error
    findings = (await aiozarr.validate(store)).findings
    assert [(finding.severity, finding.rule) for finding in findings] == [("note", "chunk_keys")]


async def test_the_table_has_a_line_for_each_fact(store: Store) -> None:
    array = await aiozarr.create_array(store, shape=(4000, 6), dtype="f8", shards=(4000, 6), chunks=(40, 6))
    lines = str(await array.info()).splitlines()
    assert "shape            : (4000, 6)" in lines
    assert "shards           : (4000, 6)" in lines
    assert "nbytes           : 192000 B (187.5 KiB)" in lines
    assert "objects stored   : 0" in lines


async def test_nothing_is_counted_if_the_store_cannot_list(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(listable=False)
    array = await aiozarr.create_array(remote, shape=3, dtype="i4")
    info = await array.info()
    assert (info.objects_stored, info.bytes_stored, info.ratio) == (None, None, None)
    assert "objects stored" not in str(info)


HOSTILE = "<script>alert('&\"')</script>"


def tags(html: str) -> list[str]:
    return [element.tag.rpartition("}")[2] for element in ET.fromstring(html).iter()]


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_foreign_text_is_escaped(remote: Any, zarr_format: int) -> None:
    attributes = {HOSTILE: HOSTILE, "long": "x" * 10000, **{f"k{n}": n for n in range(50)}}
    root = await aiozarr.create_group(remote, attributes=attributes, zarr_format=zarr_format)
    array = await root.create_array("a<b>", shape=3, dtype="i4", dimension_names=[HOSTILE], attributes=attributes)
    remote.calls.clear()
    for node in (root, array):
        html = node._repr_html_()
        assert "script" not in tags(html)
        assert "&lt;script&gt;" in html
        assert "x" * 300 not in html
    assert remote.calls == []


def test_the_blocking_twins_have_their_own_names() -> None:
    group = aiozarr.sync.create_group(MemoryStore())
    array = group.create_array("a", shape=(4, 4), dtype="i4", chunks=2)
    assert "aiozarr.sync.Group" in group._repr_html_()
    assert "aiozarr.sync.Array" in array._repr_html_()
