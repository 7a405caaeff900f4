"""The first requests of a plan of bounds, in time that does not grow with the number of chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.bounds import UNKNOWN_LIMITS, MergeLimitBounds
from aiozarr.engine.plan.multipart_plan import NO_SPLIT
from aiozarr.engine.plan.plan import ROWS, PlanRow, most_requests
from aiozarr.grid import DimensionMap
from aiozarr.grid.chunk_counting import is_expensive, project
from aiozarr.grid.projection import ChunkProjection, ChunkSelection
from aiozarr.grid.transform import Indexed


@dataclass(frozen=True, eq=False)
class LazyRows:
    """Lists the first rows of the plan of one read when it is called: most plans are never printed."""

    layout: ArrayLayout
    maps: Sequence[DimensionMap]
    prefix: str
    split_limit: int = NO_SPLIT
    merge_bounds: MergeLimitBounds = UNKNOWN_LIMITS

    def __call__(self) -> tuple[PlanRow, ...]:
        return tuple(islice(self._rows(), ROWS))

    def _rows(self) -> Iterator[PlanRow]:
        layout = self.layout
        requests = most_requests(layout, self.maps, self.split_limit, self.merge_bounds)
        for part in self._parts():
            key = self.prefix + layout.key_of(part)
            stored = layout.object_of(part)
            if stored.shard is None:
                size = stored.pipeline.max_encoded_size
                yield PlanRow(1, key, None, 1, size, size, requests)
                continue
            index, inner = stored.shard.index_nbytes, len(part.inner_chunks(stored.inner_axes))
            size = stored.shard.inner.max_encoded_size
            yield PlanRow(1, key, stored.shard.index_range, 0, index, index)
            yield PlanRow(2, key, None, inner, inner * size, inner * size, inner * requests)

    def _parts(self) -> Iterator[ChunkSelection]:
        """The first chunks; none where sorting the points of long index arrays would hold up the caller."""
        axes = self.layout.axes
        inside = tuple(self.maps[: len(axes)])  # behind them are the maps of fields
        if is_expensive(inside):
            return iter(())
        if any([isinstance(each, Indexed) for each in inside]):
            return islice(project(axes, inside), ROWS)
        # No more of a dimension than can be shown: it may have a million chunks.
        dims = [list(islice(axis.split(each), ROWS)) for axis, each in zip(axes, inside, strict=True)]  # type: ignore[arg-type]
        return islice(map(ChunkProjection, product(*dims)), ROWS)
