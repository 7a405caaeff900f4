"""The first stage: which chunks a view touches, under which keys, and where their elements go."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

from aiozarr.engine.layout import ArrayLayout, inner_parts, keyed_projections
from aiozarr.engine.plan import plan_bounds
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.transform import DimensionMap, IndexTransform
from aiozarr.metadata.formats import parse_node
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.settings import DEFAULT_SETTINGS
from benchmarks.stages.figures import Figure, least_cpu

LENGTH = 16
"""Elements of a chunk along each dimension; planning does not look at them."""

GRIDS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "a cube": lambda side: (side, side, side),
    "a plane": lambda side: (1, round(side**1.5), round(side**1.5)),
    "a line": lambda side: (side**3,),
}


def layout_of(grid: tuple[int, ...], *, sharded: bool = False) -> ArrayLayout:
    """Return the layout of an array of `grid` chunks, or of one shard with as many inner chunks."""
    import json

    shape = [LENGTH * count for count in grid]
    chunk = [LENGTH] * len(grid)
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if sharded:
        inner = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": codecs, "index_location": "end"}
        codecs, chunk = [{"name": "sharding_indexed", "configuration": inner}], shape
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": codecs,
    }
    node = parse_node({"zarr.json": json.dumps(document).encode()}, node="bench", settings=DEFAULT_SETTINGS)
    assert isinstance(node, ArrayMetadata)
    return ArrayLayout.resolve(node, node="bench", settings=DEFAULT_SETTINGS)


def walk(layout: ArrayLayout) -> int:
    """Plan a read of the whole array as a read does it: bounds first, then each chunk with its key; count them."""
    maps: tuple[DimensionMap, ...] = IndexTransform.identity(layout.metadata.shape).maps
    plan_bounds(layout, maps)
    count = 0
    for _, part in keyed_projections(layout, project(layout.axes, maps), "array/"):
        if layout.shard is None:
            count += 1
        else:
            count += sum(1 for _ in inner_parts(layout.object_of(part), part))
    return count


def peak_of(function: Callable[[], object]) -> int:
    """Return the most bytes that `function` has allocated at a time."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measure(layout: ArrayLayout, runs: int) -> tuple[int, float, int]:
    """Return the number of chunks, CPU seconds and peak bytes of planning a read of all of them."""
    count = walk(layout)
    return count, least_cpu(lambda: walk(layout), runs), peak_of(lambda: walk(layout))


def figures(counts: tuple[int, ...], runs: int) -> list[Figure]:
    """Return seconds and peak memory for about as many chunks, in grids of several forms."""
    found = []
    for number in counts:
        side = round(number ** (1 / 3))
        for form, make in GRIDS.items():
            for sharded in (False, True):
                if sharded and form != "a cube":
                    continue
                count, seconds, memory = measure(layout_of(make(side), sharded=sharded), runs)
                what = f"{count:,} chunks, {form}" + (" of inner chunks" if sharded else "")
                found.append(Figure("plan", what, seconds * 1000, "ms"))
                found.append(Figure("plan", f"{what}: peak", memory / 1e6, "MB"))
    return found
