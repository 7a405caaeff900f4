"""The document by which an interrupted copy or conversion is continued."""

from __future__ import annotations

import asyncio
import json
from hashlib import blake2b
from typing import Any

from aiozarr.engine import ScheduledStore

MAX_JOURNAL_BYTES = 64 << 20
MIN_WRITE_SECONDS = 1.0
"""Finished work is recorded at most this often: the work of the last second is repeated after a crash."""


class Journal:
    """A document at the destination, with a checksum. Lives on the I/O thread.

    Args:
        store: the destination.
        key: the key of the document.
    """

    def __init__(self, store: ScheduledStore, key: str) -> None:
        self._store = store
        self._key = key
        self._clock = asyncio.get_running_loop().time
        self._started = self._written = self._clock()

    async def read(self) -> dict[str, Any] | None:
        """Return the members that are stored, `{}` if they are damaged, or None if nothing is stored."""
        value = await self._store.fetch(self._key, max_bytes=MAX_JOURNAL_BYTES)
        if value is None:
            return None
        try:
            members = json.loads(bytes(value.data))
        except (ValueError, RecursionError):
            return {}
        checksum = members.pop("checksum", None) if isinstance(members, dict) else None
        return members if checksum is not None and checksum == checksum_of(members) else {}

    async def write(self, members: dict[str, Any]) -> None:
        """Store the members."""
        self._written = self._clock()
        document = json.dumps({**members, "checksum": checksum_of(members)})
        await self._store.set(self._key, document.encode())

    def is_due(self, share: float = 0.0) -> bool:
        """Return whether finished work is to be recorded now, and begin the next interval if so.

        Args:
            share: the share of the time so far that must have passed since the last record, if that is longer.
        """
        now = self._clock()
        is_due = now - self._written > max(MIN_WRITE_SECONDS, share * (now - self._started))
        if is_due:
            self._written = now
        return is_due


def checksum_of(members: dict[str, Any]) -> str:
    """Return the checksum of the members of a journal."""
    return blake2b(json.dumps(members).encode(), digest_size=16).hexdigest()
