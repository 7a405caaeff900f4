"""An array behaves as the numpy array that it stands for, whatever is done to it, in any order and by any way."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import aiozarr
import aiozarr.sync
from aiozarr.testing.fakes import FakeStore
from tests.support.peer_cases import AnyArray, Case, Selection, cases, contents, examples, same_bits
from tests.support.servers.http_server import FaultServer
from tests.support.strategies.arrays import ArrayCase, array_cases, basic_selections, dtypes

RAW_TYPES = ("r8", "r24", "r128")
LONGEST = 24
# Limits so small that everything has to be split, to wait, or to be fetched again.
SETTINGS = st.builds(
    aiozarr.Settings,
    max_requests=st.just("auto") | st.integers(1, 4),
    max_bytes_in_flight=st.sampled_from([1, 100, 2**28]),
    gap=st.just("auto") | st.integers(0, 100),
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
        bounds, plan = view.plan(), await view.plan(probe=True)
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


# --- one array, changed in many ways ------------------------------------------------------------------------------


class ArrayMachine(RuleBasedStateMachine):
    """Random operations on an array and on the numpy array that it stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.runner = self.closing.enter_context(asyncio.Runner())

    def teardown(self) -> None:
        self.closing.close()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(coroutine)

    @initialize(case=cases(), place=st.sampled_from(WRITABLE), settings=SETTINGS)
    def create(self, case: Case, place: str, settings: aiozarr.Settings) -> None:
        self.case, self.model = case, case.empty()
        # What lies behind an edge since the array became smaller, by position, may be seen again when it grows.
        self.hidden: dict[tuple[int, ...], Any] = {}
        self.attributes = dict(case.attributes)
        self.target, self.settings = self.closing.enter_context(new_target(place)), settings
        self.array = self.run(
            aiozarr.create_array(
                self.target,
                shape=case.shape,
                dtype=case.dtype,
                chunks=case.chunks,
                codecs=case.codecs,
                fill_value=case.fill_value,
                attributes=case.attributes,
                chunk_key_encoding=case.key_encoding,
                overwrite=True,
                settings=settings,
            )
        )

    @property
    def blocking(self) -> aiozarr.sync.Array:
        return aiozarr.sync.open_array(self.target, mode="r+", settings=self.settings)

    @rule(data=st.data(), blocking=st.booleans())
    def write(self, data: st.DataObject, blocking: bool) -> None:
        selection = self.selection(data)
        values = data.draw(contents(self.model[selection].shape, self.case.dtype, self.case.fill_value))
        self.model[selection] = values
        if blocking:
            self.blocking[selection] = values
        else:
            self.run(self.array[selection].write(values))

    @rule(data=st.data(), blocking=st.booleans())
    def write_one_value_everywhere(self, data: st.DataObject, blocking: bool) -> None:
        selection = self.selection(data)
        value = data.draw(contents((), self.case.dtype, self.case.fill_value))
        self.model[selection] = value
        if blocking:
            self.blocking[selection] = value
        else:
            self.run(self.array[selection].write(value))

    @rule(data=st.data(), blocking=st.booleans())
    def read(self, data: st.DataObject, blocking: bool) -> None:
        selection = self.selection(data)
        values = self.blocking[selection] if blocking else self.run(self.array[selection].read())
        assert same_bits(values, self.model[selection])

    @rule(data=st.data(), blocking=st.booleans(), delete_chunks=st.booleans())
    def resize(self, data: st.DataObject, blocking: bool, delete_chunks: bool) -> None:
        # As far as a little behind the present end, or to where nothing is left but a corner; and perhaps back again.
        before = self.model.shape
        shape = tuple(data.draw(st.integers(0, min(n + 3, LONGEST)) | st.integers(0, n // 2)) for n in before)
        for lengths in [shape, before] if data.draw(st.booleans()) else [shape]:
            if blocking:
                self.blocking.resize(lengths, delete_chunks=delete_chunks)
                self.reopen()
            else:
                self.run(self.array.resize(lengths, delete_chunks=delete_chunks))
            self.remodel(lengths, delete_chunks=delete_chunks)

    @precondition(lambda self: self.model.ndim)
    @rule(data=st.data(), blocking=st.booleans())
    def append(self, data: st.DataObject, blocking: bool) -> None:
        axis = data.draw(st.integers(0, self.model.ndim - 1))
        length = data.draw(st.integers(0, 4))
        shape = [length if dimension == axis else n for dimension, n in enumerate(self.model.shape)]
        values = data.draw(contents(tuple(shape), self.case.dtype, self.case.fill_value))
        before = self.model.shape[axis]
        if blocking:
            grown = self.blocking.append(values, axis)
            self.reopen()
        else:
            grown = self.run(self.array.append(values, axis))
        self.model = np.concatenate([self.model, values], axis)
        self.hidden = {place: each for place, each in self.hidden.items() if self.is_outside(place, self.model.shape)}
        assert grown == self.model.shape
        assert self.array.shape[axis] == before + length

    @rule(
        attributes=st.dictionaries(st.sampled_from("abc"), st.none() | st.integers() | st.text()), replace=st.booleans()
    )
    def change_attributes(self, attributes: dict[str, Any], replace: bool) -> None:
        change = self.array.replace_attributes if replace else self.array.update_attributes
        self.run(change(attributes))
        self.attributes = dict(attributes) if replace else self.attributes | attributes

    @rule()
    def reopen(self) -> None:
        self.array = self.run(aiozarr.open_array(self.target, mode="r+", settings=self.settings))

    @rule(data=st.data())
    def refuse_what_does_not_fit(self, data: st.DataObject) -> None:
        shape = tuple(n + 2 for n in self.model.shape) or (2,)
        error = self.run(failure(self.array[...].write(np.zeros(shape, self.case.dtype))))
        assert isinstance(error, ValueError)

    @invariant()
    def equal(self) -> None:
        if hasattr(self, "array"):
            assert self.array.shape == self.model.shape
            assert same_bits(self.run(self.array[...].read()), self.model)
            assert dict(self.array.attrs) == self.attributes

    def selection(self, data: st.DataObject) -> Selection:
        chosen: Selection = data.draw(basic_selections(self.model.shape) | st.just((...,)))
        return chosen

    def remodel(self, shape: tuple[int, ...], *, delete_chunks: bool) -> None:
        """Give the model another shape; what comes back from behind an edge is what was there, or the fill value."""
        old, self.model = self.model, np.full(shape, self.case.fill_value, self.case.dtype)
        kept = tuple(slice(min(a, b)) for a, b in zip(old.shape, shape, strict=True))
        self.model[kept] = old[kept]
        for place in np.ndindex(old.shape):
            if self.is_outside(place, shape):
                self.hidden[place] = old[place]
        if delete_chunks:
            # Erased is what the old shape had; what an earlier call has left behind it stays.
            before, after = self.grid(old.shape), self.grid(shape)
            self.hidden = {
                place: value
                for place, value in self.hidden.items()
                for chunk in [tuple(p // length for p, length in zip(place, self.case.chunks, strict=True))]
                if not self.is_outside(chunk, after) or self.is_outside(chunk, before)
            }
        values = self.run(self.array[...].read())
        for place in [place for place in self.hidden if not self.is_outside(place, shape)]:
            assert same_bits(values[place], self.hidden[place]) or same_bits(values[place], self.case.fill_value)
            self.model[place] = values[place]
            del self.hidden[place]

    def grid(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(-(-n // chunk) for n, chunk in zip(shape, self.case.chunks, strict=True))

    def is_outside(self, place: tuple[int, ...], shape: tuple[int, ...]) -> bool:
        return any(p >= n for p, n in zip(place, shape, strict=True))


TestArrayMachine = ArrayMachine.TestCase
TestArrayMachine.settings = settings(examples(60), stateful_step_count=15)
