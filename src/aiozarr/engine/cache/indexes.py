"""The cache of decoded shard indexes, bounded in bytes; each is of one version of its object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from aiozarr.codecs import ShardIndex
from aiozarr.model import Version


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The index of one version of a shard; both are None if the shard is not stored."""

    index: ShardIndex | None
    version: Version | None


class IndexCache:
    """An LRU cache of indexes whose version later requests can insist on."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, IndexEntry] = OrderedDict()

    def get(self, token: Hashable) -> IndexEntry | None:
        """Return the entry and mark it as used."""
        entry = self._entries.get(token)
        if entry is not None:
            self._entries.move_to_end(token)
        return entry

    def peek(self, token: Hashable) -> IndexEntry | None:
        """Return the entry, from any thread; it does not count as used."""
        return self._entries.get(token)

    def put(self, token: Hashable, entry: IndexEntry, max_bytes: int) -> None:
        """Cache `entry` within the caller's limit; the last caller's limit holds."""
        self.max_bytes = max_bytes
        if entry.index is None or entry.version is None or entry.index.nbytes > max_bytes:
            return
        self.drop(token)
        self._entries[token] = entry
        self._bytes += entry.index.nbytes
        while self._bytes > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            assert oldest.index is not None
            self._bytes -= oldest.index.nbytes

    def drop(self, token: Hashable) -> None:
        """Drop the entry: its object has changed."""
        entry = self._entries.pop(token, None)
        if entry is not None and entry.index is not None:
            self._bytes -= entry.index.nbytes
