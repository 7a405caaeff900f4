"""The HTML of nodes in notebooks: a table of facts, and a small drawing of an array's chunk grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from aiozarr.grid import ChunkGrid

PICTURE_PIXELS = 160
"""Length of the drawing's longer side in pixels."""
MAX_LINES = 32
"""Chunk boundaries drawn along one axis. Of more boundaries, every n-th is drawn."""
MAX_ATTRIBUTES = 20
MAX_TEXT = 200

_TABLE = '<table style="border-collapse:collapse"><tbody>{rows}</tbody></table>'
_ROW = '<tr><th style="text-align:left;vertical-align:top">{name}</th><td style="text-align:left">{value}</td></tr>'


def table(title: str, facts: Iterable[tuple[str, object]], attributes: Mapping[str, Any], drawing: str = "") -> str:
    """Return HTML: the title, one row per fact, the attributes collapsed, `drawing` beside them. Escapes text."""
    rows = "".join([_ROW.format(name=_text(name), value=_text(value)) for name, value in facts if value is not None])
    parts = [f"<div><strong>{_text(title)}</strong></div>", _TABLE.format(rows=rows)]
    if attributes:
        shown = "".join(
            [
                _ROW.format(name=_text(name), value=_text(repr(value)))
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
        f'viewBox="-1 -1 {width + 2} {height + 20}" role="img"><title>{_text(caption)}</title>'
        f'<rect x="0" y="0" width="{width}" height="{height}" fill="#8fb8de" stroke="#333"/>'
        f'<g stroke="#333" stroke-opacity="0.5" stroke-width="0.5">{"".join(lines)}</g>'
        f'<text x="0" y="{height + 14}" font-size="11" fill="currentColor">{_text(caption)}</text></svg>'
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


def _text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    clipped = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    # A lone surrogate cannot be encoded as UTF-8, and would break the notebook's page.
    return escape(clipped.encode("utf-8", "backslashreplace").decode())
