"""What lies around a node that is about to change: itself, the groups above it, keys below it; in one round trip."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiozarr.errors import LimitError, MetadataError, NodeTypeError, PermissionDeniedError, UnauthenticatedError
from aiozarr.hierarchy.documents import (
    Documents,
    NodeMetadata,
    Place,
    anything_below,
    parse_documents,
    read_documents,
    read_other_format,
)
from aiozarr.hierarchy.location import ancestors
from aiozarr.metadata import DOCUMENT_KEYS, ArrayMetadata, GroupMetadata, rules_of
from aiozarr.stores.tasks import together

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Root:
    """A group whose documents hold copies of those below, or a mark that they are being written anew.

    Attributes:
        place: where it lies.
        metadata: what its documents say.
        documents: the documents, with their versions.
        foreign: whether it is of another format than the nodes that are about to change.
    """

    place: Place
    metadata: GroupMetadata
    documents: Documents
    foreign: bool = False


@dataclass(frozen=True)
class Around:
    """What lies around a node.

    Attributes:
        own: its documents, in the format asked for; not parsed.
        above: the groups above it by path, the root first; None where one has no documents.
        below: whether any key is stored below it.
        roots: the groups above it that are consolidated, in any format.
    """

    own: Documents
    above: dict[str, NodeMetadata | None]
    below: bool
    roots: tuple[Root, ...]

    @property
    def exists(self) -> bool:
        """Whether the node itself has documents."""
        return any(value is not None for value in self.own.values())


async def look_around(place: Place, zarr_format: int) -> Around:
    """Look at the node and at all that is around it, in one round trip.

    Raises:
        MetadataError, LimitError: a document above cannot be read.
    """
    rules = rules_of(zarr_format)
    above: dict[str, NodeMetadata | None] = {}
    found: dict[str, Documents] = {}

    async def look_up(path: str) -> None:
        found[path] = await read_documents(place.at(path), rules.keys_above)
        above[path] = parse_documents(place.at(path), found[path], zarr_format)

    paths = ancestors(place.path) if rules.keys_above else []
    # What is not readable is in the way all the same: the node's own documents are not parsed.
    own, below, foreign, _ = await all_of(
        read_documents(place, rules.keys),
        anything_below(place),
        _foreign_roots(place, zarr_format),
        each(look_up, paths),
    )
    ordered = {path: above[path] for path in paths}
    return Around(own, ordered, below, (*_roots(place, ordered, found), *foreign))


async def look_up_roots(place: Place, zarr_format: int) -> tuple[Root, ...]:
    """Return the groups above the place that are consolidated; what is not readable there is none."""
    keys = rules_of(zarr_format).copies_keys
    found: dict[str, Documents] = {}
    above: dict[str, NodeMetadata | None] = {}

    async def look_up(path: str) -> None:
        try:
            found[path] = await read_documents(place.at(path), keys)
            above[path] = parse_documents(place.at(path), found[path], zarr_format)
        except (MetadataError, LimitError, PermissionDeniedError, UnauthenticatedError):
            above[path] = None

    paths = ancestors(place.path) if keys else []
    await each(look_up, paths)
    return tuple(_roots(place, {path: above[path] for path in paths}, found))


def as_root(place: Place, metadata: NodeMetadata | None, documents: Documents) -> Root | None:
    """Return the group as the root of copies; None where it is no group, or there are none."""
    if not isinstance(metadata, GroupMetadata):
        return None
    if metadata.consolidated is None and not _has_mark(metadata, documents):
        return None
    return Root(place, metadata, documents)


async def check_parents(place: Place, above: Iterable[str], zarr_format: int) -> None:
    """Refuse to make groups where there are nodes of another format, which the new ones would hide.

    Raises:
        NodeTypeError: there is one.
    """

    async def check(path: str) -> None:
        found = await read_other_format(place.at(path), zarr_format)
        if isinstance(found, ArrayMetadata):
            raise below_array(place, path)
        if found is not None:
            raise NodeTypeError(
                f"{place.at(path).url} is a group of Zarr format {found.zarr_format}, which cannot hold nodes of "
                f"format {zarr_format}",
                url=place.url,
                path=place.path,
            )

    await each(check, above)


def below_array(place: Place, path: str) -> NodeTypeError:
    """Return the error that says that an array has no nodes below it."""
    return NodeTypeError(f"{place.at(path).url} is an array; no node can be below it", url=place.url, path=place.path)


async def each(function: Any, items: Iterable[Any]) -> None:
    """Await `function(item)` for all items at once."""
    await together(function(item) for item in items)


async def all_of(*coroutines: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Run coroutines of different kinds at once and return their results in order."""
    return tuple(await together(coroutines))


async def _foreign_roots(place: Place, zarr_format: int) -> list[Root]:
    """Return the groups above the place whose copies are of another format, and lack or have what is about to change.

    What is not readable there is none.
    """
    keys = {
        number: key
        for number in DOCUMENT_KEYS
        if number != zarr_format and (key := rules_of(number).copies_key) is not None
    }
    roots: list[Root] = []

    async def look_up(path: str) -> None:
        at = place.at(path)
        try:
            documents = await read_documents(at, keys.values())
        except (LimitError, PermissionDeniedError, UnauthenticatedError):
            return
        for number, key in keys.items():
            value = documents[key]
            if value is None:
                continue
            if rules_of(number).copies_lie_apart:
                # Whatever they say, they are copies.
                roots.append(Root(at, GroupMetadata(number), {key: value}, foreign=True))
                continue
            with suppress(MetadataError, LimitError):
                root = as_root(at, parse_documents(at, {key: value}, number), {key: value})
                roots.extend([] if root is None else [replace(root, foreign=True)])

    await each(look_up, ancestors(place.path))
    return roots


def _has_mark(metadata: GroupMetadata, documents: Documents) -> bool:
    rules = rules_of(metadata.zarr_format)
    if rules.copies_key is None or rules.copies_member is None:
        return False
    value = documents.get(rules.copies_key)
    return value is not None and f'"{rules.copies_member}"'.encode() in bytes(value.data)


def _roots(place: Place, above: dict[str, NodeMetadata | None], found: dict[str, Documents]) -> Iterable[Root]:
    for path, metadata in above.items():
        root = as_root(place.at(path), metadata, found.get(path, {}))
        if root is not None:
            yield root
