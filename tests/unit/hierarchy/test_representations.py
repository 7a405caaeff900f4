"""What prompts and notebooks show: it escapes every name, makes no request, and reads as a person would write it."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import dask.array
import numpy as np
import pytest
from dask.base import tokenize

import aiozarr
from aiozarr.stores import MemoryStore

from_array: Any = dask.array.from_array  # without types

HOSTILE = "<script>\x1b[31m\u202e"


async def hostile_nodes(remote: Any) -> tuple[aiozarr.Group, aiozarr.Array]:
    group = await aiozarr.create_group(remote, HOSTILE, attributes={HOSTILE: HOSTILE})
    return group, await group.create_array(HOSTILE, shape=(4, 4), dtype="i4", chunks=2, attributes={HOSTILE: 1})


async def test_no_representation_has_a_name_that_a_terminal_or_a_page_obeys_and_none_makes_a_request(
    remote: Any,
) -> None:
    group, array = await hostile_nodes(remote)
    with aiozarr.record() as report:
        await array[...].write(1)
        await array[:2].read()
    exact = await array[...].probe()
    copied = await aiozarr.copy(remote, MemoryStore())
    infos = [await array.info(), await group.info()]
    tree = await group.tree()
    remote.calls.clear()
    shown = [group, array, array[0], array[0].plan(), exact, report, copied, tree, *infos]
    shown += [aiozarr.sync.Array(array), aiozarr.sync.Group(group)]
    for each in shown:
        texts = [repr(each), str(each)] if not isinstance(each, aiozarr.Plan) else [str(each)]
        assert all(character not in text for text in texts for character in "\x1b\u202e"), each
        html = getattr(each, "_repr_html_", None)
        if html is not None:
            assert "<script>" not in html()
    assert "<script>" not in tree._repr_mimebundle_()["text/html"]
    assert not remote.calls


async def test_a_tree_is_text_whose_lines_prompts_show() -> None:
    group = await aiozarr.create_group(MemoryStore())
    await group.create_array("a", shape=2, dtype="i4")
    tree = await group.tree()
    assert repr(tree) == str(tree) == "/\n└── a (2,) int32"
    assert tree._repr_mimebundle_() == {"text/plain": str(tree), "text/html": "<pre>/\n└── a (2,) int32</pre>"}
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_settings_are_written_as_a_person_would_and_can_be_evaluated() -> None:
    settings = aiozarr.Settings(
        chunk_cache_bytes=512 << 20, merge_gap_bytes=32 << 10, max_requests=1024, max_chunk_bytes=1000
    )
    text = "Settings(max_requests=1024, merge_gap_bytes=32 << 10, chunk_cache_bytes=512 << 20, max_chunk_bytes=1000)"
    assert repr(settings) == text
    assert eval(text, {"Settings": aiozarr.Settings}) == settings


def test_a_report_reads_as_a_table() -> None:
    report = aiozarr.Report(requests=7, retries=2, bytes_wanted=2048, bytes_fetched=3072, chunks=5, seconds=0.0131)
    assert str(report).splitlines() == [
        "requests    : 7 (2 retries)",
        "fetched     : 3072 B (3.0 KiB), 1024 B (1.0 KiB) of them not wanted",
        "written     : 0 B",
        "chunks      : 5",
        "time        : 13.1 ms",
        "summed time : requests 0.0 ms, queue 0.0 ms, decoding 0.0 ms, encoding 0.0 ms",
    ]
    assert report._repr_html_().startswith("<pre>requests    : 7")


def test_dask_tells_arrays_by_url_and_metadata() -> None:
    url = "memory://test_representations/dask"
    array = aiozarr.sync.create_array(url, "a", data=np.arange(12).reshape(3, 4), chunks=(3, 2))
    again = aiozarr.sync.open_array(url, "a")
    assert tokenize(array) == tokenize(again)
    assert from_array(again).name == from_array(array).name
    assert int(from_array(again).sum().compute()) == 66
    other = aiozarr.sync.create_array(url, "b", data=np.arange(12).reshape(3, 4))
    assert tokenize(other) != tokenize(array)
    array.resize((3, 5))
    assert tokenize(array) != tokenize(again)


def test_dask_and_numpy_refuse_an_array_that_must_be_awaited() -> None:
    async def main() -> None:
        array = await aiozarr.create_array(MemoryStore(), data=[1, 2])
        for handle in (array, array[:1]):
            with pytest.raises(TypeError, match=r"dask needs values.*aiozarr\.sync\.open_array"):
                from_array(handle)
            with pytest.raises(TypeError, match=r"numpy needs values.*await"):
                np.asarray(handle)

    asyncio.run(main())
