"""A mesh is a place in an array given by integers, slices and index arrays of which some go together, read or written.

numpy's own rule for where the axes of index arrays go depends on where the slices are; here they stay in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

AnyArray: TypeAlias = NDArray[Any]
Item: TypeAlias = int | slice | NDArray[np.int64]


class Mesh:
    """Elements of an array.

    Args:
        items: one per axis of the array.
        labels: what each item belongs to; index arrays of one label are one axis of the result, walked together.
        order: labels in the order of the result's axes; those of integers have none.
    """

    __slots__ = ("_back", "_basic", "_front", "_key")

    def __init__(self, items: Sequence[Item], labels: Sequence[Hashable], order: Sequence[Hashable]) -> None:
        # Integers and slices first, which is a view; then its listed axes are brought to the front.
        self._basic = (*[slice(None) if isinstance(item, np.ndarray) else item for item in items], ...)
        kept = [(item, label) for item, label in zip(items, labels, strict=True) if not isinstance(item, int)]
        listed = [axis for axis, (item, _) in enumerate(kept) if isinstance(item, np.ndarray)]
        sliced = [axis for axis, (item, _) in enumerate(kept) if isinstance(item, slice)]
        self._front = (*listed, *sliced)
        groups = list(dict.fromkeys(kept[axis][1] for axis in listed))
        result = [*groups, *[kept[axis][1] for axis in sliced]]
        self._back = tuple([result.index(label) for label in order if label in result])
        self._key: tuple[Any, ...] = (
            *[_along(kept[axis][0], groups.index(kept[axis][1]), len(groups)) for axis in listed],
            ...,
        )

    def get(self, array: AnyArray) -> AnyArray:
        """Return the elements; a view where there are no index arrays."""
        result: AnyArray = array[self._basic].transpose(self._front)[self._key]
        return result.transpose(self._back)

    def set(self, array: AnyArray, values: AnyArray) -> None:
        """Assign `values`, of the shape of `get`; where an element is there repeatedly, the last one stays."""
        array[self._basic].transpose(self._front)[self._key] = values.transpose(np.argsort(self._back))

    def fill(self, array: AnyArray, value: AnyArray) -> None:
        """Assign one value to all elements."""
        array[self._basic].transpose(self._front)[self._key] = value


def _along(item: Any, axis: int, ndim: int) -> AnyArray:
    array: AnyArray = item
    return array.reshape((1,) * axis + (-1,) + (1,) * (ndim - 1 - axis))
