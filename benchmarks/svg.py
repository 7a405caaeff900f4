"""A curve with two logarithmic axes as a small SVG that follows the page's colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

WIDTH, HEIGHT, MARGIN = 560, 280, 56
FONT = 'font-family="sans-serif" font-size="11" fill="#777"'
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
Points = Sequence[tuple[float, float]]


def picture(title: str, across: str, up: str, curves: Mapping[str, Points]) -> str:
    """Return the curves; points that are not above 0 are left out, since a logarithmic axis has no place for them."""
    kept = {name: [(x, y) for x, y in points if x > 0 and y > 0] for name, points in curves.items()}
    everything = [point for points in kept.values() for point in points]
    if not everything:
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"/>\n'
    left, right = _decades([x for x, _ in everything])
    low, high = _decades([y for _, y in everything])

    def place(x: float, y: float) -> tuple[float, float]:
        along = (log10(x) - left) / (right - left)
        height = (log10(y) - low) / (high - low)
        return MARGIN + along * (WIDTH - MARGIN - 16), HEIGHT - 44 - height * (HEIGHT - 44 - 34)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<text x="{MARGIN}" y="16" font-size="13">{title}</text>',
        f'<text x="{WIDTH - 16}" y="{HEIGHT - 6}" text-anchor="end">{across}</text>',
        f'<text x="4" y="30">{up}</text>',
    ]
    for decade in range(left, right + 1):
        x, top = place(10.0**decade, 10.0**high)
        _, bottom = place(10.0**decade, 10.0**low)
        lines.append(f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="#8884"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 14:.1f}" text-anchor="middle">{_power(decade)}</text>')
    for decade in range(low, high + 1):
        x, y = place(10.0**left, 10.0**decade)
        end, _ = place(10.0**right, 10.0**decade)
        lines.append(f'<path d="M{x:.1f} {y:.1f}H{end:.1f}" stroke="#8884"/>')
        lines.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{_power(decade)}</text>')
    for number, (name, points) in enumerate(kept.items()):
        colour = COLOURS[number % len(COLOURS)]
        way = " ".join(["{:.1f},{:.1f}".format(*place(x, y)) for x, y in points])
        lines.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="{MARGIN + 8 + 130 * number}" y="46" fill="{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _decades(numbers: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(min(numbers))), ceil(log10(max(numbers)))
    return low, max(high, low + 1)


def _power(decade: int) -> str:
    return f"{10**decade:,}" if 0 <= decade <= 4 else f"{10.0**decade:g}"
