"""The facts of an array, as a record and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiozarr
from aiozarr.stores import Store


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
