from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from aiozarr.conversion.regions import TASK_BYTES, ChunkAxis, RegionAxis, RegionGrid, choose_regions


def axes(shape: Sequence[int], chunks: Sequence[Any]) -> list[ChunkAxis]:
    return [ChunkAxis.of(length, chunk) for length, chunk in zip(shape, chunks, strict=True)]


def chosen(shape: Sequence[int], source: Sequence[Any], result: Sequence[Any], max_bytes: int) -> RegionGrid:
    return choose_regions(axes(shape, result), axes(shape, source), 1, max_bytes)


def test_regions_are_whole_stored_objects_and_cover_the_array_once() -> None:
    rng = random.Random(5)
    for _ in range(200):
        shape = [rng.randint(1, 40) for _ in range(rng.randint(1, 3))]
        source = [rng.randint(1, 12) for _ in shape]
        result = [rng.randint(1, 12) for _ in shape]
        grid = chosen(shape, source, result, rng.choice([1, 50, 500, 10**6]))
        seen: dict[tuple[int, ...], int] = {}
        for bounds in grid:
            for (start, stop), chunk, length in zip(bounds, result, shape, strict=True):
                assert start % chunk == 0
                assert stop == length or stop % chunk == 0
            seen[tuple(start for start, _ in bounds)] = math.prod(stop - start for start, stop in bounds)
        assert sum(seen.values()) == math.prod(shape)
        assert len(seen) == grid.count


def test_amplification_counts_each_touched_unit_of_the_source_as_often_as_it_is_read() -> None:
    rng = random.Random(6)
    for _ in range(100):
        length, chunk, result = rng.randint(1, 60), rng.randint(1, 12), rng.randint(1, 12)
        grid = chosen([length], [chunk], [result], rng.choice([1, 20, 100]))
        read = 0
        for ((start, stop),) in grid:
            touched = {position // chunk for position in range(start, stop)}
            read += sum(min((unit + 1) * chunk, length) - unit * chunk for unit in touched)
        assert grid.elements_read == read
        assert grid.amplification == read / length


def test_regions_grow_to_common_boundaries_where_memory_allows() -> None:
    grid = chosen([1000], [20], [30], 100)
    assert grid.axes[0].longest == 60
    assert grid.amplification == 1


def test_regions_without_repeated_reads_grow_to_the_size_of_a_task() -> None:
    grid = chosen([1 << 30], [1 << 20], [1 << 20], 1 << 30)
    assert grid.largest == TASK_BYTES
    assert grid.amplification == 1


def test_no_region_is_larger_than_the_memory_but_for_one_stored_object() -> None:
    rng = random.Random(7)
    for _ in range(100):
        shape = [rng.randint(1, 60) for _ in range(2)]
        result = [rng.randint(1, 12) for _ in shape]
        limit = rng.choice([10, 100, 1000])
        grid = chosen(shape, [rng.randint(1, 12) for _ in shape], result, limit)
        assert grid.largest <= max(limit, math.prod(result))


def test_arrays_without_dimensions_have_one_region_and_empty_ones_none() -> None:
    assert list(chosen([], [], [], 10)) == [()]
    assert list(chosen([0, 4], [2, 2], [2, 2], 10)) == []
    assert chosen([0, 4], [2, 2], [2, 2], 10).amplification == 1


def test_chunks_of_listed_lengths_keep_their_boundaries() -> None:
    grid = chosen([31 + 28 + 31], [10], [(31, 28, 31)], 31)
    assert [bounds[0] for bounds in grid] == [(0, 31), (31, 59), (59, 90)]
    assert grid.axes[0].longest == 31


def test_a_region_of_the_source_that_begins_inside_a_chunk_reads_that_chunk_whole() -> None:
    source = ChunkAxis.of(10, 8, offset=5, total=20)
    grid = RegionGrid((RegionAxis(ChunkAxis.of(10, 10)),), (source,))
    assert (grid.elements_read, grid.units_read) == (16, 2)


@pytest.mark.parametrize(("number", "bounds"), [(0, ((0, 2), (0, 3))), (1, ((0, 2), (3, 5))), (3, ((2, 4), (3, 5)))])
def test_regions_are_numbered_with_the_last_dimension_first(number: int, bounds: Any) -> None:
    grid = RegionGrid(tuple(map(RegionAxis, axes([4, 5], [2, 3]))), tuple(axes([4, 5], [1, 1])))
    assert grid.bounds(number) == bounds
