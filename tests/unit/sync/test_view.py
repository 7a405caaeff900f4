"""A blocking view is selected without I/O, and delegates reading, planning and streaming."""

from __future__ import annotations

import numpy as np

from aiozarr import sync

DATA = np.arange(7 * 10, dtype="i4").reshape(7, 10)


def test_a_view_is_selected_without_reading(array: sync.Array) -> None:
    with sync.record() as report:
        view = array.view[2:][None, :, ::-3]
        facts = (view.shape, view.ndim, view.size, view.dtype, view.nbytes, view.array)
    assert facts == ((1, 5, 4), 3, 20, np.dtype("i4"), 80, array)
    assert report.requests == 0
    assert np.array_equal(view.read(), DATA[2:][None, :, ::-3])
    assert repr(view) == f"<aiozarr.sync.View (1, 5, 4) int32 of {array.url}; .read() reads it>"


def test_a_view_reads_into_given_memory(array: sync.Array) -> None:
    out = np.zeros((10, 7), "i4").T
    assert array.view.read(out=out) is out
    assert np.array_equal(out, DATA)


def test_a_view_is_planned_exactly_or_in_bounds(array: sync.Array) -> None:
    view = array.view[:3]
    assert not view.plan().exact
    exact = view.plan(probe=True)
    with sync.record() as report:
        view.read()
    assert (exact.requests, exact.bytes) == (report.requests, report.bytes_fetched)


def test_the_blocks_of_a_stream_make_up_the_view(array: sync.Array) -> None:
    found = np.zeros_like(DATA)
    for region, block in array.view.stream(prefetch=2):
        found[region] = block
    assert np.array_equal(found, DATA)


def test_leaving_a_stream_early_ends_it(array: sync.Array) -> None:
    blocks = array.view.stream(1)
    next(iter(blocks))
    del blocks
    assert np.array_equal(array[...], DATA)
