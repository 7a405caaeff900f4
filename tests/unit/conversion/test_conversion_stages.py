from __future__ import annotations

from collections.abc import Sequence

import pytest

from aiozarr.conversion.conversion_planning import choose_stages, consolidated, intermediate_chunks
from aiozarr.conversion.regions import ChunkAxis, RegionGrid

MIB = 1 << 20


def stages(
    shape: Sequence[int], source: Sequence[int], result: Sequence[int], max_bytes: int, most: float = 3
) -> list[RegionGrid]:
    parts = [
        [ChunkAxis.of(length, chunk) for length, chunk in zip(shape, chunks, strict=True)]
        for chunks in (source, result)
    ]
    return choose_stages(*parts, 4, max_bytes, most)


def test_one_pass_suffices_where_a_region_of_both_grids_fits_into_memory() -> None:
    assert len(stages((64, 64, 64), (1, 64, 64), (64, 8, 8), MIB)) == 1


def test_maps_become_time_series_over_one_intermediate_array_with_every_source_chunk_read_once() -> None:
    grids = stages((512, 1024, 1024), (1, 1024, 1024), (512, 32, 32), 144 * MIB)
    assert len(grids) == 2
    assert [grid.amplification for grid in grids] == [1, 1]
    assert grids[0].units_read == 512
    assert all(grid.largest * 4 <= 144 * MIB for grid in grids)


def test_more_passes_are_taken_only_if_they_transfer_less() -> None:
    # Half a row per region: reading four times costs less than intermediate arrays of chunks as small.
    grids = stages((1000, 1000), (2, 1000), (1, 500), 2000, most=1)
    assert len(grids) == 1
    assert grids[0].amplification == 4


def test_an_amplification_within_the_limit_is_accepted() -> None:
    shape, source, result = (512, 512), (1, 512), (512, 1)
    assert len(stages(shape, source, result, 64 << 10)) > 1
    assert len(stages(shape, source, result, 64 << 10, most=1000)) == 1


@pytest.mark.parametrize(
    ("chunks", "limits", "expected"),
    [
        ((1, 10), (100, 10), (50, 10)),
        ((1, 10), (7, 10), (7, 10)),
        ((3, 3), (100, 100), (3, 100)),
        ((100, 100), (100, 100), (100, 100)),
    ],
)
def test_chunks_are_consolidated_up_to_the_memory_and_the_limits(
    chunks: Sequence[int], limits: Sequence[int], expected: Sequence[int]
) -> None:
    assert consolidated((100, 100), chunks, 1, 500, limits) == expected


def test_intermediate_chunks_are_the_elementwise_minimum_of_what_is_read_and_written() -> None:
    assert intermediate_chunks((100, 100), (1, 100), (100, 1), 1, 1000, 2) == [(10, 10)]
    assert len(intermediate_chunks((100, 100), (1, 100), (100, 1), 1, 1000, 4)) == 3


def test_an_empty_array_needs_one_pass_without_regions() -> None:
    (grid,) = stages((0, 5), (1, 5), (5, 1), 10)
    assert grid.count == 0
