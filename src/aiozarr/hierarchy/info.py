"""Information about an array or a group: records that print as tables, and HTML for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Literal, TypeAlias

from aiozarr.common.formatting import format_bytes, format_table, preformatted
from aiozarr.errors import MetadataError
from aiozarr.grid.chunk_grid import resolve_grid
from aiozarr.grid.key_encoding import ChunkKeyEncoding, DefaultKeyEncoding, V2KeyEncoding, resolve_key_encoding
from aiozarr.hierarchy.node_access import NodeAccess
from aiozarr.metadata.format_rules import relative_name
from aiozarr.metadata.formats import PROBE_KEYS
from aiozarr.metadata.records import ArrayMetadata

KeyKind: TypeAlias = tuple[int, ...] | Literal["outside", "misnamed", "document", "other"]
"""The coordinates of a chunk; "outside": a chunk outside of the grid; "misnamed": the key of a chunk in another of the
usual encodings, where no reader finds it; "document": metadata; "other": anything else."""


@dataclass(frozen=True, kw_only=True)
class ArrayInfo:
    """Information about one array; `str(info)` is a table.

    Attributes:
        type: "Array".
        url: the canonical URL.
        zarr_format: version of the format.
        store: class name of the store.
        read_only: whether writes raise.
        data_type: name of the elements' type.
        shape: lengths of the dimensions.
        chunks: shape of the smallest unit that can be read.
        shards: shape of a shard; None without shards.
        order: "C" or "F", the order of elements in a chunk.
        fill_value: the value of missing chunks, as text.
        codecs: names of the codecs, in the order of encoding.
        nbytes: bytes of the array in memory.
        objects_expected: number of stored objects of a completely written array.
        objects_stored: number of stored chunks or shards of the grid; None if the store cannot list.
        bytes_stored: their bytes; None if the store cannot list or does not report sizes.
        objects_outside: number of stored chunks that are not read, because they are outside the grid, or have the keys
            of another chunk key encoding; None if the store cannot list.
        objects_other: number of other objects, without metadata documents; None if the store cannot list.
    """

    type: str = "Array"
    url: str
    zarr_format: int
    store: str
    read_only: bool
    data_type: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    order: str
    fill_value: str
    codecs: tuple[str, ...]
    nbytes: int
    objects_expected: int
    objects_stored: int | None
    bytes_stored: int | None
    objects_outside: int | None
    objects_other: int | None

    @property
    def ratio(self) -> float | None:
        """Bytes in memory / bytes stored; None if the latter are unknown or 0."""
        return self.nbytes / self.bytes_stored if self.bytes_stored else None

    def as_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        facts = _shown_facts(self.as_dict())
        if self.ratio is not None:
            facts.append(("ratio", f"{self.ratio:.2f}"))
        return _table(facts)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


@dataclass(frozen=True, kw_only=True)
class GroupInfo:
    """Information about one group; `str(info)` is a table.

    Attributes:
        type: "Group".
        url: the canonical URL.
        zarr_format: version of the format.
        store: class name of the store.
        read_only: whether writes raise.
        consolidated: whether it has consolidated metadata.
        attributes: number of attributes.
        arrays: number of arrays below it, at any depth; None if the store cannot list.
        groups: number of groups below it, at any depth; None if the store cannot list.
        objects_stored: number of stored chunks and shards of the arrays below it; None if the store cannot list.
        bytes_stored: their bytes; None if the store cannot list or does not report sizes.
        objects_outside, objects_other: as in `ArrayInfo`, of all arrays and groups together.
    """

    type: str = "Group"
    url: str
    zarr_format: int
    store: str
    read_only: bool
    consolidated: bool
    attributes: int
    arrays: int | None
    groups: int | None
    objects_stored: int | None
    bytes_stored: int | None
    objects_outside: int | None
    objects_other: int | None

    def as_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        return _table(_shown_facts(self.as_dict()))

    def _repr_html_(self) -> str:
        return preformatted(str(self))


async def count_objects(access: NodeAccess, arrays: Mapping[str, ArrayMetadata]) -> dict[str, Any]:
    """Return the numbers of the objects below the node by the kind of their keys, and the bytes of its chunks.

    Args:
        access: the node.
        arrays: the arrays at and below the node, by their paths below it.

    Returns:
        the members `objects_stored`, `bytes_stored`, `objects_outside` and `objects_other` of a record; None: unknown.
    """
    if not access.store.supports.listable:
        return dict.fromkeys(("objects_stored", "bytes_stored", "objects_outside", "objects_other"))
    kinds = {path: kinds_of(metadata) for path, metadata in arrays.items()}
    counts, total, sized = Counter[str](), 0, True
    async for entry in access.scheduled.scan(access.prefix):
        key = path = entry.key[len(access.prefix) :]
        while path and path not in kinds:
            path = path.rpartition("/")[0]
        kind = kinds[path](relative_name(key, path)) if path in kinds else kind_of_key(key)
        counts[kind if isinstance(kind, str) else "chunk"] += 1
        if not isinstance(kind, str):
            total += entry.size or 0
            sized = sized and entry.size is not None
    return {
        "objects_stored": counts["chunk"],
        "bytes_stored": total if sized else None,
        "objects_outside": counts["outside"] + counts["misnamed"],
        "objects_other": counts["other"],
    }


def kinds_of(metadata: ArrayMetadata) -> Callable[[str], KeyKind]:
    """Return a function that tells the kind of a key relative to an array."""
    with suppress(MetadataError):
        grid = resolve_grid(metadata.chunk_grid, metadata.shape).shape
        encoding = resolve_key_encoding(metadata.chunk_key_encoding, len(grid))
        if not metadata.storage_transformers:
            return lambda key: kind_of_key(key, grid, encoding)
    # Nobody knows the keys, so all of them count as chunks.
    return lambda key: "document" if kind_of_key(key) == "document" else ()


def kind_of_key(key: str, grid: tuple[int, ...] = (), encoding: ChunkKeyEncoding | None = None) -> KeyKind:
    """Return the coordinates of the chunk that is stored under a key, or what else is stored there.

    Args:
        key: the key relative to the array.
        grid: the shape of the array's grid.
        encoding: the array's encoding of chunk keys; None: the key is not below an array.
    """
    coords = None if encoding is None else encoding.decode(key, len(grid))
    if coords is not None:
        return coords if all([at < length for at, length in zip(coords, grid, strict=True)]) else "outside"
    name = key.rpartition("/")[2]
    if name in PROBE_KEYS or name.startswith(".nc"):  # NCZarr stores documents of its own under such names
        return "document"
    usual = [kind(separator) for kind in (DefaultKeyEncoding, V2KeyEncoding) for separator in "/."]
    is_chunk = encoding is not None and any([each.decode(key, len(grid)) is not None for each in usual])
    return "misnamed" if is_chunk else "other"


def _shown_facts(facts: Mapping[str, object]) -> list[tuple[str, object]]:
    unusual = ("objects_outside", "objects_other")
    return [(name, value) for name, value in facts.items() if value is not None and (value or name not in unusual)]


def _table(facts: Iterable[tuple[str, object]]) -> str:
    return format_table((name.replace("_", " "), _text(name, value)) for name, value in facts)


def _text(name: str, value: object) -> str:
    if name in ("nbytes", "bytes_stored") and isinstance(value, int):
        return format_bytes(value)
    if name == "codecs" and isinstance(value, tuple):
        return " → ".join(value)
    return str(value)


MAX_ATTRIBUTES = 20
MAX_TEXT = 200

_TABLE = '<table style="border-collapse:collapse"><tbody>{rows}</tbody></table>'
_ROW = '<tr><th style="text-align:left;vertical-align:top">{name}</th><td style="text-align:left">{value}</td></tr>'


def table(title: str, facts: Iterable[tuple[str, object]], attributes: Mapping[str, Any]) -> str:
    """Return HTML with the title, a row for each fact, and the attributes collapsed. Text is escaped."""
    rows = "".join(
        [_ROW.format(name=_html_text(name), value=_html_text(value)) for name, value in facts if value is not None]
    )
    parts = [f"<div><strong>{_html_text(title)}</strong></div>", _TABLE.format(rows=rows)]
    if attributes:
        shown = "".join(
            [
                _ROW.format(name=_html_text(name), value=_html_text(repr(value)))
                for name, value in list(attributes.items())[:MAX_ATTRIBUTES]
            ]
        )
        more = len(attributes) - MAX_ATTRIBUTES
        rest = f"<div>and {more} more</div>" if more > 0 else ""
        parts.append(
            f"<details><summary>{len(attributes)} attributes</summary>{_TABLE.format(rows=shown)}{rest}</details>"
        )
    return f"<div>{''.join(parts)}</div>"


def _html_text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    clipped = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    # A lone surrogate cannot be encoded as UTF-8, and would break the notebook's page.
    return escape(clipped.encode("utf-8", "backslashreplace").decode())
