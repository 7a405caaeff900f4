"""Pure geometry: chunk grids, chunk keys and index transforms."""

from aiozarr.grid.advanced import select_orthogonal, select_pointwise
from aiozarr.grid.chunk_grid import ChunkGrid, RegularGrid, resolve_grid
from aiozarr.grid.fields import FieldNames, Fields
from aiozarr.grid.indices import ArraySelection
from aiozarr.grid.key_encoding import ChunkKeyEncoding, DefaultKeyEncoding, V2KeyEncoding, resolve_key_encoding
from aiozarr.grid.transform import (
    BasicSelection,
    Constant,
    DimensionMap,
    Indexed,
    IndexTransform,
    Strided,
    core_shape_of,
)

__all__ = [
    "ArraySelection",
    "BasicSelection",
    "ChunkGrid",
    "ChunkKeyEncoding",
    "Constant",
    "DefaultKeyEncoding",
    "DimensionMap",
    "FieldNames",
    "Fields",
    "IndexTransform",
    "Indexed",
    "RegularGrid",
    "Strided",
    "V2KeyEncoding",
    "core_shape_of",
    "resolve_grid",
    "resolve_key_encoding",
    "select_orthogonal",
    "select_pointwise",
]
