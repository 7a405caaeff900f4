"""TensorStore's zarr3 driver: JSON specs open and create arrays, held as `TensorView`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.driver.chunk_layout import ChunkLayout
    from aiozarr.driver.codec_spec import CodecChainSpec, CodecSpec
    from aiozarr.driver.context_resources import CachePool, Context
    from aiozarr.driver.index_domain import Dimension, IndexDomain
    from aiozarr.driver.index_transform import DomainTransform
    from aiozarr.driver.json_members import SpecConflictError
    from aiozarr.driver.kv_store import KvStore
    from aiozarr.driver.open_target import open, open_any, open_spec  # noqa: A004  # the public name
    from aiozarr.driver.schema import Schema, Unit
    from aiozarr.driver.spec import Spec
    from aiozarr.driver.tensor_view import TensorView
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".chunk_layout": "ChunkLayout",
            ".codec_spec": "CodecChainSpec CodecSpec",
            ".context_resources": "CachePool Context",
            ".index_domain": "Dimension IndexDomain",
            ".index_transform": "DomainTransform",
            ".json_members": "SpecConflictError",
            ".kv_store": "KvStore",
            ".open_target": "open open_any open_spec",
            ".schema": "Schema Unit",
            ".spec": "Spec",
            ".tensor_view": "TensorView",
        },
    )

__all__ = [
    "CachePool",
    "ChunkLayout",
    "CodecChainSpec",
    "CodecSpec",
    "Context",
    "Dimension",
    "DomainTransform",
    "IndexDomain",
    "KvStore",
    "Schema",
    "Spec",
    "SpecConflictError",
    "TensorView",
    "Unit",
    "open",
    "open_any",
    "open_spec",
]
