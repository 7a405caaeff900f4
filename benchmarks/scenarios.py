"""Scenarios: a kind of read or write, of one array, at one location."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from benchmarks.layouts import KIB, MIB, Layout

What: TypeAlias = Literal["whole", "plane", "points", "write"]
Where: TypeAlias = Literal["http", "s3", "local"]
Selection: TypeAlias = tuple[slice, ...]

POINTS = 500


@dataclass(frozen=True)
class Scenario:
    """One line of the comparison.

    Attributes:
        name: as given on the command line.
        what: is read, or written.
        where: the array lies: behind a server with latency (`http`, or `s3` for writes), or on the local disk.
        layout: of the array.
    """

    name: str
    what: What
    where: Where
    layout: Layout


def scenarios(nbytes: int) -> Mapping[str, Scenario]:
    """Return all scenarios by name, for arrays of `nbytes`; those of small chunks have a quarter of it."""
    less = max(MIB, nbytes // 4)
    chunk, tiny = min(MIB, nbytes), 32 * KIB
    inner, shard = min(64 * KIB, nbytes), min(64 * MIB, nbytes)
    medium, small, sharded = Layout(nbytes, chunk), Layout(less, tiny), Layout(nbytes, inner, shard)
    listed = (
        Scenario("medium", "whole", "http", medium),
        Scenario("small", "whole", "http", small),
        Scenario("shard-plane", "plane", "http", sharded),
        Scenario("shard-whole", "whole", "http", sharded),
        Scenario("points", "points", "http", medium),
        Scenario("blosc", "whole", "http", Layout(nbytes, chunk, codec="blosc")),
        Scenario("gzip", "whole", "http", Layout(less, min(MIB, less), codec="gzip")),
        Scenario("raw", "whole", "http", Layout(nbytes, chunk, codec="raw")),
        Scenario("v2", "whole", "http", Layout(nbytes, chunk, zarr_format=2)),
        Scenario("local-medium", "whole", "local", medium),
        Scenario("local-small", "whole", "local", small),
        Scenario("local-shard", "whole", "local", sharded),
        Scenario("write-medium", "write", "local", medium),
        Scenario("write-small", "write", "local", small),
        Scenario("write-shard", "write", "local", sharded),
        Scenario("write-s3", "write", "s3", medium),
        Scenario("write-s3-small", "write", "s3", small),
    )
    return {each.name: each for each in listed}


def selections(what: What, shape: tuple[int, ...]) -> list[Selection]:
    """Return the views that are read, all at once. Only slices: every peer understands them alike."""
    if what == "plane":
        middle = shape[-1] // 3
        return [(*[slice(0, length) for length in shape[:-1]], slice(middle, middle + 1))]
    if what == "points":
        places = np.random.default_rng(2).integers(0, shape, (POINTS, len(shape)))
        return [tuple([slice(int(index), int(index) + 1) for index in place]) for place in places]
    return [tuple([slice(0, length) for length in shape])]
