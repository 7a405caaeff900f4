"""The options of a conversion, resolved for one array: chunks and shards of the result, and the region."""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType
from typing import TypeAlias

from aiozarr.hierarchy.new_metadata.chunking import ChunksLike, ShardsLike

ChunksOption: TypeAlias = ChunksLike | Mapping[str, int | None]
"""Chunks in a form of `create_array`, or by dimension name; None: those of the source."""
ShardsOption: TypeAlias = ShardsLike | bool | Mapping[str, int | None]
"""Shards in a form of `create_array`, or by dimension name; False: none; None: those of the source."""
RegionLike: TypeAlias = slice | EllipsisType | tuple[slice | EllipsisType, ...] | None
"""Slices of the source; None: all of it."""
