"""The chunk layout of a view: that of the array, seen through the view's transform."""

from __future__ import annotations

from math import gcd

from aiozarr.driver.chunk_layout import ChunkLayout, Constraint, Grid, PerDimension
from aiozarr.driver.index_transform import DomainTransform


def view_layout(layout: ChunkLayout, transform: DomainTransform) -> ChunkLayout:
    """Return the layout in the domain of the view. Dimensions along several of the array, or none, have no chunks."""
    rank = transform.domain.rank
    along: dict[int, list[int]] = {}
    indexed: set[int] = set()
    for output, each in enumerate(transform.outputs):
        if each.input_dimension is not None and each.stride:
            along.setdefault(each.input_dimension, []).append(output)
        elif each.index_array is not None:
            indexed |= {dimension for dimension, length in enumerate(each.index_array.shape) if length != 1}
    only = {
        dimension: outputs[0] for dimension, outputs in along.items() if len(outputs) == 1 and dimension not in indexed
    }
    order = layout.inner_order
    if order is not None:
        last = len(order.value)
        places = {
            dimension: min([order.value.index(output) for output in outputs]) for dimension, outputs in along.items()
        }
        order = Constraint(tuple(sorted(range(rank), key=lambda each: (places.get(each, last), each))), order.hard)
    return ChunkLayout(
        rank,
        order,
        _origins(layout.grid_origin, transform, only),
        Grid(_lengths(layout.read.shape, transform, only)),
        Grid(_lengths(layout.write.shape, transform, only)),
    )


def _lengths(lengths: PerDimension[int], transform: DomainTransform, only: dict[int, int]) -> PerDimension[int]:
    """Return the lengths of chunks: with a stride, chunks repeat after fewer indices."""
    found: list[Constraint[int] | None] = []
    for dimension in range(transform.domain.rank):
        each = None if lengths is None or dimension not in only else lengths[only[dimension]]
        if each is not None:
            step = abs(transform.outputs[only[dimension]].stride)
            each = Constraint(each.value // gcd(each.value, step), each.hard)
        found.append(each)
    return tuple(found) if any(found) else None


def _origins(origins: PerDimension[int], transform: DomainTransform, only: dict[int, int]) -> PerDimension[int]:
    found: list[Constraint[int] | None] = []
    for dimension in range(transform.domain.rank):
        each = None if origins is None or dimension not in only else origins[only[dimension]]
        if each is not None:
            output = transform.outputs[only[dimension]]
            distance = each.value - output.offset
            # The first index whose element is in the chunk, also where the indices run backwards.
            start = -(-distance // output.stride) if output.stride > 0 else distance // output.stride + 1
            each = Constraint(start, each.hard)
        found.append(each)
    return tuple(found) if any(found) else None
