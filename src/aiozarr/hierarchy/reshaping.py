"""What a new shape does to the grid and to what is stored: chunks that lie wholly outside of it are erased."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from aiozarr.engine import ArrayLayout
from aiozarr.grid import resolve_grid
from aiozarr.hierarchy.documents import Place
from aiozarr.metadata import ArrayMetadata, NamedConfig
from aiozarr.stores.tasks import each_bounded

# Up to here each key is simply erased; above, a listing tells which of them are stored.
LIST_FROM = 1000


def outside(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the coordinates that a grid of shape `old` has and one of shape `new` has not, each once, lazily."""
    for axis in range(len(old)):
        # Inside along the dimensions before this one, outside along it, anything along those behind it.
        kept = [range(min(a, b)) for a, b in zip(old[:axis], new[:axis], strict=True)]
        free = [range(length) for length in old[axis + 1 :]]
        for first in range(new[axis], old[axis]):
            yield from ((*before, first, *after) for before in _lazy_product(kept) for after in _lazy_product(free))


def count_outside(old: Sequence[int], new: Sequence[int]) -> int:
    """Return how many coordinates `outside` yields."""
    return prod(old) - prod([min(a, b) for a, b in zip(old, new, strict=True)])


def reshaped(layout: ArrayLayout, shape: Sequence[int]) -> ArrayMetadata:
    """Return the metadata of the array after a resize to `shape`.

    Chunks stay where they are. Where chunks are listed and the array grows past the last, chunks are added.

    Raises:
        ValueError: another number of dimensions, or a negative length.
        UnsupportedMetadataError: the chunks make more runs of equal ones than a grid may have.
    """
    changed = layout.metadata.with_shape(shape)
    before = layout.grid
    after = before.with_shape(changed.shape, layout.largest.pipeline.unit())
    configuration = after.to_json()
    if configuration == before.to_json():
        return changed  # with the chunk grid as it was written
    changed = replace(changed, chunk_grid=NamedConfig(after.name, configuration))
    # What is stored next must be what can be opened.
    resolve_grid(changed.chunk_grid, changed.shape)
    return changed


async def erase_outside(place: Place, old: ArrayLayout, new: ArrayLayout) -> None:
    """Erase the chunks of `old` that are wholly outside of `new`, with as few requests as the store allows."""
    if count_outside(old.grid.shape, new.grid.shape) <= LIST_FROM or not place.store.supports.listable:
        coordinates = outside(old.grid.shape, new.grid.shape)
        keys: Iterator[str] | list[str] = (place.prefix + old.key_encoding.encode(coords) for coords in coordinates)
    else:
        keys = await _stored_outside(place, old, new)
    await each_bounded(place.session.erase, keys)


async def _stored_outside(place: Place, old: ArrayLayout, new: ArrayLayout) -> list[str]:
    found: list[str] = []
    async for entry in place.session.scan(place.prefix):
        coords = old.key_encoding.decode(entry.key[len(place.prefix) :], old.grid.ndim)
        if coords is not None and any(c >= n for c, n in zip(coords, new.grid.shape, strict=True)):
            found.append(entry.key)
    return found


def _lazy_product(ranges: Sequence[range]) -> Iterator[tuple[int, ...]]:
    # itertools.product would first make tuples of the ranges, which may be as long as the array is wide.
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in _lazy_product(ranges[1:]) if len(ranges) > 1 else [()]:
            yield (first, *rest)
