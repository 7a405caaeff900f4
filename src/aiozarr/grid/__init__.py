"""Pure geometry: chunk grids, chunk keys and index transforms."""

from aiozarr.grid.chunk_grid import ChunkGrid, RegularGrid, register_chunk_grid, resolve_grid
from aiozarr.grid.key_encoding import (
    ChunkKeyEncoding,
    DefaultKeyEncoding,
    V2KeyEncoding,
    register_chunk_key_encoding,
    resolve_key_encoding,
)
from aiozarr.grid.transform import BasicSelection, Constant, DimensionMap, IndexTransform, Strided

__all__ = [
    "BasicSelection",
    "ChunkGrid",
    "ChunkKeyEncoding",
    "Constant",
    "DefaultKeyEncoding",
    "DimensionMap",
    "IndexTransform",
    "RegularGrid",
    "Strided",
    "V2KeyEncoding",
    "register_chunk_grid",
    "register_chunk_key_encoding",
    "resolve_grid",
    "resolve_key_encoding",
]
