"""Information about an array or a group: records that print as tables, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any

from aiozarr.common.formatting import format_bytes, format_table, preformatted
from aiozarr.grid.chunk_grid import ChunkGrid
from aiozarr.hierarchy.node_access import NodeAccess
from aiozarr.metadata.formats import PROBE_KEYS


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
        objects_stored: number of stored chunks or shards; None if the store cannot list.
        bytes_stored: their bytes; None if the store cannot list or does not report sizes.
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

    @property
    def ratio(self) -> float | None:
        """Bytes in memory / bytes stored; None if the latter are unknown or 0."""
        return self.nbytes / self.bytes_stored if self.bytes_stored else None

    def as_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        facts = [(name, value) for name, value in self.as_dict().items() if value is not None]
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
        objects_stored: number of stored chunks and shards below it; None if the store cannot list.
        bytes_stored: their bytes; None if the store cannot list or does not report sizes.
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

    def as_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        return _table([(name, value) for name, value in self.as_dict().items() if value is not None])

    def _repr_html_(self) -> str:
        return preformatted(str(self))


async def count_objects(access: NodeAccess) -> tuple[int | None, int | None]:
    """Return the number and bytes of the stored objects of the node, without metadata documents; None: unknown."""
    if not access.store.supports.listable:
        return None, None
    count, total, sized = 0, 0, True
    async for entry in access.scheduled.scan(access.prefix):
        if not _is_document(entry.key.rpartition("/")[2]):
            count += 1
            total += entry.size or 0
            sized = sized and entry.size is not None
    return count, total if sized else None


def _is_document(name: str) -> bool:
    # NCZarr stores documents of its own under such names.
    return name in PROBE_KEYS or name.startswith(".nc")


def _table(facts: Iterable[tuple[str, object]]) -> str:
    return format_table((name.replace("_", " "), _text(name, value)) for name, value in facts)


def _text(name: str, value: object) -> str:
    if name in ("nbytes", "bytes_stored") and isinstance(value, int):
        return format_bytes(value)
    if name == "codecs" and isinstance(value, tuple):
        return " → ".join(value)
    return str(value)


PICTURE_PIXELS = 160
"""Length of the drawing's longer side in pixels."""
MAX_LINES = 32
"""Chunk boundaries drawn along one axis. If there are more, only every n-th is drawn."""
MAX_ATTRIBUTES = 20
MAX_TEXT = 200

_TABLE = '<table style="border-collapse:collapse"><tbody>{rows}</tbody></table>'
_ROW = '<tr><th style="text-align:left;vertical-align:top">{name}</th><td style="text-align:left">{value}</td></tr>'


def table(title: str, facts: Iterable[tuple[str, object]], attributes: Mapping[str, Any], drawing: str = "") -> str:
    """Return HTML: the title, one row per fact, the attributes collapsed, `drawing` beside them. Escapes text."""
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
    body = f"<div>{''.join(parts)}</div>"
    return f'<div style="display:flex;gap:2em;align-items:flex-start">{body}{drawing}</div>'


def grid_svg(grid: ChunkGrid) -> str:
    """Return an SVG of the grid of stored objects along the last two dimensions, or "" for an empty array."""
    lengths = grid.array_shape
    if not lengths or 0 in lengths:
        return ""
    axes = range(max(0, len(lengths) - 2), len(lengths))
    height, width = _sizes([lengths[axis] for axis in axes])
    xs = _positions(grid.edges(axes[-1]), lengths[axes[-1]], width)
    ys = _positions(grid.edges(axes[0]), lengths[axes[0]], height) if len(axes) == 2 else []
    lines = [f'<line x1="0" y1="{y}" x2="{width}" y2="{y}"/>' for y in ys]
    lines += [f'<line x1="{x}" y1="0" x2="{x}" y2="{height}"/>' for x in xs]
    caption = " × ".join([str(lengths[axis]) for axis in axes])
    if len(lengths) > 2:
        caption = f"the last two of {len(lengths)} dimensions: {caption}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2}" height="{height + 20}" '
        f'viewBox="-1 -1 {width + 2} {height + 20}" role="img"><title>{_html_text(caption)}</title>'
        f'<rect x="0" y="0" width="{width}" height="{height}" fill="#8fb8de" stroke="#333"/>'
        f'<g stroke="#333" stroke-opacity="0.5" stroke-width="0.5">{"".join(lines)}</g>'
        f'<text x="0" y="{height + 14}" font-size="11" fill="currentColor">{_html_text(caption)}</text></svg>'
    )


def _sizes(lengths: Sequence[int]) -> tuple[float, float]:
    """Return height and width in pixels, each at least 20."""
    height, width = (lengths[0], lengths[1]) if len(lengths) == 2 else (0, lengths[0])
    longest = max(height, width)
    return tuple([round(max(20.0, PICTURE_PIXELS * side / longest), 1) for side in (height, width)])  # type: ignore[return-value]


def _positions(edges: Sequence[int], length: int, pixels: float) -> list[float]:
    count = len(edges) - 1
    step = -(-count // MAX_LINES)
    return [round(edges[i] / length * pixels, 1) for i in range(step, count, step) if edges[i] < length]


def _html_text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    clipped = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    # A lone surrogate cannot be encoded as UTF-8, and would break the notebook's page.
    return escape(clipped.encode("utf-8", "backslashreplace").decode())
