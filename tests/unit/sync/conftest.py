"""A blocking array for the tests of the blocking names."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr import sync
from aiozarr.stores import MemoryStore


@pytest.fixture
def array() -> sync.Array:
    """An array of 7 by 10 numbers, which count from 0, in 12 chunks below a group."""
    array = sync.create_array(MemoryStore(), "g/a", shape=(7, 10), dtype="i4", chunks=3, attributes={"n": 1})
    array[...] = np.arange(70).reshape(7, 10)
    return array
