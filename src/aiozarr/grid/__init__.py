"""Pure geometry: chunk grids, chunk keys and index transforms."""

from aiozarr.grid.chunk_grid import ChunkGrid, RegularGrid, resolve_grid
from aiozarr.grid.key_encoding import ChunkKeyEncoding, DefaultKeyEncoding, V2KeyEncoding, resolve_key_encoding
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
    "resolve_grid",
    "resolve_key_encoding",
]
