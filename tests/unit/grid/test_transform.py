"""Index transforms address the elements of basic indexing of numpy."""

from __future__ import annotations

import pickle
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import SelectionError
from aiozarr.grid.transform import MAX_VIEW_NDIM, Constant, IndexTransform, Strided


def materialise(transform: IndexTransform, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Read the elements that the maps address, one dimension after the other, then add the new axes."""
    if transform.size == 0:
        return np.empty(transform.shape, array.dtype)
    indices = [
        [each.index] if isinstance(each, Constant) else [each.start + i * each.step for i in range(each.count)]
        for each in transform.maps
    ]
    assert all(0 <= i < n for taken, n in zip(indices, array.shape, strict=True) for i in taken)
    return array[np.ix_(*indices)].reshape(transform.core_shape).reshape(transform.shape)


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A basic selection that mostly fits an array of this shape, and sometimes does not."""
    items: list[Any] = []
    for length in shape[: draw(st.integers(0, len(shape)))]:
        edge = st.integers(-length - 2, length + 2)
        step = st.sampled_from([None, 1, 2, 3, 7, -1, -2, -5])
        slices = st.builds(slice, edge | st.none(), edge | st.none(), step)
        inside = st.integers(-length, length - 1) if length else slices
        items.append(draw(inside | slices | slices | inside.map(lambda i: np.int16(i) if isinstance(i, int) else i)))
    for extra in draw(st.lists(st.sampled_from([None, None, ..., 0, -1]), max_size=2)):
        items.insert(draw(st.integers(0, len(items))), extra)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@given(st.lists(st.integers(0, 6), max_size=4).map(tuple), st.data())
def test_a_chain_of_selections_addresses_the_elements_that_numpy_addresses(shape: tuple[int, ...], data: Any) -> None:
    array = np.arange(prod(shape)).reshape(shape)
    expected: Any = array
    transform = IndexTransform.identity(shape)
    for _ in range(data.draw(st.integers(1, 4))):
        selection = data.draw(selections(transform.shape))
        try:
            following = expected[selection]
        except IndexError:
            with pytest.raises(SelectionError):
                transform.select(selection)
            continue
        expected, transform = np.asarray(following), transform.select(selection)
        assert transform.shape == expected.shape
        assert np.array_equal(materialise(transform, array), expected)
        assert [n for n, axis in zip(transform.shape, transform.axes, strict=True) if axis is not None] == list(
            transform.core_shape
        )


def test_equal_progressions_have_one_form() -> None:
    whole = IndexTransform.identity((10,))
    assert whole.select(slice(4, 5, 3)).maps == (Strided(4, 1, 1),)
    assert whole.select(slice(9, None, -20)).maps == (Strided(9, 1, 1),)
    assert whole.select(slice(7, 3)).maps == (Strided(0, 1, 0),)
    assert whole.select(slice(None, None, 2)) == whole.select(slice(0, 9, 2)) == whole.select((..., slice(0, 10, 2)))
    assert IndexTransform.identity((0,)).maps == (Strided(0, 1, 0),)
    assert hash(whole.select(...)) == hash(whole)


def test_a_negative_step_runs_backwards() -> None:
    assert IndexTransform.identity((10,)).select(slice(None, None, -3)).maps == (Strided(9, -3, 4),)
    assert IndexTransform.identity((10,)).select(slice(None, None, -3)).select(slice(None, None, -1)).maps == (
        Strided(0, 3, 4),
    )


def test_axes_name_the_dimension_that_they_address() -> None:
    view = IndexTransform.identity((4, 5, 6)).select((None, 2, ..., None, slice(1, 3)))
    assert view.maps == (Constant(2), Strided(0, 1, 5), Strided(1, 1, 2))
    assert view.axes == (None, 1, None, 2)
    assert view.shape == (1, 5, 1, 2)
    assert view.core_shape == (5, 2)


def test_a_new_axis_is_indexed_like_any_other() -> None:
    view = IndexTransform.identity((4,)).select((None, slice(1, 3)))
    assert view.select(-1).shape == (2,)
    assert view.select(slice(None, None, -1)).shape == (1, 2)
    empty = view.select(slice(1, None))
    assert (empty.shape, empty.core_shape, empty.size) == ((0, 2), (2,), 0)
    with pytest.raises(SelectionError, match="axis 0 of size 1"):
        view.select(1)


def test_without_new_axes_is_a_view_of_the_core() -> None:
    view = IndexTransform.identity((4, 5)).select((None, 2, slice(None), None))
    out = np.zeros((1, 10, 1))[:, ::2]
    view.without_new_axes(out)[...] = np.arange(5)
    assert out.ravel().tolist() == [0, 1, 2, 3, 4]
    scalar = IndexTransform.identity(()).select(None)
    assert scalar.without_new_axes(np.zeros((1,))).shape == ()


def test_lengths_beyond_64_bits_of_elements_are_exact() -> None:
    length = 2**63 - 1
    view = IndexTransform.identity((length, length)).select((slice(None, None, 2), -1))
    assert view.maps == (Strided(0, 2, 2**62), Constant(length - 1))
    assert IndexTransform.identity((length, length)).size == length**2


@pytest.mark.parametrize("index", [1, np.int8(1), np.uint64(1), np.array(1)])
def test_objects_with_an_index_method_are_integers(index: Any) -> None:
    assert IndexTransform.identity((3,)).select(index).maps == (Constant(1),)


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (5, "index 5 is out of range for axis 0 of size 5"),
        ((0, -7), "index -7 is out of range for axis 1 of size 6"),
        ((None, 0, 6), "index 6 is out of range for axis 1 of size 6"),
        ((0, 0, 0), "too many indices"),
        ((..., 0, 0, 0), "too many indices"),
        ((..., ...), "single ellipsis"),
        (slice(None, None, 0), "step of 0"),
        (slice(0.5, None), "not an integer"),
        (slice("a", None), "not an integer"),
        (1.0, "is a float"),
        (np.float64(1), "is a float64"),
        ("name", "is a str"),
        (True, "use `oindex` or `vindex`"),
        (np.True_, "use `oindex` or `vindex`"),
        ((0, False), "axis 1 is a bool"),
        ([0, 1], "use `oindex` or `vindex`"),
        ((0, (0, 1)), "use `oindex` or `vindex`"),
        (np.array([0, 1]), "use `oindex` or `vindex`"),
        (np.zeros((5, 6), bool), "use `oindex` or `vindex`"),
        ((0, np.array([0]), np.array([0])), "use `oindex` or `vindex`"),
        (np.array(True), "is a ndarray"),
        ((None,) * (MAX_VIEW_NDIM - 1), f"numpy allows {MAX_VIEW_NDIM}"),
    ],
)
def test_other_items_than_basic_indices_are_rejected_with_the_reason(selection: Any, words: str) -> None:
    with pytest.raises(SelectionError, match=words):
        IndexTransform.identity((5, 6)).select(selection)
    with pytest.raises(IndexError):
        IndexTransform.identity((5, 6)).select(selection)


def test_a_transform_can_be_pickled() -> None:
    view = IndexTransform.identity((5, 6)).select((1, slice(2, 4)))
    assert pickle.loads(pickle.dumps(view)) == view
