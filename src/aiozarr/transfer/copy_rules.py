"""The rules of a copy: its treatment of objects of source and destination, the keys that it copies, and their order.

Metadata documents are stored in an order that shows no incomplete node. Source and destination must be disjoint:
neither is, or contains, the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import groupby
from typing import Literal, TypeAlias

from aiozarr.engine.copy import Verify
from aiozarr.metadata.format_rules import ARRAY_KEY, META_KEY, V3_KEY, document_write_order
from aiozarr.model import Entry
from aiozarr.stores import LocalStore, Store
from aiozarr.stores.blocking import in_thread

OnError: TypeAlias = Literal["raise", "continue"]


class KeyFilter:
    """Keys that match one of `include`, or any key if there is none, and none of `exclude`.

    Patterns follow the shell, as in `aws s3` and `s5cmd`: `*` matches any characters, slashes included, `?` one
    character, `[abc]` and `[!abc]` one of a set. A pattern matches the whole key, relative to the root of the copy.
    The time of a match is at most proportional to the product of the lengths of pattern and key.

    Args:
        include: patterns, or one pattern.
        exclude: as `include`.

    Raises:
        TypeError: a pattern is not a str.
        ValueError: a pattern is empty, too long, or begins with a slash, which no key does.
    """

    def __init__(self, include: str | Iterable[str] = (), exclude: str | Iterable[str] = ()) -> None:
        self.include = _patterns(include, "include")
        self.exclude = _patterns(exclude, "exclude")
        self._included = _compiled(self.include)
        self._excluded = _compiled(self.exclude)

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)

    def matches(self, key: str) -> bool:
        """Return whether `key` is selected."""
        included, excluded = self._included, self._excluded
        if included and not any(pattern.match(key) for pattern in included):
            return False
        return not any(pattern.match(key) for pattern in excluded)

    def may_match_at(self, key: str) -> bool:
        """Return whether `key`, or any key below it, may be selected: a link that leads nowhere may be a folder."""
        folder = f"{key}/"
        if any(pattern.match(key) or pattern.match(folder) for pattern in self._excluded):
            return False
        # The beginning of a pattern up to its first special character is that of all keys that match it.
        starts = [_SPECIAL.split(pattern)[0] for pattern in self.include]
        return not starts or any(folder.startswith(start) or start.startswith(folder) for start in starts)


@dataclass(frozen=True)
class CopyRules:
    """The options of a copy for the objects of source and destination, as in `aiozarr.copy`.

    Attributes:
        keys: the keys that are copied.
        overwrite: replace objects of the destination.
        resume: continue an interrupted copy.
        verify: how each object is checked.
        delete: remove objects that the source does not have.
        skip_equal: skip objects that the destination has already; `delete` does, too.
        size_only: chunks of equal size are equal.
        dry_run: count, and write nothing.
        on_error: stop at the first error, or continue.
    """

    keys: KeyFilter = field(default_factory=KeyFilter)
    overwrite: bool = False
    resume: bool = False
    verify: Verify = "size"
    delete: bool = False
    skip_equal: bool = False
    size_only: bool = False
    dry_run: bool = False
    on_error: OnError = "raise"

    @property
    def may_replace(self) -> bool:
        """True if objects of the destination may be replaced."""
        return self.overwrite or self.delete

    @property
    def compares(self) -> bool:
        """True if objects of the destination are compared with those of the source."""
        return self.delete or self.skip_equal or self.size_only


_SPECIAL = re.compile(r"[*?\[]")
MAX_PATTERN_CHARACTERS = 1024
"""The longest key. Longer patterns match nothing but cost time for every key."""


def _patterns(given: str | Iterable[str], option: str) -> tuple[str, ...]:
    patterns = (given,) if isinstance(given, str) else tuple(given)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"{option} must be one or more patterns, such as 'air/*', not {type(pattern).__name__}")
        if not pattern or len(pattern) > MAX_PATTERN_CHARACTERS:
            raise ValueError(f"{option} patterns need 1 to {MAX_PATTERN_CHARACTERS} characters, not {len(pattern)}")
        if pattern.startswith("/"):
            raise ValueError(f"{option}={pattern!r} matches nothing, because keys do not begin with a slash")
    return patterns


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    # The expressions of `fnmatch` cannot backtrack behind a star that has matched (atomic groups).
    return tuple(re.compile(translate(pattern)) for pattern in patterns)


def is_document(key: str) -> bool:
    """Return whether `key` is that of a metadata document of any format."""
    return document_write_order(key) is not None


def is_node_document(key: str) -> bool:
    """Return whether `key` is that of a document that describes how chunks are decoded."""
    return key.rpartition("/")[2] in (V3_KEY, ARRAY_KEY, META_KEY)


def is_folder_marker(entry: Entry) -> bool:
    """Return whether `entry` is an empty object that a tool made to show a folder, such as `a/b/`."""
    return entry.key.endswith("/") and not entry.size


def node_of(key: str) -> str:
    """Return the path of the node that the metadata document `key` belongs to; `""` is the root."""
    return key.rpartition("/")[0]


def stores_above(store: Store) -> Iterator[tuple[Store, str]]:
    """Iterate over the stores whose roots are the levels above the root of `store`, with the path of that in each."""
    path = ""
    while (parent := store.parent_store()) is not None:
        store, name = parent
        path = f"{name}/{path}" if path else name
        yield store, path


def document_levels(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Iterate over metadata documents in groups, each of which may be stored after the previous ones.

    The deepest nodes come first and the root last, so that a reader that sees a node sees everything below it.
    """
    for _, level in groupby(sorted(entries, key=_storing_order), key=_storing_order):
        yield list(level)


def _storing_order(entry: Entry) -> tuple[int, int]:
    return -entry.key.count("/"), document_write_order(entry.key) or 0


ZIP_PREFIX = "zip::"
# URLs of these schemes mean the same location to every store of this process.
_LOCAL_SCHEMES = ("file://", "memory://", f"{ZIP_PREFIX}file://")


async def check_disjoint(source: Store, destination: Store) -> None:
    """Check that neither store is, or contains, the other. Symbolic links in local roots are resolved.

    An archive may be unpacked into its directory, but not written from it. Stores of one server that are opened with
    different credentials count as disjoint.

    Raises:
        ValueError: they overlap.
    """
    if source.identity == destination.identity:
        raise ValueError(f"source and destination are the same: {source.url}")
    if source.origin != destination.origin and not source.url.startswith(_LOCAL_SCHEMES):
        return
    # In a thread, because resolving symbolic links may wait for a disk.
    source_url, destination_url = await in_thread(lambda: (_comparable_url(source), _comparable_url(destination)))
    if source_url == destination_url:
        raise ValueError(f"source and destination are the same: {source.url}")
    if destination_url.removeprefix(ZIP_PREFIX).startswith(source_url.removeprefix(ZIP_PREFIX)):
        raise ValueError(f"the destination {destination.url} is inside the source {source.url}")
    if source_url.startswith(destination_url):
        raise ValueError(f"the source {source.url} is inside the destination {destination.url}")


def _comparable_url(store: Store) -> str:
    if isinstance(store, LocalStore):
        return f"file://{os.path.realpath(store.root)}".rstrip("/") + "/"
    if store.url.startswith(f"{ZIP_PREFIX}file://"):
        # Imported here because few copies have an archive.
        from aiozarr.stores.zip.local_zip import LocalZipStore

        if isinstance(store, LocalZipStore):
            return f"{ZIP_PREFIX}file://{os.path.realpath(store.path)}/{store.prefix}"
    return store.url.partition("?")[0].rstrip("/") + "/"
