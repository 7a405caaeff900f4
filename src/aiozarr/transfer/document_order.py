"""Which objects of a listing are metadata documents, and the order in which a copy stores them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from aiozarr.metadata.format_rules import ARRAY_KEY, META_KEY, V3_KEY, document_write_order
from aiozarr.model import Entry


def is_document(key: str) -> bool:
    """Return whether `key` is that of a metadata document of any format."""
    return document_write_order(key) is not None


def is_node_document(key: str) -> bool:
    """Return whether `key` is that of a document that says how chunks are decoded."""
    return key.rpartition("/")[2] in (V3_KEY, ARRAY_KEY, META_KEY)


def is_folder_marker(entry: Entry) -> bool:
    """Return whether `entry` is an empty object that a tool made to show a folder, such as `a/b/`."""
    return entry.key.endswith("/") and not entry.size


def node_of(key: str) -> str:
    """Return the path of the node that the metadata document `key` belongs to; `""` is the root."""
    return key.rpartition("/")[0]


def paths_above(key: str) -> Iterator[str]:
    """Iterate over the paths of all nodes above `key`, the root last."""
    path = key
    while path := path.rpartition("/")[0]:
        yield path
    yield ""


def document_levels(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Iterate over metadata documents in groups, each of which may be stored after the previous ones.

    The deepest nodes come first and the root last: a reader that sees a node sees everything below it.
    """
    for _, level in groupby(sorted(entries, key=_storing_order), key=_storing_order):
        yield list(level)


def _storing_order(entry: Entry) -> tuple[int, int]:
    return -entry.key.count("/"), document_write_order(entry.key) or 0
