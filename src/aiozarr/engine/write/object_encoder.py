"""The encoding of the stored objects that one write changes: chunks in a worker, inner chunks of shards in several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.common.concurrency import gather_all
from aiozarr.engine.layout import ArrayLayout, ObjectLayout
from aiozarr.engine.plan.projections import inner_parts
from aiozarr.engine.workers.encoder import ChangedShard, encode_chunk, encode_inner
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.grid.chunk_counting import LARGE_POINT_COUNT
from aiozarr.grid.projection import ChunkSelection

INNER_GROUP_BYTES = 2 << 20
"""The inner chunks of a shard are encoded in groups of this size, each in one worker."""


class ObjectEncoder:
    """Encodes the objects of one write. It knows no store: its errors do not name the object.

    Attributes:
        layout: the array.
        values: of the write's core shape.
        keep: True if objects of fill values are stored.
    """

    __slots__ = ("keep", "layout", "values")

    def __init__(self, layout: ArrayLayout, values: NDArray[Any], *, stores_empty: bool | None) -> None:
        self.layout = layout
        self.values = values
        # Without a fill value in the metadata a missing chunk has undefined values: each chunk is stored.
        self.keep = not layout.metadata.has_fill_value if stores_empty is None else stores_empty

    def keeps(self, data: Buffer | None, *, can_erase: bool) -> bool:
        """Return whether fill values are stored in place of the stored object `data`."""
        return self.keep or (data is not None and not can_erase)

    # --- in a worker -----------------------------------------------------------------------------------------------

    def encode_chunk(
        self, stored: ObjectLayout, projection: ChunkSelection, data: Buffer | None, *, can_erase: bool = False
    ) -> Buffer | None:
        """Return the encoding of the stored chunk `data` after the values were written to it.

        Returns: None if it holds fill values only, and nothing is stored or `can_erase`.
        """
        keep = self.keeps(data, can_erase=can_erase)
        try:
            return encode_chunk(stored.pipeline, self.values, projection, data, keep=keep)
        except ChecksumError:
            raise
        except CodecError:
            padded = None if data is None else self._padded(stored, projection, data)
            if padded is None:
                raise
            return encode_chunk(stored.pipeline, self.values, projection, padded, keep=keep)

    def _padded(self, stored: ObjectLayout, projection: ChunkSelection, data: Buffer) -> Buffer | None:
        """Complete a chunk at the array's end that was stored without its part outside the array.

        Some writers store such chunks.

        Returns: the encoding of the complete chunk, or None if `data` is none of such a chunk.
        """
        cropped = self.layout.unpadded(projection)
        try:
            values = None if cropped is None else cropped.decode(data)
        except CodecError:
            values = None
        if values is None:
            return None
        spec = stored.spec
        block = np.full(spec.shape, spec.fill_value, spec.dtype)
        block[tuple([slice(length) for length in values.shape])] = values
        return stored.pipeline.encode(block)

    # --- on the loop -----------------------------------------------------------------------------------------------

    async def encode_inner_chunks(
        self,
        stored: ObjectLayout,
        projection: ChunkSelection,
        shard: ChangedShard,
        call: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]],
        limit: asyncio.Semaphore,
    ) -> list[tuple[int, Buffer | None]]:
        """Encode the inner chunks that the write changes: many of them in groups, in all workers, within `limit`."""
        assert stored.shard is not None
        if projection.point_count < LARGE_POINT_COUNT:
            parts = list(inner_parts(stored, projection))
        else:
            parts = await call(lambda: list(inner_parts(stored, projection)))
        size = max(1, INNER_GROUP_BYTES // max(1, stored.shard.inner.spec.nbytes))
        groups = [parts[at : at + size] for at in range(0, len(parts), size)]
        encoded: list[list[tuple[int, Buffer | None]]]
        if len(groups) <= 1:
            encoded = [await call(partial(encode_inner, stored, self.values, parts, shard, keep=self.keep))]
            return encoded[0]
        async with limit:
            encoded = await gather_all(
                call(partial(encode_inner, stored, self.values, group, shard, keep=self.keep)) for group in groups
            )
        return [part for group in encoded for part in group]
