"""Orthogonal and pointwise indexing as numpy would do it, and random selections of both kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

AnyArray: TypeAlias = np.ndarray[Any, Any]
Step: TypeAlias = tuple[str, Any]
"""A kind of indexing, "basic", "oindex" or "vindex", and its selection."""


def orthogonal(array: AnyArray, selection: tuple[Any, ...]) -> AnyArray:
    """Return `array.oindex[selection]`, where every axis has an item: an integer, a slice, a list or a mask."""
    positions = [np.arange(n)[item] for n, item in zip(array.shape, selection, strict=True)]
    found = array[np.ix_(*[np.atleast_1d(each) for each in positions])] if positions else array
    return found.reshape([len(each) for each in positions if each.ndim])


def pointwise(array: AnyArray, selection: tuple[Any, ...]) -> AnyArray:
    """Return `array.vindex[selection]`, where every axis has an item: an integer, a slice or an index array."""
    listed = [axis for axis, item in enumerate(selection) if isinstance(item, np.ndarray)]
    sliced = array[tuple(slice(None) if axis in listed else item for axis, item in enumerate(selection))]
    kept = [axis for axis, item in enumerate(selection) if not isinstance(item, int)]
    sources = [kept.index(axis) for axis in listed]
    found: AnyArray = np.moveaxis(sliced, sources, range(len(sources)))[tuple(selection[axis] for axis in listed)]
    return found


APPLY: dict[str, Callable[[AnyArray, Any], AnyArray]] = {
    "basic": lambda array, selection: np.asarray(array[selection]),
    "oindex": orthogonal,
    "vindex": pointwise,
}


def _slices(side: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-side - 2, side + 2)
    return st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, 3, -1, -2]))


def _integers(side: int) -> st.SearchStrategy[int]:
    return st.integers(-side, side - 1)


@st.composite
def orthogonal_selections(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One item per axis: unsorted and repeated indices, none at all, masks, slices and integers."""
    items: list[Any] = []
    for side in shape:
        choices: list[st.SearchStrategy[Any]] = [_slices(side), npst.arrays(bool, side)]
        if side:
            lists = st.lists(_integers(side), max_size=7)
            choices += [lists, lists.map(lambda each: np.array(each, "i4")), _integers(side)]
        items.append(draw(st.one_of(choices)))
    return tuple(np.array(item, np.int64) if isinstance(item, list) else item for item in items)


@st.composite
def pointwise_selections(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One item per axis: index arrays that broadcast against each other, slices and integers."""
    points = draw(npst.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4))
    items: list[Any] = []
    for side in shape:
        if side and draw(st.booleans()):
            cut = draw(st.integers(0, len(points) - 1))
            items.append(draw(npst.arrays(np.int64, points[cut:], elements=_integers(side))))
        else:
            items.append(draw(st.one_of(_slices(side), _integers(side)) if side else _slices(side)))
    return tuple(items)


@st.composite
def steps(draw: Any, shape: tuple[int, ...], *, most: int = 3) -> list[Step]:
    """A chain of selections, each of the result of the one before."""
    array = np.empty(shape, "V0")
    chain: list[Step] = []
    for _ in range(draw(st.integers(1, most))):
        how = draw(st.sampled_from(["basic", "oindex", "vindex"]))
        if how == "basic":
            selection = draw(npst.basic_indices(array.shape, max_dims=6, allow_newaxis=True))
        else:
            strategy = orthogonal_selections if how == "oindex" else pointwise_selections
            selection = draw(strategy(array.shape))
        chain.append((how, selection))
        array = APPLY[how](array, selection)
        if array.ndim > 5:
            break
    return chain


def selected(view: Any, chain: list[Step]) -> Any:
    """The view that a chain of selections makes."""
    found = view[...]
    for how, selection in chain:
        brackets: Any = {"basic": found, "oindex": found.oindex, "vindex": found.vindex}[how]
        found = brackets[selection]
    return found


def places_of(shape: tuple[int, ...], chain: list[Step]) -> AnyArray:
    """For each element that a chain selects its place in the array, counted in C order."""
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for how, selection in chain:
        places = APPLY[how](places, selection)
    return places
