"""Erases a node and everything below it: all documents before any chunk, and nothing if not all can be erased."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from aiozarr.concurrency import for_each
from aiozarr.engine import ArrayLayout
from aiozarr.errors import LimitError, MetadataError, UnsupportedOperationError
from aiozarr.hierarchy.mutations.locks import record_erasure
from aiozarr.hierarchy.node_access import NodeAccess, parse_documents, read_documents
from aiozarr.metadata import PROBE_KEYS, ArrayMetadata, document_write_order

MAX_COMPUTED_CHUNKS = 100_000
"""Chunks whose keys are computed if the store cannot list. Each costs a request, whether it is stored or not."""


async def check_erasable(access: NodeAccess) -> None:
    """Check that an erasure can be completed.

    Raises:
        UnsupportedOperationError: the store cannot list, and the node is not an array, or has too many chunks.
    """
    if not access.store.supports.listable:
        await _chunk_keys(access)


async def erase_node(access: NodeAccess) -> None:
    """Erase the node and everything below it. An interrupted erasure leaves each array below complete or not at all.

    If the store cannot list, the chunks of the array's grid are erased; those of an earlier, larger shape remain.

    Raises:
        UnsupportedOperationError: as `check_erasable`. Nothing is erased.
    """
    listable = access.store.supports.listable
    chunks = iter(()) if listable else await _chunk_keys(access)
    await _erase_documents(access, list(PROBE_KEYS))
    record_erasure()
    if not listable:
        await for_each(access.scheduled.erase, chunks)
        return
    below = [
        entry.key[len(access.prefix) :]
        async for entry in access.scheduled.scan(access.prefix)
        if document_write_order(entry.key) is not None
    ]
    await _erase_documents(access, below)
    await access.scheduled.erase_prefix(access.prefix)


async def _erase_documents(access: NodeAccess, keys: list[str]) -> None:
    """Erase documents in the reverse order of storing: no reader sees a node without its attributes."""
    for turn in (2, 1, 0):
        await for_each(
            access.scheduled.erase, [access.prefix + key for key in keys if document_write_order(key) == turn]
        )


async def _chunk_keys(access: NodeAccess) -> Iterator[str]:
    """Return the keys of all chunks in the grid of the array.

    Raises:
        UnsupportedOperationError: there is no readable array, or it has too many chunks.
    """
    try:
        metadata = parse_documents(access, await read_documents(access, PROBE_KEYS))
        if not isinstance(metadata, ArrayMetadata) or metadata.storage_transformers:
            raise _needs_listing_error(access)
        layout = ArrayLayout.resolve(metadata, node=access.url, settings=access.settings)
    except (MetadataError, LimitError) as error:
        raise _needs_listing_error(access) from error
    shape = layout.grid.shape
    if prod(shape) > MAX_COMPUTED_CHUNKS:
        raise _needs_listing_error(access)
    coordinates = product(*map(range, shape)) if prod(shape) else iter(())
    return (access.prefix + layout.key_encoding.encode(coords) for coords in coordinates)


def _needs_listing_error(access: NodeAccess) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"erasing {access.url} needs a listing of what lies below it, and {type(access.store).__name__} cannot list; "
        f"only arrays of at most {MAX_COMPUTED_CHUNKS} chunks are erased without",
        store=access.store.url,
    )
