"""Whether two stores lie in each other: then one cannot be the copy of the other."""

from __future__ import annotations

import os

from aiozarr.stores import LocalStore, Store

# Such a URL means the same place to everyone in this process, whoever asks.
_ABSOLUTE = ("file://", "memory://")


def check_apart(source: Store, destination: Store) -> None:
    """Check that neither store is, or contains, the other; local roots are compared with links resolved.

    Stores of one server that are opened with different credentials count as apart.

    Raises:
        ValueError: they are not apart.
    """
    if source.identity == destination.identity:
        raise ValueError(f"source and destination are the same: {source.url}")
    if not _comparable(source, destination):
        return
    from_place, to_place = _place(source), _place(destination)
    if from_place == to_place:
        raise ValueError(f"source and destination are the same: {source.url}")
    if to_place.startswith(from_place):
        raise ValueError(f"the destination {destination.url} lies inside the source {source.url}")
    if from_place.startswith(to_place):
        raise ValueError(f"the source {source.url} lies inside the destination {destination.url}")


def _comparable(source: Store, destination: Store) -> bool:
    return source.origin == destination.origin or source.url.startswith(_ABSOLUTE)


def _place(store: Store) -> str:
    if isinstance(store, LocalStore):
        return f"file://{os.path.realpath(store.root)}".rstrip("/") + "/"
    return store.url.partition("?")[0].rstrip("/") + "/"
