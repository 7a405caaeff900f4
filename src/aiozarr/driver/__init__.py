"""TensorStore's zarr3 driver: JSON specs open and create arrays as `TensorView`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.driver.chunk_layout import ChunkLayout
    from aiozarr.driver.context_resources import Context
    from aiozarr.driver.index_domain import Dimension, IndexDomain
    from aiozarr.driver.json_members import SpecConflictError
    from aiozarr.driver.schema import CodecSchema, Schema, Unit
    from aiozarr.driver.tensor_view import TensorView
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".chunk_layout": "ChunkLayout",
            ".context_resources": "Context",
            ".index_domain": "Dimension IndexDomain",
            ".json_members": "SpecConflictError",
            ".schema": "CodecSchema Schema Unit",
            ".tensor_view": "TensorView",
        },
    )

__all__ = [
    "ChunkLayout",
    "CodecSchema",
    "Context",
    "Dimension",
    "IndexDomain",
    "Schema",
    "SpecConflictError",
    "TensorView",
    "Unit",
]
