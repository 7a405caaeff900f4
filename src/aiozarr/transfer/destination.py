"""The destination before a copy: its listing, and the comparison of a mirror."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiozarr.model import JOURNAL_PREFIX, Entry
from aiozarr.transfer.copy_journal import digest, is_journal_key, size_hash
from aiozarr.transfer.copy_object import has_content_tag


@dataclass
class DestinationListing:
    """The objects that a destination holds before a copy.

    Attributes:
        count: number of objects, without those of a journal.
        first: the key of the first of them.
        journal_keys: keys of the journal of an interrupted copy.
        size_hashes: hashes of keys and sizes, if the copy is resumed.
    """

    count: int = 0
    first: str = ""
    journal_keys: list[str] = field(default_factory=list)
    size_hashes: set[int] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        """Count an object."""
        if not is_journal_key(entry.key):
            self.count += 1
            self.first = self.first or entry.key
        elif not entry.key.partition(JOURNAL_PREFIX)[0]:
            self.journal_keys.append(entry.key)


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
