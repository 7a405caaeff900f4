"""Arrays of any format as they are before anything is written, and single elements as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import aiozarr
from tests.support.peer_cases import AnyArray
from tests.support.strategies.arrays import NewArray
from tests.support.strategies.elements import same_elements


def boxed(found: Any, dtype: np.dtype[Any]) -> AnyArray:
    """Return the elements that were read as an array; a single element becomes one without dimensions."""
    if isinstance(found, np.ndarray) and found.dtype == dtype:
        return found
    box = np.empty((), dtype)
    box[()] = found
    return box


async def initial(array: aiozarr.Array, new: NewArray) -> AnyArray:
    """The array before anything is written; its fill value is the one that was given."""
    assert (array.shape, array.dtype) == (new.shape, new.elements.dtype)
    fill = np.asarray(array.metadata.fill_value)
    if "fill_value" in new.options:
        assert same_elements(fill, new.options["fill_value"])
    model = np.repeat(fill.reshape(1), np.prod(new.shape, dtype=int)).reshape(new.shape)
    assert same_elements(await array[...], model)
    return model
