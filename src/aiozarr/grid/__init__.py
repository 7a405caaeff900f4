"""Chunk grids, chunk key encodings and index transforms: pure geometry, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.grid.chunk_grid import ChunkGrid, RegularGrid, register_chunk_grid
    from aiozarr.grid.key_encoding import ChunkKeyEncoding, register_chunk_key_encoding
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".chunk_grid": "ChunkGrid RegularGrid register_chunk_grid",
            ".key_encoding": "ChunkKeyEncoding register_chunk_key_encoding",
        },
    )

__all__ = ["ChunkGrid", "ChunkKeyEncoding", "RegularGrid", "register_chunk_grid", "register_chunk_key_encoding"]
