"""Index arrays, masks, blocks and fields, after each other in any order, read and write what numpy would."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aiozarr
from aiozarr.testing.fakes import FakeStore
from tests.support.numpy_indexing import places_of, selected, steps
from tests.support.peer_cases import AnyArray, Case, cases, contents, examples, same_bits

RECORD = np.dtype([("a", "i4"), ("pair", [("x", "f4"), ("y", "u1")]), ("b", "f8")])
FIELDS: list[list[Any]] = [[], ["a"], ["pair"], ["pair", "y"], [["b", "a"]]]
pytestmark = pytest.mark.filterwarnings("ignore::aiozarr.UnsafeWriteWarning")


async def stored(case: Case, values: AnyArray, *, remote: bool) -> aiozarr.Array:
    target: Any = FakeStore(latency=0) if remote else f"memory://{uuid.uuid4()}"
    array = await aiozarr.create_array(
        target, shape=case.shape, dtype=case.dtype, chunks=case.chunks, codecs=case.codecs, fill_value=case.fill_value
    )
    await array[...].write(values)
    return array


@settings(examples(60))
@given(st.data(), cases(), st.booleans())
def test_every_chain_of_selections_reads_what_numpy_reads(data: st.DataObject, case: Case, remote: bool) -> None:
    values = data.draw(contents(case.shape, case.dtype, case.fill_value))
    chain = data.draw(steps(case.shape))
    expected = values.reshape(-1)[places_of(case.shape, chain)]

    async def check() -> None:
        view = selected(await stored(case, values, remote=remote), chain)
        assert view.shape == expected.shape
        assert same_bits(np.asarray(await view), expected)
        assert (await view.probe()).requests <= view.plan().requests
        out = np.empty(expected.shape, case.dtype, order="F")
        assert await view.read(out=out) is out
        assert same_bits(out, expected)
        streamed = np.zeros(expected.shape, case.dtype)
        async for region, block in view.stream():
            streamed[region] = block
        assert same_bits(streamed, expected)

    asyncio.run(check())


@settings(examples(60))
@given(st.data(), cases(), st.booleans())
def test_every_chain_of_selections_writes_what_numpy_writes(data: st.DataObject, case: Case, remote: bool) -> None:
    values = data.draw(contents(case.shape, case.dtype, case.fill_value))
    chain = data.draw(steps(case.shape))
    places = places_of(case.shape, chain)
    new = data.draw(contents(places.shape, case.dtype, case.fill_value))
    expected = values.copy()
    # One after the other: of repeated elements the last value stays.
    expected.reshape(-1)[places.reshape(-1)] = new.reshape(-1)

    async def check() -> None:
        array = await stored(case, values, remote=remote)
        await selected(array, chain).write(new)
        assert same_bits(await array[...], expected)

    asyncio.run(check())


@settings(examples(40))
@given(st.data(), st.sampled_from(FIELDS), st.sampled_from([None, 6]))
def test_fields_are_read_and_written_through_any_selection(
    data: st.DataObject, path: list[Any], shards: int | None
) -> None:
    shape = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=2).map(tuple))
    values = data.draw(contents(shape, np.dtype((np.void, RECORD.itemsize)))).view(RECORD)
    values["b"] = np.nan_to_num(values["b"])
    values["pair"]["x"] = np.nan_to_num(values["pair"]["x"])
    chain = data.draw(steps(shape, most=2))
    places = places_of(shape, chain)

    async def check() -> None:
        array = await aiozarr.create_array(
            f"memory://{uuid.uuid4()}", shape=shape, dtype=RECORD, chunks=3, shards=shards
        )
        await array[...].write(values)
        view, expected, whole = selected(array, chain), values.reshape(-1)[places], values.copy()
        target = whole.reshape(-1)
        for step in path:
            view, expected, target = view[step], expected[step], target[step]
        assert np.array_equal(await view, expected)
        assert view.dtype == expected.dtype
        new = expected.copy().reshape(-1)[::-1].reshape(expected.shape)
        target[places.reshape(-1)] = new.reshape(-1)
        await view.write(new)
        assert np.array_equal(await array[...], whole)

    asyncio.run(check())


@settings(examples(60))
@given(st.data(), cases())
def test_blocks_are_the_elements_of_stored_objects(data: st.DataObject, case: Case) -> None:
    values = data.draw(contents(case.shape, case.dtype, case.fill_value))
    counts = [-(-n // chunk) for n, chunk in zip(case.shape, case.chunks, strict=True)]
    selection: list[Any] = []
    expected: list[slice] = []
    for count, chunk in zip(counts, case.chunks, strict=True):
        start = data.draw(st.integers(0, count))
        stop = data.draw(st.integers(start, count))
        one = start < count and data.draw(st.booleans())
        selection.append(start - count if one else slice(start, stop))
        expected.append(slice(start * chunk, (start + 1 if one else stop) * chunk))

    async def check() -> None:
        array = await stored(case, values, remote=False)
        found = await array.blocks[tuple(selection)]
        assert same_bits(np.asarray(found), np.asarray(values[tuple(expected)]))

    asyncio.run(check())
