"""Sizes of shards in stores that refuse suffix ranges: the end of an object of known size is a plain range."""

from __future__ import annotations

from collections import OrderedDict

from aiozarr.model import Entry, Version
from aiozarr.stores.contract import Store

MAX_SIZES = 1 << 16


class SizeCache:
    """The sizes last seen, each of one version of its object; those unused for longest go first.

    Only those that a later request can insist on are cached, and only of stores that refuse suffix ranges.
    """

    def __init__(self, max_sizes: int = MAX_SIZES) -> None:
        self._max = max_sizes
        self._entries: OrderedDict[tuple[object, str], Entry] = OrderedDict()

    def get(self, store: Store, key: str) -> Entry | None:
        """Return the size and version that were seen last."""
        entry = self._entries.get((store.identity, key)) if self._entries else None
        if entry is not None:
            self._entries.move_to_end((store.identity, key))
        return entry

    def record(self, store: Store, key: str, size: int | None, version: Version | None) -> None:
        """Cache the size that a response or a write has reported."""
        supports = store.supports
        if supports.suffix_reads or not supports.conditional_reads:
            return
        if size is None or version is None or version.weak:
            self.drop(store, key)
            return
        self._entries[store.identity, key] = Entry(key, size, version)
        self._entries.move_to_end((store.identity, key))
        if len(self._entries) > self._max:
            self._entries.popitem(last=False)

    def drop(self, store: Store, key: str) -> None:
        """Forget the size: the object has changed."""
        if self._entries:
            self._entries.pop((store.identity, key), None)
