"""Finds consolidated metadata above the destination of a copy, by the standard library alone: numpy is not imported."""

from __future__ import annotations

import json

from aiozarr.common.concurrency import gather_all
from aiozarr.engine import Engine, ScheduledStore
from aiozarr.errors import LimitError, PermissionDeniedError, UnauthenticatedError
from aiozarr.metadata.format_rules import CONSOLIDATED_MEMBER, GROUP_KEY, V3_KEY, ZMETADATA_KEY
from aiozarr.model import Value
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store


async def has_consolidated_above(engine: Engine, store: Store, settings: Settings, report: Report | None) -> bool:
    """Return whether a group above the root of `store` has consolidated metadata, or the sentinel of their change.

    Looks one level above the root, in one round trip, and further up only while a group is there. A document that the
    credentials may not read counts as missing.

    Raises:
        StoreError: a document could not be read.
    """
    while (parent := store.parent_store()) is not None:
        store = parent[0]
        if not store.supports.readable:
            return False
        above = engine.scheduled(store, settings, report)
        newest, older = await gather_all([_fetch(above, key, settings) for key in (V3_KEY, GROUP_KEY)])
        members = _group_members(newest)
        if members is not None and CONSOLIDATED_MEMBER in members:
            return True
        if older is not None and await _is_stored(above, ZMETADATA_KEY):
            return True
        if members is None and older is None:
            return False
    return False


async def _fetch(store: ScheduledStore, key: str, settings: Settings) -> Value | None:
    try:
        return await store.fetch(key, max_bytes=settings.max_metadata_bytes)
    except (PermissionDeniedError, UnauthenticatedError, LimitError):
        return None


async def _is_stored(store: ScheduledStore, key: str) -> bool:
    try:
        return await store.stat(key) is not None
    except (PermissionDeniedError, UnauthenticatedError):
        return False


def _group_members(document: Value | None) -> dict[str, object] | None:
    """Return the members of the document of a group of format 3; None if it is none."""
    try:
        members = None if document is None else json.loads(bytes(document.data))
    except (ValueError, RecursionError):
        return None
    return members if isinstance(members, dict) and members.get("node_type") == "group" else None
