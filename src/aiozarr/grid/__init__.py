"""Chunk grids, chunk key encodings and index transforms: pure geometry, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.grid.advanced import ArraySelection, select_orthogonal, select_pointwise
    from aiozarr.grid.chunk_grid import ChunkGrid, RegularGrid, register_chunk_grid, resolve_grid
    from aiozarr.grid.fields import FieldNames, Fields
    from aiozarr.grid.key_encoding import (
        ChunkKeyEncoding,
        DefaultKeyEncoding,
        V2KeyEncoding,
        register_chunk_key_encoding,
        resolve_key_encoding,
    )
    from aiozarr.grid.key_extensions import (
        FanoutKeyEncoding,
        PrefixKeyEncoding,
        SuffixKeyEncoding,
        TemplateKeyEncoding,
    )
    from aiozarr.grid.rectilinear import RectilinearGrid
    from aiozarr.grid.transform import (
        BasicSelection,
        Constant,
        DimensionMap,
        Indexed,
        IndexTransform,
        Strided,
        core_shape_of,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".advanced": "ArraySelection select_orthogonal select_pointwise",
            ".chunk_grid": "ChunkGrid RegularGrid register_chunk_grid resolve_grid",
            ".fields": "FieldNames Fields",
            ".key_encoding": (
                "ChunkKeyEncoding DefaultKeyEncoding V2KeyEncoding register_chunk_key_encoding resolve_key_encoding"
            ),
            ".key_extensions": "FanoutKeyEncoding PrefixKeyEncoding SuffixKeyEncoding TemplateKeyEncoding",
            ".rectilinear": "RectilinearGrid",
            ".transform": "BasicSelection Constant DimensionMap IndexTransform Indexed Strided core_shape_of",
        },
    )

__all__ = [
    "ArraySelection",
    "BasicSelection",
    "ChunkGrid",
    "ChunkKeyEncoding",
    "Constant",
    "DefaultKeyEncoding",
    "DimensionMap",
    "FanoutKeyEncoding",
    "FieldNames",
    "Fields",
    "IndexTransform",
    "Indexed",
    "PrefixKeyEncoding",
    "RectilinearGrid",
    "RegularGrid",
    "Strided",
    "SuffixKeyEncoding",
    "TemplateKeyEncoding",
    "V2KeyEncoding",
    "core_shape_of",
    "register_chunk_grid",
    "register_chunk_key_encoding",
    "resolve_grid",
    "resolve_key_encoding",
    "select_orthogonal",
    "select_pointwise",
]
