"""The chunks that a new shape leaves behind."""

from __future__ import annotations

from itertools import islice, product

from hypothesis import given
from hypothesis import strategies as st

from aiozarr.hierarchy.reshaping import count_outside, outside

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
