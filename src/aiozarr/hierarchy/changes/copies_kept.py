"""Consolidated metadata are never silently stale: taken away before a change below, and written anew after it.

A crash in between leaves no copies, and every reader finds the nodes' own documents. Tasks of this process take turns.
Of several processes, those that change nodes below a group of format 3 see a mark, `null`, where the copies were, and
whoever takes that away keeps the other from writing copies that lack the change. Format 2 has no place for a mark:
there, two processes should not change the same consolidated tree at the same moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar

from aiozarr.errors import PreconditionFailedError
from aiozarr.hierarchy.changes.above import higher, seen_from_above
from aiozarr.hierarchy.changes.surroundings import Root, all_of, each
from aiozarr.hierarchy.changes.turns import exclusively, ledger_of
from aiozarr.hierarchy.changes.writing import can_swap, condition
from aiozarr.hierarchy.documents import NodeMetadata, Place
from aiozarr.metadata import GroupMetadata, consolidate, render_node, rules_of
from aiozarr.model import Value

T = TypeVar("T")
Edits: TypeAlias = Sequence[tuple[str, NodeMetadata | None]]
"""What has become of nodes, with their paths in the store and in order; None: it and all below it are gone."""

_MAX_TRIES = 20


class HasRoots(Protocol):
    """What is known before a change: the consolidated groups that it concerns, among other things."""

    @property
    def roots(self) -> tuple[Root, ...]: ...


S = TypeVar("S", bound=HasRoots)


async def change_below(
    places: Sequence[Place],
    keys_above: Sequence[str],
    look: Callable[..., Coroutine[Any, Any, S]],
    work: Callable[..., Awaitable[tuple[T, Edits]]],
) -> T:
    """Change nodes and keep all copies true: hold the locks of `places`, and run `work(await look(*places), *places)`.

    `work` returns a result and the edits. `look` is called again where there are copies: it must find, and refuse, what
    `work` must not begin. Where one of `keys_above` tells of a group above the root of the store that all the places
    are in, both get the places as they are seen from there.
    """
    store, ledger = places[0].store, ledger_of(places[0].engine.desk)
    async with AsyncExitStack() as locks:
        # In one order for all: two changes that cross each other must not wait for each other.
        for place in sorted(places, key=lambda place: place.path):
            await locks.enter_async_context(exclusively(place))
        async with ledger.hold(store.identity, alone=False):
            seen, above = await all_of(look(*places), higher(places[0], keys_above))
            if above is None and not seen.roots:
                try:
                    result, _ = await work(seen, *places)
                finally:
                    ledger.note_change(store)
                return result
        if above is None:
            async with ledger.hold(store.identity, alone=True):
                return await _change_alone(places, look, work)
    return await change_below(await seen_from_above(places, keys_above), (), look, work)


async def _change_alone(
    places: Sequence[Place],
    look: Callable[..., Awaitable[S]],
    work: Callable[..., Awaitable[tuple[T, Edits]]],
) -> T:
    for attempt in range(_MAX_TRIES):
        seen = await look(*places)
        try:
            roots = await withdraw(seen.roots)
        except PreconditionFailedError:
            if attempt == _MAX_TRIES - 1:
                raise
            continue
        try:
            result, edits = await work(seen, *places)
            await restore(roots, edits)
        finally:
            ledger_of(places[0].engine.desk).note_change(places[0].store)
        return result
    raise AssertionError("the loop returns or raises")


async def withdraw(roots: tuple[Root, ...]) -> tuple[Root, ...]:
    """Take the copies of these groups away, and return those that had any, with what is stored in their place now.

    Raises:
        PreconditionFailedError: another writer has changed one meanwhile.
    """
    left: list[Root] = []

    async def take(root: Root) -> None:
        # The mark tells other writers that copies are on their way; where one was left behind, it goes.
        # Those of another format than the change's are not written anew: they speak of other documents than it does.
        copied = root.metadata.consolidated is not None and not root.foreign
        taken = await _take_away(root, mark=copied)
        if copied:
            left.append(taken)

    await each(take, roots)
    return tuple(left)


async def restore(roots: tuple[Root, ...], edits: Edits) -> None:
    """Write the copies of these groups anew, with the edits; where another writer was there, leave none."""

    async def write(root: Root) -> None:
        metadata = edited(root.place.path, root.metadata, edits)
        if metadata is None:
            return
        try:
            await _store_document(root, metadata)
        except PreconditionFailedError:
            if rules_of(metadata.zarr_format).copies_lie_apart:
                await _erase_copies(root)

    await each(write, roots)


def edited(path: str, root: GroupMetadata, edits: Edits) -> GroupMetadata | None:
    """Return the consolidated group at `path` as it is after the edits; None where it is gone, or a group no more."""
    copies = root.consolidated
    assert copies is not None
    nodes = dict(copies.nodes)
    for at, metadata in edits:
        if metadata is None and f"{path}/".startswith(f"{at}/"):
            return None
        if at == path:
            if not isinstance(metadata, GroupMetadata):
                return None
            root = replace(root, attributes=metadata.attributes)
            continue
        if path and not at.startswith(f"{path}/"):
            continue
        name = at[len(path) + 1 :] if path else at
        if metadata is None:
            nodes = {key: node for key, node in nodes.items() if key != name and not key.startswith(f"{name}/")}
        elif metadata.zarr_format == root.zarr_format:
            nodes |= consolidate(root.zarr_format, {name: metadata}).nodes
    return replace(root, consolidated=replace(copies, nodes=nodes))


async def begin_copies(root: Root) -> Root:
    """Put the mark where the copies of a group will be, or take those away that there are."""
    return await _take_away(root, mark=True)


async def end_copies(root: Root, nodes: Mapping[str, NodeMetadata]) -> GroupMetadata:
    """Store copies of `nodes`, given by path relative to the group, and return the group with them.

    Raises:
        PreconditionFailedError: another writer has changed the group or a node below it meanwhile.
    """
    metadata = replace(root.metadata, consolidated=consolidate(root.metadata.zarr_format, nodes))
    await _store_document(root, metadata)
    return metadata


async def _take_away(root: Root, *, mark: bool) -> Root:
    """Take the copies of a group away, and leave a mark in their place where the format has one and it is wanted."""
    rules, key = rules_of(root.metadata.zarr_format), _copies_key(root.metadata)
    if rules.copies_member is None:
        await _erase_copies(root)
        return replace(root, documents={key: None})
    extra = {**root.metadata.extra, **({rules.copies_member: None} if mark else {})}
    value = await _store_document(root, replace(root.metadata, consolidated=None, extra=extra))
    return replace(root, documents={key: value})


async def _store_document(root: Root, metadata: GroupMetadata) -> Value:
    """Store the document that copies lie in, on condition that nobody else has changed it since."""
    place, key = root.place, _copies_key(metadata)
    data = render_node(metadata)[key]
    required = condition(root.documents.get(key)) if await can_swap(place.store) else None
    version = await place.session.set(place.prefix + key, data, precondition=required)
    return Value(data, version, len(data))


async def _erase_copies(root: Root) -> None:
    await root.place.session.erase(root.place.prefix + _copies_key(root.metadata))


def _copies_key(metadata: GroupMetadata) -> str:
    key = rules_of(metadata.zarr_format).copies_key
    assert key is not None
    return key
