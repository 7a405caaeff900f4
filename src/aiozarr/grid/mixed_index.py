"""Reads and writes of array elements by integers, slices and groups of index arrays in one index.

The position of the axes of index arrays follows their order. In numpy's own rule it depends on the slices between them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

AnyArray: TypeAlias = NDArray[Any]
Item: TypeAlias = int | slice | NDArray[np.int64]


class MixedIndex:
    """An index of integers, slices and grouped index arrays.

    Args:
        items: one per axis of the array.
        labels: the group of each item. Index arrays of one label are iterated together and form one axis of the result.
        order: labels in the order of the axes of the result; integers have no axis.
    """

    __slots__ = ("_back", "_basic", "_front", "_key")

    def __init__(self, items: Sequence[Item], labels: Sequence[Hashable], order: Sequence[Hashable]) -> None:
        # Integers and slices first, which makes a view. Then its indexed axes are moved to the front.
        self._basic = (*[slice(None) if isinstance(item, np.ndarray) else item for item in items], ...)
        kept = [(item, label) for item, label in zip(items, labels, strict=True) if not isinstance(item, int)]
        indexed = [axis for axis, (item, _) in enumerate(kept) if isinstance(item, np.ndarray)]
        sliced = [axis for axis, (item, _) in enumerate(kept) if isinstance(item, slice)]
        self._front = (*indexed, *sliced)
        groups = list(dict.fromkeys(kept[axis][1] for axis in indexed))
        result = [*groups, *[kept[axis][1] for axis in sliced]]
        self._back = tuple([result.index(label) for label in order if label in result])
        self._key: tuple[Any, ...] = (
            *[_along(kept[axis][0], groups.index(kept[axis][1]), len(groups)) for axis in indexed],
            ...,
        )

    def get(self, array: AnyArray) -> AnyArray:
        """Return the elements, as a view if there are no index arrays."""
        result: AnyArray = array[self._basic].transpose(self._front)[self._key]
        return result.transpose(self._back)

    def set(self, array: AnyArray, values: AnyArray) -> None:
        """Assign `values`, of the shape of `get`. The last value of an element that is indexed repeatedly stays."""
        array[self._basic].transpose(self._front)[self._key] = values.transpose(np.argsort(self._back))

    def fill(self, array: AnyArray, value: AnyArray) -> None:
        """Assign one value to all elements."""
        array[self._basic].transpose(self._front)[self._key] = value


def _along(item: Any, axis: int, ndim: int) -> AnyArray:
    array: AnyArray = item
    return array.reshape((1,) * axis + (-1,) + (1,) * (ndim - 1 - axis))
