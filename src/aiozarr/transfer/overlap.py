"""Checks that source and destination of a copy are disjoint: neither is, or contains, the other."""

from __future__ import annotations

import os

from aiozarr.stores import LocalStore, Store

ZIP_PREFIX = "zip::"
# URLs of these schemes mean the same location to every store of this process.
_LOCAL_SCHEMES = ("file://", "memory://", f"{ZIP_PREFIX}file://")


def check_disjoint(source: Store, destination: Store) -> None:
    """Check that neither store is, or contains, the other. Symbolic links in local roots are resolved.

    An archive may be unpacked into its directory, and not be written from it. Stores of one server that are opened with
    different credentials count as disjoint.

    Raises:
        ValueError: they overlap.
    """
    if source.identity == destination.identity:
        raise ValueError(f"source and destination are the same: {source.url}")
    if source.origin != destination.origin and not source.url.startswith(_LOCAL_SCHEMES):
        return
    source_url, destination_url = _comparable_url(source), _comparable_url(destination)
    if source_url == destination_url:
        raise ValueError(f"source and destination are the same: {source.url}")
    if destination_url.removeprefix(ZIP_PREFIX).startswith(source_url.removeprefix(ZIP_PREFIX)):
        raise ValueError(f"the destination {destination.url} lies inside the source {source.url}")
    if source_url.startswith(destination_url):
        raise ValueError(f"the source {source.url} lies inside the destination {destination.url}")


def _comparable_url(store: Store) -> str:
    if isinstance(store, LocalStore):
        return f"file://{os.path.realpath(store.root)}".rstrip("/") + "/"
    if store.url.startswith(f"{ZIP_PREFIX}file://"):
        # Imported on use: few copies have an archive.
        from aiozarr.stores.zip.local_zip import LocalZipStore

        if isinstance(store, LocalZipStore):
            return f"{ZIP_PREFIX}file://{os.path.realpath(store.path)}/{store.prefix}"
    return store.url.partition("?")[0].rstrip("/") + "/"
