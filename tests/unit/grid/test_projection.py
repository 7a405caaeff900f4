"""The chunks that a selection touches, compared with numpy."""

import tracemalloc
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.grid import Constant, IndexTransform, Strided
from aiozarr.grid import projection as projection_module
from aiozarr.grid.axes import RegularAxis, regular_axes
from aiozarr.grid.projection import Projection


@st.composite
def arrays_and_maps(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], IndexTransform]:
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 17)) for _ in range(ndim))
    chunks = tuple(draw(st.integers(1, 20)) for _ in range(ndim))
    selection = []
    for length in shape:
        if length and draw(st.booleans()):
            selection.append(draw(st.integers(-length, length - 1)))
        else:
            selection.append(draw(st.slices(length)))
    return shape, chunks, IndexTransform.identity(shape).select(tuple(selection))


@given(arrays_and_maps())
def test_scattering_all_chunks_equals_numpy_indexing(
    case: tuple[tuple[int, ...], tuple[int, ...], IndexTransform],
) -> None:
    shape, chunks, transform = case
    source = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    index = tuple(
        each.index if isinstance(each, Constant) else each.start + each.step * np.arange(each.count)
        for each in transform.maps
    )
    expected = (
        source[np.ix_(*[np.atleast_1d(each) for each in index])].reshape(transform.core_shape) if shape else source
    )
    out = np.full(transform.core_shape, -1)
    projection = Projection(regular_axes(chunks, shape), transform.maps)
    seen = 0
    for part in projection:
        seen += 1
        chunk = source[tuple(slice(c * n, (c + 1) * n) for c, n in zip(part.coords, chunks, strict=True))]
        out[part.out_selection] = chunk[part.chunk_selection]
        if part.is_complete:
            assert part.size == chunk.size
    assert seen == len(projection)
    assert np.array_equal(out, expected)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 50), st.data())
def test_inner_chunks_of_a_shard_cover_the_same_elements(
    inner: int, per_shard: int, extent: int, data: st.DataObject
) -> None:
    shard = inner * per_shard
    selected = IndexTransform.identity((extent,)).select(data.draw(st.slices(extent))).maps
    source = np.arange(extent)
    chosen = selected[0]
    assert isinstance(chosen, Strided)
    out = np.full(chosen.count, -1)
    for outer in Projection(regular_axes((shard,), (extent,)), selected):
        for part in outer.inner_chunks(regular_axes((inner,), (shard,))):
            first = outer.coords[0] * shard + part.coords[0] * inner
            out[part.out_selection] = source[first : first + inner][part.chunk_selection]
            assert part.is_complete == (part.size == len(source[first : min(first + inner, extent)]))
    assert np.array_equal(out, chosen.start + chosen.step * np.arange(chosen.count))


def test_a_long_dimension_is_iterated_in_constant_memory() -> None:
    axes = (RegularAxis(1, 10**9), RegularAxis(10, 20))
    projection = Projection(axes, (Strided(0, 1, 10**9), Strided(0, 1, 20)))
    assert len(projection) == 2 * 10**9
    walk = iter(projection)
    assert [next(walk).coords for _ in range(3)] == [(0, 0), (0, 1), (1, 0)]


def test_a_zero_dimensional_array_has_one_chunk() -> None:
    (part,) = Projection((), ())
    assert part.coords == ()
    assert part.is_complete


def test_steps_wider_than_chunks_skip_chunks() -> None:
    (first, second) = Projection((RegularAxis(3, 20),), (Strided(19, -13, 2),))
    assert [first.coords, second.coords] == [(6,), (2,)]
    assert list(product(first.out_selection, second.out_selection)) == [(slice(0, 1), slice(1, 2))]


@pytest.mark.parametrize("dims", [(200_000,), (3, 200_000), (200_000, 3), (5000, 3, 5000), (1, 200_000, 1)])
def test_any_long_dimension_is_iterated_in_constant_memory(dims: tuple[int, ...]) -> None:
    axes = [RegularAxis(4, 4 * count) for count in dims]
    projection = Projection(axes, [Strided(0, 1, 4 * count) for count in dims])
    tracemalloc.start()
    try:
        first = [part.coords for part in islice(projection, 4)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert first == list(islice(product(*map(range, dims)), 4))
    assert peak < 1 << 20


@pytest.mark.parametrize("counts", [(5, 4), (4, 5), (5, 2, 5), (2, 5, 2), (5,)])
def test_regenerated_dimensions_equal_cached_ones(counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    axes = [RegularAxis(4, 4 * count - 1) for count in counts]
    maps = [Strided(1, 1, axis.extent - 1) for axis in axes]
    listed = list(Projection(axes, maps))
    numbers = [number for number, _ in Projection(axes, maps).numbered(counts)]
    monkeypatch.setattr(projection_module, "MAX_CACHED_SELECTIONS", 4)
    assert list(Projection(axes, maps)) == listed
    assert list(Projection(axes, maps).numbered(counts)) == list(zip(numbers, listed, strict=True))
