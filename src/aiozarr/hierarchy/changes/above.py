"""Above the store's root: where that lies inside a hierarchy, a change is carried out from the hierarchy's own root.

`open_array("memory://q/g", "a")` opens an array of the store `memory://q/g`; the group `memory://q` may hold copies of
its metadata. Whoever changes the array looks one level above the root together with all else, and further up only
where there is a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from aiozarr.errors import InvalidKeyError, LimitError, MetadataError, PermissionDeniedError, UnauthenticatedError
from aiozarr.hierarchy.changes.writing import can_swap
from aiozarr.hierarchy.documents import Documents, Place, parse_documents, read_documents
from aiozarr.hierarchy.location import join_path
from aiozarr.metadata import DOCUMENT_KEYS, GroupMetadata, check_path, rules_of


def group_keys(formats: Iterable[int] = tuple(DOCUMENT_KEYS)) -> tuple[str, ...]:
    """Return the keys of the documents that make a place a group, in any of these formats."""
    return tuple(key for number in formats if (key := rules_of(number).group_key) is not None)


async def higher(place: Place, keys: Sequence[str]) -> Place | None:
    """Return the place as it is seen from one level above the store's root, where one of `keys` says a group is.

    None: there is no such level, no group, or nothing that can be seen or read.
    """
    found = None if place.target is not None or not keys else place.store.rooted_above()
    if found is None:
        return None
    root = replace(place, store=found[0], path="")
    try:
        path = join_path(check_path(found[1], None), place.path, None)
        documents = await read_documents(root, keys)
    except (InvalidKeyError, LimitError, PermissionDeniedError, UnauthenticatedError):
        return None
    if not any(_is_group(root, documents, number) for number in DOCUMENT_KEYS):
        return None
    # What was learnt of the server is known above too.
    await can_swap(place.store)
    above = place.store.rooted_above()
    return None if above is None else replace(place, store=above[0], path=path)


async def seen_from_above(places: Sequence[Place], keys: Sequence[str]) -> list[Place]:
    """Return the places, which are in one store, as they are seen from the highest group above the store's root."""
    top = places[0].at("")
    while (above := await higher(top, keys)) is not None:
        top = above
    top = replace(top, target=top.path)
    return [top.at(join_path(top.path, place.path, None)) for place in places]


def _is_group(root: Place, documents: Documents, zarr_format: int) -> bool:
    try:
        return isinstance(parse_documents(root, documents, zarr_format), GroupMetadata)
    except (MetadataError, LimitError):
        return False
