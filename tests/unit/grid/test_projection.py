"""The chunks that a selection touches, compared with numpy."""

from __future__ import annotations

import tracemalloc
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.grid import projection as projection_module
from aiozarr.grid.axes import RegularAxis, regular_axes
from aiozarr.grid.projection import MIN_REORDER_BYTES, SLICE_ELEMENTS, Projection, assign
from aiozarr.grid.transform import Constant, IndexTransform, Strided


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


class Watched(np.ndarray[Any, Any]):
    """Counts the assignments."""

    assignments = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        type(self).assignments += 1
        super().__setitem__(key, value)


def count(out: np.ndarray[Any, Any], part: np.ndarray[Any, Any]) -> int:
    Watched.assignments = 0
    assign(out.view(Watched), part)
    return Watched.assignments


@pytest.mark.parametrize("shape", [(64, 64, 64), (32, 32, 33), (512, 130), (2, 256, 256), (70, 70, 70), (3, 2), (40,)])
@pytest.mark.parametrize("dtype", ["<i4", ">f8", "u1", "c16"])
def test_assignment_equals_that_of_numpy(shape: tuple[int, ...], dtype: str) -> None:
    part = np.arange(np.prod(shape)).astype(dtype).reshape(shape[::-1]).T
    room = np.zeros([length + 1 for length in shape], part.dtype.newbyteorder("="))
    out = room[tuple(slice(1, None) for _ in shape)]
    assign(out, part)
    assert np.array_equal(out, part)
    assert not room[0].any()
    assert not room[..., 0].any()


def test_colliding_elements_are_assigned_in_slices() -> None:
    part = np.zeros((64, 64, 64), "i4").T
    out = np.empty((64, 64, 64), "i4")
    assert part.nbytes > MIN_REORDER_BYTES
    assert count(out, part) == 64 // SLICE_ELEMENTS


def test_everything_else_is_one_assignment() -> None:
    out = np.empty((64, 64, 64), "i4")
    for part in (
        np.zeros((64, 64, 64), "i4"),
        np.zeros((64, 64, 64), "i4")[::-1],
        np.zeros((64, 64, 65), "i4").T[:64],
        np.zeros((8, 64, 64), "i4").T[:, :, :4],
        np.zeros((), "i4"),
        np.broadcast_to(np.zeros((64, 64, 1), "i4"), (64, 64, 64)),
    ):
        target = out[tuple(slice(length) for length in part.shape)] if part.ndim else out
        assert count(target, part) == 1
    assert count(out.T, np.zeros((64, 64, 64), "i4").T) == 1


@pytest.mark.parametrize(
    "dtype", ["i1", "<f4", ">f4", "c16", "M8[ns]", "S3", "U2", "V5", [("a", "i2"), ("b", "f8")], "?"]
)
@pytest.mark.parametrize("shape", [(5, 4, 7), (3, 1), (0, 4), (4, 0), (2, 600), (6, 2)])
def test_rows_of_all_types_and_lengths_are_assigned_and_nothing_else(shape: tuple[int, ...], dtype: Any) -> None:
    element = np.dtype(dtype)
    rng = np.random.default_rng(0)
    size = int(np.prod(shape))
    bits = rng.integers(0, 2, size * element.itemsize).astype(np.uint8)
    part = np.frombuffer(bits.tobytes(), element).reshape(shape) if size else np.empty(shape, element)
    room = np.zeros([length + 2 for length in shape], element)
    before = room.tobytes()
    out = room[tuple(slice(1, -1) for _ in shape)]
    assign(out, part)
    assert out.tobytes() == part.tobytes()
    out[...] = np.zeros((), element)
    assert room.tobytes() == before


def test_objects_and_texts_keep_their_references() -> None:
    for part in (np.array([["a", None], [(1,), 2.5]], object), np.array([["a" * 40, "b"], ["", "c"]], "U40")):
        room = np.empty((3, 3), part.dtype)
        assign(room[1:, 1:], part)
        assert room[1:, 1:].tolist() == part.tolist()


def test_the_mask_of_a_masked_output_is_written_to_as_numpy_does() -> None:
    room = np.ma.masked_all((4, 4), "i4")
    assign(room[1:3, 1:3], np.arange(4, dtype="i4").reshape(2, 2))
    assert room[1:3, 1:3].tolist() == [[0, 1], [2, 3]]
    assert room.mask.sum() == 12
