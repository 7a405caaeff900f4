"""The blocking functions open, create, and read several views."""

from __future__ import annotations

import numpy as np
import pytest

import aiozarr
from aiozarr import sync

DATA = np.arange(7 * 10, dtype="i4").reshape(7, 10)


def test_open_returns_blocking_arrays_and_groups(array: sync.Array) -> None:
    assert isinstance(sync.open(array.store, "g/a"), sync.Array)
    assert isinstance(sync.open(array.store), sync.Group)
    with pytest.raises(aiozarr.NodeTypeError):
        sync.open_group(array.store, "g/a")


def test_several_views_are_read_at_once(array: sync.Array) -> None:
    left, right, whole = sync.read_many([array.view[:2], array.view[5, 5], array])
    assert np.array_equal(left, DATA[:2])
    assert right == DATA[5, 5]
    assert np.array_equal(whole, DATA)
    assert sync.read_many([]) == []
