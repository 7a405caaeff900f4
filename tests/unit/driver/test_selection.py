"""Selections by domain are refused where they leave it, or are no indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.index_transform import DomainTransform
from aiozarr.driver.selection import select
from aiozarr.errors import SelectionError

WHOLE = DomainTransform.identity(IndexDomain.of_shape((10, 20), ("x", "y")))
PART = select(WHOLE, slice(2, 8))


@pytest.mark.parametrize(
    ("transform", "selection", "match"),
    [
        (WHOLE, -1, "negative indices do not wrap around"),
        (WHOLE, 10, "outside"),
        (WHOLE, slice(-3, None), "negative indices do not wrap around"),
        (WHOLE, slice(0, 20), r"is outside \["),
        (WHOLE, slice(8, 3), "ends before it starts"),
        (WHOLE, slice(None, None, 0), "must not have step 0"),
        (PART, slice(0, 4), r"is outside \["),
        (PART, 1, "outside"),
        (WHOLE, [[10]], "outside"),
        (WHOLE, [-1], "outside"),
        (WHOLE, (1, 2, 3), "too many indices"),
        (WHOLE, (..., ...), "single ellipsis"),
        (WHOLE, 1.5, "expected an integer, a slice, .* not float"),
        (WHOLE, [1.5], "integers or booleans"),
        (WHOLE, ([1, 2], [1, 2, 3]), "do not broadcast"),
        (WHOLE, True, "a bool is not an index"),
    ],
)
def test_what_leaves_the_domain_is_refused(transform: DomainTransform, selection: Any, match: str) -> None:
    with pytest.raises(SelectionError, match=match):
        select(transform, selection)


def test_a_stride_divides_the_origin_and_labels_stay() -> None:
    found = select(WHOLE, slice(3, 8, 2)).domain
    assert (found.inclusive_min, found.exclusive_max, found.labels) == ((1, 0), (4, 20), ("x", "y"))
    assert found.implicit_upper_bounds == (False, True)


def test_index_arrays_lose_the_label_and_begin_at_0() -> None:
    found = select(PART, np.array([2, 7])).domain
    assert (found.inclusive_min, found.shape, found.labels) == ((0, 0), (2, 20), ("", "y"))
