"""Views read, write, plan and stream the elements that numpy's indexing selects."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import aiozarr
from aiozarr.stores import MemoryStore, Store

DATA = np.arange(7 * 10, dtype="i4").reshape(7, 10)


async def stored(data: np.ndarray[Any, Any], store: Store | None = None, **options: Any) -> aiozarr.Array:
    options = {"chunks": 3, **options}
    array = await aiozarr.create_array(
        store or MemoryStore(), "a", shape=data.shape, dtype=data.dtype, overwrite=True, **options
    )
    await array[...].write(data)
    return array


arrays = hnp.arrays(
    st.sampled_from([np.dtype("i4"), np.dtype("f8"), np.dtype("u1"), np.dtype("?"), np.dtype("c8")]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7),
)


def indices(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    return hnp.basic_indices(shape, allow_newaxis=True, max_dims=6)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from([None, 6, "F"]))
def test_every_selection_reads_as_numpy_indexes(data: st.DataObject, layout: Any) -> None:
    values = data.draw(arrays)
    selection = data.draw(indices(values.shape))
    options = {None: {}, 6: {"shards": 6}, "F": {"order": "F"}}[layout]

    async def check() -> None:
        array = await stored(values, **options)
        expected = values[selection]
        view = array[selection]
        assert view.shape == expected.shape
        found = await view
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)

    asyncio.run(check())


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_view_of_a_view_reads_as_numpy_indexes_twice(data: st.DataObject) -> None:
    values = data.draw(hnp.arrays("i4", hnp.array_shapes(max_dims=3, max_side=7)))
    first = data.draw(hnp.basic_indices(values.shape, allow_newaxis=True, max_dims=5))
    middle = values[first]
    second = data.draw(hnp.basic_indices(np.shape(middle), allow_newaxis=True, max_dims=6))

    async def check() -> None:
        array = await stored(values)
        found, expected = await array[first][second], middle[second]
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found, expected)

    asyncio.run(check())


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from([None, 6]))
def test_every_selection_writes_as_numpy_assigns(data: st.DataObject, shards: int | None) -> None:
    values = data.draw(hnp.arrays("i4", hnp.array_shapes(min_dims=0, max_dims=3, max_side=7)))
    selection = data.draw(indices(values.shape))
    target = np.shape(values[selection])
    # One axis too many is no scalar to numpy, where the target is one.
    source = data.draw(st.sampled_from([target, (1, *target) if target else (), target[1:], ()]))
    new = data.draw(hnp.arrays("i2", source))

    async def check() -> None:
        array = await stored(values, shards=shards)
        expected = values.copy()
        expected[selection] = new
        await array[selection].write(new)
        np.testing.assert_array_equal(await array[...], expected)

    asyncio.run(check())


async def test_a_view_knows_its_shape_without_io(memory: MemoryStore) -> None:
    array = await stored(DATA, memory)
    with aiozarr.record() as report:
        view = array[2:, None, ::-3]
        facts = (view.shape, view.ndim, view.size, view.dtype, view.nbytes, view.array)
    assert facts == ((5, 1, 4), 3, 20, np.dtype("i4"), 80, array)
    assert report.requests == 0


@pytest.mark.parametrize("selection", [np.s_[7], np.s_[0, 0, 0], np.s_[..., ...], np.s_[::0], np.s_[1.5], np.s_["a"]])
async def test_an_invalid_selection_is_a_selection_error_with_the_url_of_the_array(selection: Any) -> None:
    array = await stored(DATA)
    with pytest.raises(aiozarr.SelectionError) as caught:
        array[selection]
    assert isinstance(caught.value, IndexError)
    assert array.url in caught.value.__notes__[0]


async def test_out_of_any_strides_is_filled_and_returned() -> None:
    array = await stored(DATA)
    whole = np.full((20, 14), -1, "i4")
    out = whole.T[::2, ::-2]
    assert await array[...].read(out=out) is out
    assert np.array_equal(out, DATA)
    assert (whole == -1).sum() == whole.size - DATA.size


async def test_out_of_no_dimensions_is_returned_as_it_is() -> None:
    array = await stored(DATA)
    out = np.zeros((), "i4")
    assert await array[2, 3].read(out) is out
    assert out == DATA[2, 3]


async def test_out_keeps_its_new_axes() -> None:
    array = await stored(DATA)
    out = np.zeros((1, 7, 1, 10), "i4")
    await array[None, :, None].read(out)
    assert np.array_equal(out[0, :, 0], DATA)


class Guarded(np.ndarray[Any, Any]):
    """An array whose brackets are its own business."""

    def __setitem__(self, index: Any, value: Any) -> None:
        raise AssertionError("nobody asked for this")


@pytest.mark.parametrize("chunks", [(7, 10), (3, 4)])
@pytest.mark.parametrize("codecs", ["auto", [{"name": "bytes", "configuration": {"endian": "little"}}]])
async def test_the_memory_of_subclasses_is_filled(chunks: tuple[int, int], codecs: Any) -> None:
    array = await stored(DATA, chunks=chunks, codecs=codecs)
    guarded = np.zeros(DATA.shape, "i4").view(Guarded)
    assert await array[...].read(out=guarded) is guarded
    assert guarded.tolist() == DATA.tolist()
    masked = np.ma.masked_all(DATA.shape, "i4")
    assert await array[...].read(out=masked) is masked
    assert np.array_equal(masked.data, DATA)
    assert masked.mask.all()


def _read_only(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    out = np.zeros(shape, "i4")
    out.setflags(write=False)
    return out


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((7, 9), "i4"),
        np.zeros((7, 10), "i8"),
        np.zeros((7, 10), ">i8"),
        np.zeros(70, "i4"),
        _read_only((7, 10)),
    ],
)
async def test_out_that_does_not_fit_is_a_value_error(out: np.ndarray[Any, Any]) -> None:
    array = await stored(DATA)
    with pytest.raises(ValueError, match="out"):
        await array[...].read(out)


async def test_out_of_the_other_byte_order_is_filled() -> None:
    array = await stored(DATA)
    for selection in (slice(None), (slice(None, None, -2), 3)):
        out = np.zeros((8, 12), DATA.dtype.newbyteorder(">"))[: DATA[selection].shape[0]]
        out = out[:, : DATA.shape[1]] if DATA[selection].ndim == 2 else out[:, 0]
        assert await array[selection].read(out) is out
        np.testing.assert_array_equal(out, DATA[selection])


async def test_out_that_is_not_an_array_is_a_type_error() -> None:
    array = await stored(DATA)
    with pytest.raises(TypeError, match="list"):
        await array[...].read([0])  # type: ignore[arg-type]


@pytest.mark.parametrize("selection", [np.s_[3:3], np.s_[..., 10:], np.s_[5:2, None]])
async def test_an_empty_selection_does_no_io(selection: Any) -> None:
    array = await stored(DATA)
    with aiozarr.record() as report:
        assert (await array[selection]).shape == DATA[selection].shape
        await array[selection].write(5)
        assert [block async for block in array[selection].stream()] == []
    assert report.requests == 0
    assert array[selection].plan().requests == 0


async def test_a_new_axis_that_is_sliced_to_nothing_is_empty_too() -> None:
    array = await stored(DATA)
    view = array[None, 0, 0][0:0]
    assert (await view).shape == (0,)
    assert view.plan().bytes == 0
    assert (await view.probe()).requests == 0


async def test_missing_chunks_read_as_the_fill_value() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=(3, 4), dtype="f4", fill_value="NaN")
    assert np.isnan(await array[...]).all()


async def test_values_of_another_kind_are_refused_and_nothing_is_stored(memory: MemoryStore) -> None:
    array = await aiozarr.create_array(memory, shape=4, dtype="i4")
    with pytest.raises(TypeError):
        await array[...].write(np.full(4, 0.5))
    with pytest.raises(ValueError, match="do not broadcast"):
        await array[...].write(np.zeros(3, "i4"))
    with pytest.raises(OverflowError):
        await array[...].write(2**40)
    assert await memory.list() == ["zarr.json"]


async def test_writing_to_a_read_only_array_is_an_error_with_advice(memory: MemoryStore) -> None:
    await stored(DATA, memory)
    array = await aiozarr.open_array(memory, "a")
    assert array.read_only
    with pytest.raises(aiozarr.UnsupportedOperationError, match=r"mode='r\+'") as caught:
        await array[...].write(0)
    assert array.url in str(caught.value)


async def test_progress_is_called_on_the_calling_loop_and_ends_at_the_total() -> None:
    array = await stored(DATA)
    loop, seen = asyncio.get_running_loop(), []

    def note(progress: aiozarr.Progress) -> None:
        assert asyncio.get_running_loop() is loop
        seen.append(progress)

    await array[...].read(progress=note)
    await asyncio.sleep(0)
    assert seen[-1] == (12, 12, DATA.nbytes, DATA.nbytes)
    seen.clear()
    await array[...].write(DATA, progress=note)
    await asyncio.sleep(0)
    assert seen[-1].done == seen[-1].total == 12


@pytest.mark.parametrize(
    "selection", [np.s_[...], np.s_[::-2, None, 3:], np.s_[4], np.s_[2, 2], np.s_[None, ..., None]]
)
@pytest.mark.parametrize("prefetch", [None, 1, 5])
async def test_the_blocks_of_a_stream_make_up_the_view(selection: Any, prefetch: int | None) -> None:
    array = await stored(DATA)
    expected = DATA[selection]
    found = np.full(np.shape(expected), -1, "i4")
    async for region, block in array[selection].stream(prefetch):
        assert len(region) == found.ndim
        assert found[region].shape == block.shape
        assert (found[region] == -1).all()
        found[region] = block
    assert np.array_equal(found, expected)


async def test_leaving_a_stream_early_ends_it() -> None:
    array = await stored(DATA)
    async with contextlib.aclosing(array[...].stream(1)) as blocks:
        async for _ in blocks:
            break
    with aiozarr.record() as report:
        assert np.array_equal(await array[...], DATA)
    assert report.requests == 12


async def test_a_stream_prefetches_at_least_one_block() -> None:
    array = await stored(DATA)
    with pytest.raises(ValueError, match="prefetch"):
        array[...].stream(0)


async def test_a_plan_bounds_the_requests_of_the_read() -> None:
    array = await stored(DATA)
    view = array[2:, ::4]
    bounds, exact = view.plan(), await view.probe()
    with aiozarr.record() as report:
        await view
    assert exact.exact
    assert not bounds.exact
    assert (exact.requests, exact.bytes) == (report.requests, report.bytes_fetched)
    assert exact.requests <= bounds.requests
    assert exact.bytes <= bounds.bytes


async def test_a_record_counts_its_own_task() -> None:
    array = await stored(DATA)

    async def count(selection: Any) -> int:
        with aiozarr.record() as report:
            await array[selection]
        return report.requests

    assert await asyncio.gather(count(np.s_[0, 0]), count(np.s_[3, :3]), count(np.s_[6])) == [1, 1, 4]


async def test_converting_a_view_advises_to_await_it() -> None:
    view = (await stored(DATA))[...]
    with pytest.raises(TypeError, match="await"):
        np.asarray(view)
    with pytest.raises(TypeError, match="iterating needs values"):
        list(view)  # type: ignore[call-overload]
    assert repr(view).startswith("<aiozarr.View (7, 10) int32 of memory://")


async def test_a_view_keeps_the_layout_of_its_creation() -> None:
    array = await stored(DATA)
    before = array[...]
    await array.resize((3, 10))
    assert before.shape == (7, 10)
    found = await before
    assert np.array_equal(found[:3], DATA[:3])
    assert (found[3:] == 0).all()
    assert array[...].shape == (3, 10)


async def test_a_pickled_view_reads_the_same(memory: MemoryStore) -> None:
    array = await stored(DATA, memory)
    view = array[::2, 3]
    await array.update_attributes({"changed": True})
    copied = pickle.loads(pickle.dumps(view))
    assert np.array_equal(await copied, DATA[::2, 3])


async def test_an_operation_that_takes_too_long_is_a_timeout_error(remote: Any) -> None:
    array = await aiozarr.create_array(remote, shape=4, dtype="i4", settings=aiozarr.Settings(timeout=0.2))
    remote.delay = 30
    with pytest.raises(aiozarr.StoreTimeoutError, match="timeout") as caught:
        await array[...]
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.store, caught.value.key) == (array.store.url, None)
    assert array.store.url in str(caught.value)


async def test_a_cancelled_read_has_ended_when_the_cancellation_is_raised(remote: Any) -> None:
    array = await stored(DATA, remote)
    remote.delay = 30
    remote.begun.clear()
    task = asyncio.ensure_future(array[...].read())
    await asyncio.to_thread(remote.begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    remote.delay = 0
    assert np.array_equal(await array[...], DATA)


async def test_a_view_without_elements_costs_nothing_even_where_only_a_new_axis_is_empty() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=(), dtype="i4")
    view = array[None][0:0]
    assert view.plan().requests == 0
    assert (await view.probe()).requests == 0
    assert (await view).shape == (0,)
