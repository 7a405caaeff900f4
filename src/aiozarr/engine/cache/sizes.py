"""Sizes of shards whose last bytes can only be asked for by their place: who knows the size need not ask for it."""

from __future__ import annotations

from collections import OrderedDict

from aiozarr.model import Entry, Version
from aiozarr.stores.contract import Store

MAX_SIZES = 1 << 16


class SizeCache:
    """The sizes last seen, each of one version of its object; the oldest go first.

    Only those that a later request can insist on are kept, and only of stores that refuse suffix ranges.
    """

    def __init__(self, max_sizes: int = MAX_SIZES) -> None:
        self._max = max_sizes
        self._entries: OrderedDict[tuple[object, str], Entry] = OrderedDict()

    def get(self, store: Store, key: str) -> Entry | None:
        """Return the size and version that were seen last."""
        return self._entries.get((store.identity, key)) if self._entries else None

    def note(self, store: Store, key: str, size: int | None, version: Version | None) -> None:
        """Keep what an answer or a write has told."""
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
