"""The chunks that a new shape leaves behind."""

from __future__ import annotations

from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.engine import ArrayLayout
from aiozarr.hierarchy.describe import new_array_metadata
from aiozarr.hierarchy.reshaping import count_outside, outside, parse_chunk_key
from aiozarr.settings import Settings

shapes = st.integers(0, 3).flatmap(lambda n: st.tuples(*[st.tuples(*[st.integers(0, 4)] * n)] * 2))


@given(shapes)
def test_what_is_outside_is_what_only_the_old_grid_has_each_once(
    grids: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    old, new = grids
    found = list(outside(old, new))
    expected = set(product(*map(range, old))) - set(product(*map(range, new)))
    assert sorted(found) == sorted(expected)
    assert count_outside(old, new) == len(found)


def test_a_huge_grid_is_walked_lazily() -> None:
    huge = 1 << 60
    assert list(islice(outside((huge, huge), (1, 1)), 2)) == [(1, 0), (1, 1)]
    assert count_outside((huge, huge), (1, 1)) == huge * huge - 1


@pytest.mark.parametrize("encoding", [("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")])
@given(coords=st.lists(st.integers(0, 1 << 40), min_size=1, max_size=4).map(tuple))
def test_a_chunks_key_is_parsed_back_to_its_coordinates(encoding: tuple[str, str], coords: tuple[int, ...]) -> None:
    layout = _layout(len(coords), encoding)
    assert parse_chunk_key(layout, layout.key_encoding.encode(coords)) == coords


@pytest.mark.parametrize(
    "key", ["zarr.json", "c", "c/1", "c/1/2/3", "c/01/2", "c/1/x", "d/1/2", "c/1/2.tmp", "c/1/" + "9" * 30]
)
def test_other_keys_are_no_chunks(key: str) -> None:
    assert parse_chunk_key(_layout(2, ("default", "/")), key) is None


def _layout(ndim: int, encoding: tuple[str, str]) -> ArrayLayout:
    metadata = new_array_metadata(shape=(1 << 41,) * ndim, dtype="u1", chunks=1, chunk_key_encoding=encoding)
    return ArrayLayout.resolve(metadata, node="a", settings=Settings())
