"""Metadata documents of Zarr v1, v2 and v3, and the one model for all three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.metadata.data_type import DataType, register_data_type
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".data_type": "DataType register_data_type",
        },
    )

__all__ = ["DataType", "register_data_type"]
