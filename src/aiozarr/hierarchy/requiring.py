"""What is there already where a node is required: it fits, or an error says what differs."""

from __future__ import annotations

from typing import Any

import numpy as np

from aiozarr.errors import NodeTypeError
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.describe.v3 import DataTypeLike, check_shape, resolve_dtype
from aiozarr.hierarchy.node import Node


def fitting_array(node: Node[Any] | None, shape: Any, dtype: DataTypeLike, exact: bool) -> Array | None:
    """Return the node if it is an array of this shape and type; None where there is no node.

    Raises:
        TypeError: shape or type differ: `dtype` cannot hold the array's values or, with `exact`, is another one.
        NodeTypeError: there is a group.
    """
    if node is None:
        return None
    if not isinstance(node, Array):
        raise NodeTypeError(f"{node.url} is a group, not an array", url=node.url, path=node.path)
    if node.shape != check_shape(shape):
        raise TypeError(f"{node.url} has the shape {node.shape}, not {check_shape(shape)}")
    wanted = np.dtype(object) if dtype is object else resolve_dtype(dtype)[0].dtype
    fits = node.dtype == wanted if exact else np.can_cast(node.dtype, wanted)
    if not fits:
        raise TypeError(f"{node.url} holds {node.metadata.data_type.name}, not {wanted}")
    return node
