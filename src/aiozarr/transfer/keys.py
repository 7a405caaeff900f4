"""What a key tells about its object: whether it may be copied, when its turn is, and which nodes it lies below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from aiozarr.metadata import document_turn
from aiozarr.model import Entry


def is_metadata(key: str) -> bool:
    """Return whether `key` names a metadata document of any format."""
    return document_turn(key) is not None


def is_folder_marker(entry: Entry) -> bool:
    """Return whether `entry` is an empty object that a tool made to show a folder, such as `a/b/`."""
    return entry.key.endswith("/") and not entry.size


def node_of(key: str) -> str:
    """Return the path of the node that the metadata document `key` belongs to; `""` is the root."""
    return key.rpartition("/")[0]


def paths_above(key: str) -> Iterator[str]:
    """Iterate over the paths of all nodes that `key` lies below, the root last."""
    path = key
    while path := path.rpartition("/")[0]:
        yield path
    yield ""


def metadata_levels(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Iterate over metadata documents in groups, each of which may be written once those before it are there.

    Deepest nodes come first and the root last: whoever sees a node sees all that lies below it.
    """
    for _, level in groupby(sorted(entries, key=_turn), key=_turn):
        yield list(level)


def _turn(entry: Entry) -> tuple[int, int]:
    turn = document_turn(entry.key)
    assert turn is not None
    return -entry.key.count("/"), turn
