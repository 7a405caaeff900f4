"""An array behaves as the numpy array that it stands for, whatever is done to it, in any order and by any way."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
import aiozarr.sync
from aiozarr.testing.fakes import FakeStore
from tests.support.peer_cases import AnyArray, Case, cases, contents, examples, same_bits
from tests.support.servers.http_server import FaultServer
from tests.support.strategies.arrays import ArrayCase, array_cases, basic_selections, dtypes

RAW_TYPES = ("r8", "r24", "r128")
# Limits so small that everything has to be split, to wait, or to be fetched again.
SETTINGS = st.builds(
    aiozarr.Settings,
    max_requests=st.just("auto") | st.integers(1, 4),
    max_bytes_in_flight=st.sampled_from([1, 100, 2**28]),
    merge_gap_bytes=st.just("auto") | st.integers(0, 100),
    max_over_read=st.sampled_from([1.0, 1.5, 100.0]),
    max_request_bytes=st.sampled_from([1, 64, 2**24]),
    index_cache_bytes=st.sampled_from([0, 64, 2**26]),
)
WRITABLE = ("memory", "disk", "asynchronous", "without conditions")
PLACES = (*WRITABLE, "http")
# Stores that check no conditions say so once, and a resize that old elements come back; which ones is modelled here.
pytestmark = pytest.mark.filterwarnings("ignore::aiozarr.UnsafeWriteWarning", "ignore::aiozarr.StaleDataWarning")


def in_memory() -> str:
    return f"memory://{uuid.uuid4()}"


@contextmanager
def new_target(place: str) -> Iterator[Any]:
    """Where an array can be created, of one of the kinds in `WRITABLE`."""
    if place == "disk":
        with TemporaryDirectory() as folder:
            yield folder
    elif place == "memory":
        yield in_memory()
    else:
        yield FakeStore(latency=0, versions=place == "asynchronous")


async def stored(target: Any, case: Case, values: AnyArray) -> aiozarr.Array:
    """An array of these values."""
    array = await aiozarr.create_array(
        target, shape=case.shape, dtype=case.dtype, chunks=case.chunks, codecs=case.codecs, fill_value=case.fill_value
    )
    await array[...].write(values)
    return array


@asynccontextmanager
async def kept(case: Case, values: AnyArray, place: str, settings: aiozarr.Settings) -> AsyncIterator[aiozarr.Array]:
    """An array of these values in a store of some kind, opened with `settings`."""
    with ExitStack() as closing:
        target = closing.enter_context(new_target("memory" if place == "http" else place))
        store = (await stored(target, case, values)).store
        if place == "http":
            target = closing.enter_context(
                FaultServer({key: bytes(await store.get(key) or b"") for key in await store.list()})
            ).url
        async with await aiozarr.open_array(target, settings=settings) as array:
            yield array


# --- one array, looked at in many ways ----------------------------------------------------------------------------


@given(cases(), st.data())
@examples(60)
async def test_views_of_views_are_those_of_numpy(case: Case, data: st.DataObject) -> None:
    model: Any = data.draw(contents(case.shape, case.dtype, case.fill_value))
    view: Any = await stored(in_memory(), case, model)
    for _ in range(data.draw(st.integers(1, 3))):
        selection = data.draw(basic_selections(model.shape))
        view, model = view[selection], model[selection]
        assert (view.shape, view.ndim, view.size) == (model.shape, model.ndim, model.size)
        assert same_bits(await view, model)
        assert type(await view) is type(model)
        if not isinstance(model, np.ndarray):
            break


@given(cases(), st.data(), st.sampled_from(PLACES), SETTINGS)
@examples(80)
async def test_every_way_to_read_gives_the_same(
    case: Case, data: st.DataObject, place: str, settings: aiozarr.Settings
) -> None:
    model = data.draw(contents(case.shape, case.dtype, case.fill_value))
    async with kept(case, model, place, settings) as array:
        await check_every_way(array, model, data)


async def check_every_way(array: aiozarr.Array, model: AnyArray, data: st.DataObject) -> None:
    selection = data.draw(basic_selections(array.shape))
    view, wanted = array[selection], np.asarray(model[selection])

    # Memory of any strides.
    steps: Any = (..., *[slice(None, None, -2)] * wanted.ndim)
    out = np.empty([2 * n for n in wanted.shape], array.dtype)[steps]
    assert await view.read(out=out) is out
    assert same_bits(out, wanted)

    streamed, seen = np.empty_like(wanted), np.zeros(wanted.shape, int)
    async for region, block in view.stream(prefetch=data.draw(st.none() | st.integers(1, 3))):
        streamed[region] = block
        seen[region] += 1
    assert same_bits(streamed, wanted)
    assert (seen == 1).all()

    others = data.draw(st.lists(basic_selections(array.shape), max_size=3))
    for part, other in zip(await aiozarr.read_many([array[other] for other in others]), others, strict=True):
        assert same_bits(part, model[other])

    again = aiozarr.sync.open_array(array.store)
    assert same_bits(again[selection], wanted)
    assert same_bits(again.view[selection].read(), wanted)
    pieces = np.empty_like(wanted)
    for region, block in again.view[selection].stream():
        pieces[region] = block
    assert same_bits(pieces, wanted)


@given(cases(), st.data(), st.sampled_from(PLACES), SETTINGS)
@examples(80)
async def test_a_probed_plan_equals_the_cost_of_the_read(
    case: Case, data: st.DataObject, place: str, settings: aiozarr.Settings
) -> None:
    values = data.draw(contents(case.shape, case.dtype, case.fill_value))
    # Where some of the indexes of one read fit and others do not, which of them are kept is a matter of order.
    settings = replace(settings, index_cache_bytes=data.draw(st.sampled_from([0, 2**26])))
    async with kept(case, values, place, settings) as array:
        view = array[data.draw(basic_selections(case.shape))]
        bounds, plan = view.plan(), await view.probe()
        with aiozarr.record() as report:
            await view
        cost = report.requests, report.bytes_fetched, report.bytes_wanted
        assert (plan.requests, plan.bytes, plan.bytes_wanted) == cost
        assert plan.exact
        assert (plan.chunks, plan.inner_chunks) == (bounds.chunks, bounds.inner_chunks)
        assert plan.requests <= bounds.requests
        assert plan.bytes_wanted <= bounds.bytes


@given(array_cases(), st.data())
@examples(60)
async def test_sharded_arrays_of_any_order_equal_their_model(case: ArrayCase, data: st.DataObject) -> None:
    array = await aiozarr.create_array(
        in_memory(),
        shape=case.shape,
        dtype=data.draw(st.sampled_from([case.dtype, case.dtype.newbyteorder("S")])),
        chunks=case.chunks,
        shards=case.shards,
        fill_value=case.fill_value,
        order=data.draw(st.sampled_from(["C", "F"])),
    )
    model = np.full(case.shape, case.fill_value, case.dtype)
    assert same_bits(await array[...], model)
    selection = data.draw(basic_selections(case.shape))
    values = data.draw(contents(model[selection].shape, case.dtype, case.fill_value))
    model[selection] = values
    await array[selection].write(values)
    again = await aiozarr.open_array(array.store)
    assert same_bits(await again[...], model)
    assert (again.chunks, again.shards) == (case.chunks, case.shards)


@given(st.sampled_from(RAW_TYPES), st.data())
@examples(30)
async def test_raw_bits_are_elements_like_others(name: str, data: st.DataObject) -> None:
    dtype = np.dtype(f"V{int(name[1:]) // 8}")
    shape = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    model = np.full(shape, data.draw(contents((), dtype)), dtype)
    array = await aiozarr.create_array(
        in_memory(),
        shape=shape,
        dtype=name,
        chunks=(2, 3),
        shards=(4, 3),
        fill_value=bytes(model.flat[0]) if model.size else None,
    )
    selection = data.draw(basic_selections(shape))
    values = data.draw(contents(model[selection].shape, dtype))
    model[selection] = values
    await array[selection].write(values)
    assert same_bits(await array[...], model)
    assert array.metadata.data_type.name == name


@given(dtypes(), dtypes(), st.data())
@examples(60)
async def test_values_are_cast_and_laid_out_as_numpy_assigns(
    source: np.dtype[Any], target: np.dtype[Any], data: st.DataObject
) -> None:
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    array = await aiozarr.create_array(in_memory(), shape=shape, dtype=target, chunks=(2, 2))
    selection = data.draw(basic_selections(shape))
    wanted = array[selection].shape
    # Any shape that broadcasts: leading axes left out, lengths of one, and axes of length one too many.
    kept = data.draw(st.integers(0, len(wanted)))
    given = tuple(1 if data.draw(st.booleans()) else n for n in wanted[len(wanted) - kept :])
    given = (1,) * data.draw(st.integers(0, 1)) * (kept == len(wanted)) + given
    values = data.draw(contents(given, source)).astype(source.newbyteorder(data.draw(st.sampled_from("<>"))))
    model = np.zeros(shape, target)
    if not np.can_cast(source, target):
        # Other casts are accepted if the values allow it, which test_casting.py proves value by value.
        refused = await failure(array[selection].write(values))
        assert refused is None or isinstance(refused, OverflowError | TypeError)
        return
    with np.errstate(all="ignore"):
        # A single element that integers select takes arrays of one element here; numpy has it after `...` only.
        model[selection if Ellipsis in selection else (*selection, ...)] = values
        await array[selection].write(values)
    assert same_bits(await array[...], model)


async def failure(operation: Awaitable[object]) -> BaseException | None:
    try:
        await operation
    except Exception as error:
        return error
    return None
