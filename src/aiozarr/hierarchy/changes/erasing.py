"""Erases a node with all below it: the documents of all nodes before any chunk, and nothing where not all can go."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from aiozarr.engine import ArrayLayout
from aiozarr.errors import LimitError, MetadataError, UnsupportedOperationError
from aiozarr.hierarchy.documents import Place, parse_documents, read_documents
from aiozarr.metadata import PROBE_KEYS, ArrayMetadata, document_turn
from aiozarr.stores.tasks import each_bounded

MAX_COMPUTED = 100_000
"""Chunks whose keys are computed, where nothing can be listed: each is a request, whether it is stored or not."""


async def check_erasable(place: Place) -> None:
    """Refuse to begin an erasure that could not be ended.

    Raises:
        UnsupportedOperationError: the store cannot list, and the node is no array, or one of very many chunks.
    """
    if not place.store.supports.listable:
        await _chunk_keys(place)


async def erase_node(place: Place) -> None:
    """Erase the node and all below it; one that is interrupted leaves each array below as it was, or as no array.

    Where the store cannot list, an array's chunks are those of its grid: what an earlier, larger shape has left stays.

    Raises:
        UnsupportedOperationError: as `check_erasable`; nothing is erased.
    """
    listable = place.store.supports.listable
    chunks = iter(()) if listable else await _chunk_keys(place)
    await _erase_documents(place, list(PROBE_KEYS))
    if not listable:
        await each_bounded(place.session.erase, chunks)
        return
    below = [
        entry.key[len(place.prefix) :]
        async for entry in place.session.scan(place.prefix)
        if document_turn(entry.key) is not None
    ]
    await _erase_documents(place, below)
    await place.session.erase_prefix(place.prefix)


async def _erase_documents(place: Place, keys: list[str]) -> None:
    """Erase documents against the order in which they are stored: no node is seen without its attributes."""
    for turn in (2, 1, 0):
        await each_bounded(place.session.erase, [place.prefix + key for key in keys if document_turn(key) == turn])


async def _chunk_keys(place: Place) -> Iterator[str]:
    """Return the keys of all chunks that the array at `place` may have.

    Raises:
        UnsupportedOperationError: there is no array that says so, or one of too many.
    """
    try:
        metadata = parse_documents(place, await read_documents(place, PROBE_KEYS))
        if not isinstance(metadata, ArrayMetadata) or metadata.storage_transformers:
            raise _needs_listing(place)
        layout = ArrayLayout.resolve(metadata, node=place.url, settings=place.settings)
    except (MetadataError, LimitError) as error:
        raise _needs_listing(place) from error
    shape = layout.grid.shape
    if prod(shape) > MAX_COMPUTED:
        raise _needs_listing(place)
    coordinates = product(*map(range, shape)) if prod(shape) else iter(())
    return (place.prefix + layout.key_encoding.encode(coords) for coords in coordinates)


def _needs_listing(place: Place) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"erasing {place.url} needs a listing of what lies below it, and {type(place.store).__name__} cannot list; "
        f"only arrays of at most {MAX_COMPUTED} chunks are erased without",
        store=place.store.url,
    )
