"""Creates, changes and erases nodes; of two writers one is first and none is lost. Runs on the I/O thread."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from aiozarr.errors import MetadataError, NodeExistsError, PreconditionFailedError
from aiozarr.hierarchy.changes.above import group_keys
from aiozarr.hierarchy.changes.copies_kept import Edits, change_below
from aiozarr.hierarchy.changes.erasing import check_erasable, erase_node
from aiozarr.hierarchy.changes.surroundings import (
    Around,
    Root,
    all_of,
    as_root,
    below_array,
    check_parents,
    each,
    look_around,
    look_up_roots,
)
from aiozarr.hierarchy.changes.writing import replace_documents, set_if_absent, store_documents
from aiozarr.hierarchy.documents import (
    Documents,
    NodeMetadata,
    Place,
    implicit_group,
    node_not_found,
    parse_documents,
    read_documents,
    read_explicit,
    read_node,
)
from aiozarr.metadata import ArrayMetadata, GroupMetadata, render_node, rules_of

# Each lost race is another writer's success: so many in a row say that something else is wrong.
MAX_CONFLICTS = 100


async def create_node(place: Place, metadata: NodeMetadata, *, overwrite: bool) -> None:
    """Store the documents of a new node, and of the groups above it that have none. The node's own come last, at once.

    Raises:
        NodeExistsError: something is stored there and `overwrite` is false; of two creators one gets this.
        NodeTypeError: a node above is an array, or of another format.
        UnsupportedOperationError: the store cannot list what `overwrite` would have to erase.
    """
    documents = render_node(metadata)

    async def look(place: Place) -> Around:
        around = await look_around(place, metadata.zarr_format)
        await check_place(place, around, metadata.zarr_format, overwrite=overwrite)
        if around.exists:
            await check_erasable(place)
        return around

    async def write(around: Around, place: Place) -> tuple[None, Edits]:
        if around.exists or around.below:
            await erase_node(place)
        parents = await create_parents(place, around, metadata.zarr_format)
        try:
            await store_documents(place, documents, replace=overwrite)
        except PreconditionFailedError as error:
            raise node_exists(place, explicit=True) from error
        # In this order: what was there before goes, and then the new node comes.
        return None, [(place.path, None), *parents, (place.path, metadata)]

    await change_below([place], group_keys(), look, write)


async def update_node(
    place: Place,
    zarr_format: int,
    change: Callable[[NodeMetadata], NodeMetadata],
    then: Callable[[NodeMetadata], Awaitable[None]] | None = None,
    *,
    implicit: bool = True,
) -> NodeMetadata:
    """Replace the node's metadata by `change(metadata)` and return it; concurrent changes take turns.

    `change` is called again with what another writer has stored in between. Where the store has no conditional writes,
    that holds inside this process only. Where it returns the very metadata it was given, nothing is stored. `then` is
    called with the result before another task of this process may change the node. With `implicit`, what lies above
    other keys is a group, where the format has such ones.

    Raises:
        NodeNotFoundError: the node is no longer there.
        PreconditionFailedError: other writers were first a hundred times.
    """
    rules = rules_of(zarr_format)

    async def look(place: Place) -> _Seen:
        documents, roots = await all_of(read_documents(place, rules.keys), look_up_roots(place, zarr_format))
        current = await _current(place, documents, zarr_format, implicit)
        own = as_root(place, current, documents) if rules.copies_lie_apart else None
        return _Seen((*roots, own) if own is not None else roots, documents, current)

    async def write(seen: _Seen, place: Place) -> tuple[NodeMetadata, Edits]:
        documents, current = seen.documents, seen.current
        for attempt in range(MAX_CONFLICTS):
            changed = change(current)
            try:
                if changed is not current:
                    await replace_documents(place, documents, _rendered(current), render_node(_own(changed)))
            except PreconditionFailedError:
                if attempt == MAX_CONFLICTS - 1:
                    raise
                await asyncio.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
                documents = await read_documents(place, rules.keys)
                current = await _current(place, documents, zarr_format, implicit)
            else:
                if then is not None:
                    await then(changed)
                return changed, [(place.path, changed)]
        raise AssertionError("the loop returns or raises")

    # The documents of other formats stay as they are, and so do copies of them.
    return await change_below([place], group_keys([zarr_format]), look, write)


async def delete_node(place: Place, zarr_format: int) -> None:
    """Erase the node at `place`, and all below it; `zarr_format` is that of the group it is deleted from.

    Raises:
        NodeNotFoundError: there is none.
        UnsupportedOperationError: the store cannot list, and the node is not an array of few chunks.
    """

    async def look(place: Place) -> Around:
        # Not parsed: what cannot be read can be erased all the same.
        around = await look_around(place, zarr_format)
        if not around.exists and not around.below:
            raise node_not_found(place)
        await check_erasable(place)
        return around

    async def erase(around: Around, place: Place) -> tuple[None, Edits]:
        await erase_node(place)
        return None, [(place.path, None)]

    await change_below([place], group_keys(), look, erase)


async def check_place(place: Place, around: Around, zarr_format: int, *, overwrite: bool) -> None:
    """Refuse a place where no node of this format can be created.

    Raises:
        NodeTypeError: a node above is an array, or of another format.
        NodeExistsError: something is stored there, and `overwrite` is false.
    """
    for path, node in around.above.items():
        if isinstance(node, ArrayMetadata):
            raise below_array(place, path)
    if (around.exists or around.below) and not overwrite:
        raise node_exists(place, explicit=around.exists)
    await check_parents(place, _missing(place, around), zarr_format)


async def create_parents(place: Place, around: Around, zarr_format: int) -> list[tuple[str, NodeMetadata | None]]:
    """Make the groups above explicit that have no documents, and return them with their paths."""
    group = implicit_group(zarr_format)
    missing = _missing(place, around)
    await each(lambda path: _create_parent(place.at(path), group), missing)
    return [(path, group) for path in missing]


def node_exists(place: Place, *, explicit: bool) -> NodeExistsError:
    """Return the error that says that the place is taken."""
    what = "there is a node" if explicit else "keys are stored"
    return NodeExistsError(
        f"{what} {'at' if explicit else 'below'} {place.url}; overwrite=True erases it first",
        url=place.url,
        path=place.path,
    )


# --- helpers -----------------------------------------------------------------------------------------------------


def _missing(place: Place, around: Around) -> list[str]:
    """Return the paths of the groups above the node that have no documents; above the target are others' groups."""
    target = place.target or ""
    return [
        path
        for path, node in around.above.items()
        if node is None and (not target or f"{path}/".startswith(f"{target}/"))
    ]


@dataclass(frozen=True)
class _Seen:
    """A node before it is changed."""

    roots: tuple[Root, ...]
    documents: Documents
    current: NodeMetadata


async def _create_parent(place: Place, group: GroupMetadata) -> None:
    """Make the group at `place` explicit; one that another writer has made meanwhile is as good."""
    *_, (key, data) = render_node(group).items()
    try:
        await set_if_absent(place, place.prefix + key, data)
    except PreconditionFailedError:
        if isinstance(await read_explicit(place, group.zarr_format), ArrayMetadata):
            raise below_array(place, place.path) from None


async def _current(place: Place, documents: Documents, zarr_format: int, implicit: bool) -> NodeMetadata:
    found = parse_documents(place, documents, zarr_format)
    if found is None and implicit:
        found = await read_node(place, zarr_format)
    if found is None:
        raise node_not_found(place)
    return found


def _own(metadata: NodeMetadata) -> NodeMetadata:
    """Return the metadata as the node's own documents hold them: copies that lie apart are another's to write."""
    if isinstance(metadata, GroupMetadata) and rules_of(metadata.zarr_format).copies_lie_apart:
        return replace(metadata, consolidated=None)
    return metadata


def _rendered(metadata: NodeMetadata) -> dict[str, bytes]:
    try:
        return render_node(_own(metadata))
    except (MetadataError, TypeError):
        # What is read leniently may not be written; then everything is new.
        return {}
