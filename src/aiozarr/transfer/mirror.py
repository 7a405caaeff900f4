"""The comparison of a mirror: which objects the destination has already, and which the source lacks."""

from __future__ import annotations

from aiozarr.engine.copy import has_content_tag
from aiozarr.model import Entry
from aiozarr.transfer.copy_journal import digest, size_hash


class Mirror:
    """Decides which objects of a source a destination has already, and which of its objects the source lacks.

    It holds hashes, so that a million objects take 230 MB. A hash that two keys share keeps an object that should be
    deleted; among a million keys this has a probability of 1 to 2 million.
    """

    def __init__(self) -> None:
        self._keys: set[int] = set()
        self._stored: set[bytes] = set()
        self._sizes: set[int] = set()

    def add_stored(self, entry: Entry) -> None:
        """Record an object of the destination."""
        self._sizes.add(size_hash(entry))
        if entry.version is not None and has_content_tag(entry.version):
            self._stored.add(digest(entry))

    def add_key(self, key: str) -> None:
        """Record a key of the source."""
        self._keys.add(hash(key))

    def discard_key(self, key: str) -> None:
        """Remove a recorded key: the source does not have it after all."""
        self._keys.discard(hash(key))

    def may_have(self, entry: Entry) -> bool:
        """Return whether the destination has an object of equal key and size."""
        return size_hash(entry) in self._sizes

    def is_stored(self, entry: Entry) -> bool:
        """Return whether the destination has an object of equal key, size and content."""
        if not self._stored or entry.version is None or not has_content_tag(entry.version):
            return False
        return digest(entry) in self._stored

    def __contains__(self, key: str) -> bool:
        return hash(key) in self._keys
