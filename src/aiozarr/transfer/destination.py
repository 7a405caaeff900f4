"""The destination before a copy: its listing, and the comparison of a mirror."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiozarr.model import JOURNAL_PREFIX, Entry
from aiozarr.transfer.copy_journal import digest, is_journal_key


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

    It holds hashes, so that a million objects take 160 MB. A hash that two keys share keeps an object that should be
    deleted; among a million keys this has a probability of 1 to 2 million.
    """

    def __init__(self) -> None:
        self._keys: set[int] = set()
        self._stored: set[bytes] = set()

    def add_stored(self, entry: Entry) -> None:
        """Record an object of the destination."""
        if _has_content_tag(entry):
            self._stored.add(digest(entry))

    def add_key(self, key: str) -> None:
        """Record a key of the source."""
        self._keys.add(hash(key))

    def is_stored(self, entry: Entry) -> bool:
        """Return whether the destination has an object of equal key, size and content."""
        return bool(self._stored) and _has_content_tag(entry) and digest(entry) in self._stored

    def __contains__(self, key: str) -> bool:
        return hash(key) in self._keys


def _has_content_tag(entry: Entry) -> bool:
    """Return whether the ETag is the MD5 of the content, as far as its form says: equal ones mean equal bytes."""
    version = entry.version
    if version is None or version.etag is None or version.generation is not None:
        return False
    tag = version.etag.strip('"')
    return len(tag) == MD5_DIGITS and all(digit in "0123456789abcdef" for digit in tag)


MD5_DIGITS = 32
