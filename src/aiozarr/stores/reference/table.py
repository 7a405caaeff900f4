"""Tables of references, which have the value of a key or its location in another object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.model import Entry
from aiozarr.stores.reference.columns import (
    KeyFamily,
    Reference,
    ReferenceColumns,
    Target,
    check_bound,
    check_count,
    length_of,
    parse_coordinates,
    split_chunk_key,
)

MAX_DOCUMENT_BYTES = 1 << 30
"""The largest document of references that is read; of JSON, about ten million references."""
MAX_FAMILIES = 1 << 17
"""Key families of one table, as many as a consolidated tree has nodes. Each takes 1.4 KB."""
MAX_SINGLE_VALUES = 1 << 22
"""Inlined values, and references to keys other than chunks, of one table."""

Found: TypeAlias = "Reference | Buffer"
"""A reference, or the bytes themselves if the table has them inlined."""


class ReferenceTable(ABC):
    """A table of references. A part of it is loaded when one of its keys is first needed.

    A table never changes. `find` may be called from any thread; the other methods are called on a loop.

    Attributes:
        reading_id: stands for what a document held when the table was read from it. None before that, and for a table
            that is read from no document.
        max_document_bytes: the most bytes of each document that is read, stored and decoded.
    """

    reading_id: Hashable = None
    max_document_bytes: int = MAX_DOCUMENT_BYTES

    def limit_documents(self, max_bytes: int | None) -> None:
        """Do what `LocatingStore.limit_documents` does."""
        self.max_document_bytes = MAX_DOCUMENT_BYTES if max_bytes is None else max_bytes

    @abstractmethod
    def unloaded_part(self, key: str) -> Hashable:
        """Return the next part of the table that must be loaded before `find(key)`; None if there is none."""

    @abstractmethod
    async def load(self, part: Hashable) -> None:
        """Load a part. Loading it twice at once does no harm.

        Raises:
            MetadataError: it violates its format.
            LimitError: it is too large.
            StoreError: it could not be read.
        """

    @abstractmethod
    def find(self, key: str) -> Found | None:
        """Return the value or reference of `key`, whose part must be loaded; None if there is none."""

    @abstractmethod
    def scan(self, prefix: str) -> AsyncIterator[Entry]:
        """Iterate over the keys that begin with `prefix`."""

    @abstractmethod
    async def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""

    async def aclose(self) -> None:  # noqa: B027  # most tables have nothing to close
        """Release what the table has opened."""


class LoadedReferences(ReferenceTable):
    """References in memory: columns for chunks, dictionaries for everything else.

    Attributes:
        targets: the objects: their URLs, or stores and keys.
        inlined: keys whose bytes are in the table.
        single: references of keys that do not end with chunk coordinates.
        columns: the references of chunks.
    """

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.inlined: dict[str, Buffer] = {}
        self.single: dict[str, Reference] = {}
        self.columns: dict[KeyFamily, ReferenceColumns] = {}
        self._count = 0  # rows of all columns

    def add_columns(self, columns: ReferenceColumns) -> None:
        """Add the columns of a key family.

        Raises:
            LimitError: the table has too many references.
        """
        self._count += len(columns) - len(self.columns.get(columns.family, ()))
        check_count(self._count)
        self.columns[columns.family] = columns

    def add_single(self, key: str, found: Found) -> None:
        """Add an inlined value, or the reference of a key without chunk coordinates.

        Raises:
            LimitError: the table has too many of them.
        """
        if isinstance(found, Reference):
            self.single[key] = found
        else:
            self.inlined[key] = found
        count = len(self.inlined) + len(self.single)
        check_bound(count, MAX_SINGLE_VALUES, "inlined values", "the table has more than {allowed} inlined values")

    def unloaded_part(self, key: str) -> Hashable:
        return None

    async def load(self, part: Hashable) -> None:
        raise AssertionError

    def find(self, key: str) -> Found | None:
        found: Found | None = self.inlined.get(key)
        if found is None:
            found = self.single.get(key)
        if found is not None or (split := split_chunk_key(key)) is None:
            return found
        columns = self.columns.get(split[0])
        row = None if columns is None else columns.row(split[1])
        if columns is None or row is None:
            return None
        number, start, length = columns.located(row)
        return Reference(self.targets[number], start, length)

    async def scan(self, prefix: str) -> AsyncIterator[Entry]:
        for entry in self._entries(prefix):
            yield entry

    def _entries(self, prefix: str) -> Iterator[Entry]:
        yield from [Entry(key, memoryview(data).nbytes) for key, data in self.inlined.items() if key.startswith(prefix)]
        others = [(key, each.length) for key, each in self.single.items()]
        yield from [Entry(key, length) for key, length in others if key.startswith(prefix) and key not in self.inlined]
        for family, columns in list(self.columns.items()):
            if family.prefix.startswith(prefix) or prefix.startswith(family.prefix):
                for key, length in columns.entries():
                    if key.startswith(prefix) and key not in self.inlined and key not in self.single:
                        yield Entry(key, length)

    async def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
        # Chunks are enumerated only if they are directly below the prefix.
        keys: set[str] = set()
        prefixes: set[str] = set()
        sort_below(prefix, [*self.inlined, *self.single], keys, prefixes)
        for family, columns in list(self.columns.items()):
            name, slash, _ = family.prefix[len(prefix) :].partition("/")
            if family.prefix.startswith(prefix) and slash:
                prefixes.add(f"{prefix}{name}/")
            elif family.prefix.startswith(prefix) or prefix.startswith(family.prefix):
                sort_below(prefix, (key for key, _ in columns.entries()), keys, prefixes)
        return keys, prefixes


class ReferenceRows:
    """Converts references to columns in batches, so that only one batch at a time consists of Python objects.

    Args:
        into: receives the columns.
    """

    def __init__(self, into: LoadedReferences) -> None:
        self._into = into
        self._objects: dict[str, int] = {}
        self._count = 0
        self._columns: dict[KeyFamily, list[tuple[NDArray[Any], ...]]] = {}

    def add(self, keys: Sequence[str], urls: Sequence[str], starts: NDArray[Any], lengths: NDArray[Any]) -> None:
        """Add a batch of references: their keys, the URLs of their objects, first bytes and lengths.

        Raises:
            LimitError: the table has too many references.
        """
        self._count += len(keys)
        check_count(self._count)
        split = split_chunk_key(keys[0])
        # Most batches have one family. All keys begin with its prefix if the first and the last in order do.
        if split is not None and min(keys).startswith(split[0].prefix) and max(keys).startswith(split[0].prefix):
            coordinates = parse_coordinates(split[0], keys)
            if coordinates is not None:
                self._add(split[0], coordinates, urls, starts, lengths)
                return
        by_family: dict[KeyFamily, list[int]] = {}
        for row, key in enumerate(keys):
            split = split_chunk_key(key)
            if split is None:
                self._into.add_single(key, Reference(urls[row], int(starts[row]), length_of(int(lengths[row]))))
            else:
                by_family.setdefault(split[0], []).append(row)
        for family, rows in by_family.items():
            coordinates = parse_coordinates(family, [keys[row] for row in rows])
            assert coordinates is not None
            self._add(family, coordinates, [urls[row] for row in rows], starts[rows], lengths[rows])

    def _add(
        self,
        family: KeyFamily,
        coordinates: NDArray[np.int64],
        urls: Sequence[str],
        starts: NDArray[Any],
        lengths: NDArray[Any],
    ) -> None:
        for url in dict.fromkeys(urls):
            if url not in self._objects:
                self._objects[url] = len(self._into.targets)
                self._into.targets.append(url)
        objects = np.array(list(map(self._objects.__getitem__, urls)), np.int32)
        self._columns.setdefault(family, []).append((coordinates, objects, starts, lengths))
        check_families(len(self._columns))

    def finish(self) -> None:
        """Make columns of all rows."""
        while self._columns:
            family, batches = self._columns.popitem()
            coordinates, objects, starts, lengths = [np.concatenate(each) for each in zip(*batches, strict=True)]
            columns = ReferenceColumns.from_coordinates(family, coordinates, objects, starts, lengths)
            if columns is not None:
                self._into.add_columns(columns)
                continue
            for place, number, start, length in zip(coordinates, objects, starts, lengths, strict=True):
                key = family.prefix + family.separator.join(map(str, place))
                self._into.add_single(key, Reference(self._into.targets[number], int(start), length_of(int(length))))


def check_document(nbytes: int, max_bytes: int, key: str) -> None:
    """Raise `LimitError` if the references in the document `key` take more than `max_bytes` bytes."""
    message = "the references in {key!r} take {value} bytes; at most {allowed} are read (max_metadata_bytes)"
    check_bound(nbytes, max_bytes, "max_metadata_bytes", message, key)


def check_families(count: int) -> None:
    """Raise `LimitError` if a table has more than `MAX_FAMILIES` key families."""
    check_bound(count, MAX_FAMILIES, "arrays of references", "the references are of more than {allowed} arrays")


def sort_below(prefix: str, names: Iterable[str], keys: set[str], prefixes: set[str]) -> None:
    """Add the names directly below `prefix` to `keys`, and the prefixes one level below it to `prefixes`."""
    for key in names:
        if key.startswith(prefix):
            name, slash, _ = key[len(prefix) :].partition("/")
            (prefixes if slash else keys).add(prefix + name + slash)
