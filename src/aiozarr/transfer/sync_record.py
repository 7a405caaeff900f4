"""The record of a mirror: the states of the source's objects that its destination holds.

It takes the place of MD5s, which many servers do not report: GCS, Azure, S3 for objects in parts or with keys of KMS.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b

from aiozarr.engine import ScheduledStore
from aiozarr.engine.copy import has_content_tag
from aiozarr.errors import StoreError
from aiozarr.model import JOURNAL_PREFIX, Entry
from aiozarr.stores import BlockingStore, Store
from aiozarr.transfer.journal import digest

RECORD_KEY = f"{JOURNAL_PREFIX}synced"
_MAGIC = b"aiozarr: synced objects, version 1\n"
_HASH_BYTES = 8
RECORD_BYTES = 2 * _HASH_BYTES
"""Bytes per object: a hash of its key and state at the destination, and one of its state in the source."""


class SyncRecord:
    """The record at one destination. Used on the I/O thread only.

    An object is equal if source and destination both still have the recorded states. So neither an interrupted copy nor
    another program that changes the destination makes a record wrong.

    Args:
        source: the source, whose URL is part of each record.
        destination: the destination.
        is_kept: False if nothing is to be read or stored.
    """

    def __init__(self, source: Store, destination: ScheduledStore, *, is_kept: bool) -> None:
        self._source, self._destination = source, destination
        self._is_local = isinstance(destination.store, BlockingStore)
        self._reads_files = isinstance(source, BlockingStore)
        # Local files are compared byte by byte.
        self.is_kept = is_kept and not (self._is_local and self._reads_files)
        self._stored = b""
        self._recorded: dict[bytes, bytes] = {}
        self._intact: dict[int, bytes] = {}
        # What was copied, with the MD5 of the source's object and without it.
        self._hashed: dict[int, bytes] = {}
        self._unhashed: dict[int, bytes] = {}
        self._final: dict[bytes, bytes] = {}

    async def load(self) -> None:
        """Read the record. One that is missing or damaged is empty."""
        with suppress(StoreError):
            value = await self._destination.fetch(RECORD_KEY) if self.is_kept else None
            self._stored = b"" if value is None else bytes(value.data)
            body = self._stored[len(_head(b"")) :]
            if self._stored == _head(body) + body:
                starts = range(0, len(body), RECORD_BYTES)
                self._recorded = {
                    body[at : at + _HASH_BYTES]: body[at + _HASH_BYTES : at + RECORD_BYTES] for at in starts
                }

    def add_stored(self, entry: Entry) -> None:
        """Look for the record of an object of the destination, which is valid while the object is as it was."""
        recorded = self._recorded.get(_state(entry)) if self._recorded else None
        if recorded is not None:
            self._intact[hash(entry.key)] = recorded

    def has(self, entry: Entry) -> bool:
        """Return whether the destination has this state of an object of the source."""
        recorded = self._intact.get(hash(entry.key)) if self._intact else None
        return recorded is not None and recorded == _state(entry, self._source.url)

    def add(self, entry: Entry) -> None:
        """Record that the destination has this state of an object of the source."""
        if not self.is_kept or entry.version is None:
            return
        is_hashed = self._reads_files or has_content_tag(entry.version)
        if not (is_hashed and self._is_local):
            (self._hashed if is_hashed else self._unhashed)[hash(entry.key)] = _state(entry, self._source.url)

    def add_final(self, entry: Entry) -> None:
        """Record an object of the destination as it is after the copy, unless both sides have its MD5."""
        if not self.is_kept:
            return
        hashed = self._hashed.get(hash(entry.key))
        if hashed is not None and entry.version is not None and has_content_tag(entry.version):
            return
        recorded = hashed or self._unhashed.get(hash(entry.key)) or self._recorded.get(_state(entry))
        if recorded is not None:
            self._final[_state(entry)] = recorded

    async def store(self) -> None:
        """Store the record of a complete copy, if it is another one than before."""
        body = b"".join([state + source for state, source in sorted(self._final.items())])
        if self._recorded and not body:
            await self._destination.erase(RECORD_KEY)
        elif body and self._stored != _head(body) + body:
            await self._destination.set(RECORD_KEY, _head(body) + body)


def _head(body: bytes) -> bytes:
    return _MAGIC + blake2b(body, digest_size=16).digest()


def _state(entry: Entry, source: str = "") -> bytes:
    """Return a hash of an object's state at the destination, or in the source of this URL."""
    return digest(entry, _HASH_BYTES, prefix=f"{source}\0")
