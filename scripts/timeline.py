"""An SVG timeline of a read: a bar of waiting, fetching and decoding for each request.

events = []
settings = aiozarr.Settings(on_event=events.append)
...
Path("timeline.svg").write_text(timeline_svg(events))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape as escape_markup
from itertools import count, takewhile

from aiozarr.schedule.events import RequestEvent
from aiozarr.stores import Range, Suffix

WIDTH = 900
LABELS = 210
MARGIN = 16
HEAD = 52
FOOT = 34
MAX_ROWS = 400
"""Of more requests than these the first are drawn."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

COLOURS = {"waiting": "#d4d4d8", "fetching": "#3b82f6", "decoding": "#f59e0b", "failed": "#dc2626"}


def timeline_svg(events: Iterable[RequestEvent], *, title: str = "") -> str:
    """Return the picture of `events` as an SVG document.

    A row is a request, in the order in which they were sent: grey while it waits for its turn, blue from the first try
    to the end of the answer (red where that is an error), orange from the first of its chunks that a worker begins with
    to the last that is done. The time axis begins with the first wait. Requests that were sent on the way of others,
    which have no seconds of their own, are left out.
    """
    drawn = sorted([event for event in events if event.seconds > 0], key=lambda event: event.started)
    rows = drawn[:MAX_ROWS]
    begin = min([event.started - event.queue_seconds for event in rows], default=0.0)
    end = max([_end(event) for event in rows], default=begin)
    step = max(2.0, min(16.0, 640 / max(1, len(rows))))
    height = HEAD + round(step * len(rows)) + FOOT
    scale = (WIDTH - LABELS - MARGIN) / max(end - begin, 1e-9)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        '<g font-family="sans-serif" font-size="11" fill="#27272a">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="20" font-size="13">{escape(title or _summary(drawn, rows, end - begin))}</text>',
        *_legend(),
        *_axis(begin, end, scale, height),
    ]
    for number, event in enumerate(rows):
        parts += _row(event, HEAD + number * step, step, begin, scale)
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def escape(text: str) -> str:
    """Return `text` as XML; keys may hold characters that it has no way to write."""
    return escape_markup(_NO_XML.sub("\ufffd", text))


def _end(event: RequestEvent) -> float:
    return max(event.started + event.seconds, event.decode_ended)


def _summary(drawn: Sequence[RequestEvent], rows: Sequence[RequestEvent], seconds: float) -> str:
    shown = "" if len(rows) == len(drawn) else f" (the first {len(rows)} are drawn)"
    return f"{len(drawn)} requests in {seconds * 1000:.0f} ms{shown}"


def _legend() -> Iterator[str]:
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = LABELS + 90 * number
        yield f'<rect x="{x}" y="32" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="41">{name}</text>'


def _axis(begin: float, end: float, scale: float, height: int) -> Iterator[str]:
    step = _tick(end - begin)
    ticks = takewhile(lambda at: at <= (end - begin) * 1.0001, (number * step for number in count()))
    for at in ticks if end > begin else ():
        x = LABELS + at * scale
        yield f'<line x1="{x:.1f}" y1="{HEAD - 4}" x2="{x:.1f}" y2="{height - FOOT + 6}" stroke="#e4e4e7"/>'
        yield f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{at * 1000:g} ms</text>'


def _tick(seconds: float) -> float:
    """Return the time between two marks of the axis: 1, 2 or 5 of a power of ten, at most 10 of them."""
    exponent = -6
    while True:
        for digit in (1, 2, 5):
            step = digit * 10.0**exponent
            if step * 10 >= seconds:
                return step
        exponent += 1


def _row(event: RequestEvent, y: float, step: float, begin: float, scale: float) -> Iterator[str]:
    yield f"<g><title>{escape(_describe(event))}</title>"
    if step >= 9:
        yield f'<text x="{MARGIN}" y="{y + step * 0.75:.1f}" font-size="9">{escape(_label(event))}</text>'
    ended = event.started + event.seconds
    bars = [
        ("waiting", event.started - event.queue_seconds, event.started),
        ("fetching" if event.error is None else "failed", event.started, ended),
    ]
    if event.decode_ended:
        bars.append(("decoding", event.decode_started, event.decode_ended))
    for name, start, stop in bars:
        x, width = LABELS + (start - begin) * scale, max(0.0, stop - start) * scale
        # What is short is seen all the same.
        width = max(width, 1.0) if name != "waiting" else width
        yield (
            f'<rect class="{name}" x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{step * 0.8:.1f}" '
            f'fill="{COLOURS[name]}"/>'
        )
    yield "</g>"


def _label(event: RequestEvent) -> str:
    text = f"{event.operation} {event.key}{_part(event)}"
    return text if len(text) <= 36 else f"...{text[-33:]}"


def _describe(event: RequestEvent) -> str:
    times = f"waited {event.queue_seconds * 1000:.1f} ms, fetched in {event.seconds * 1000:.1f} ms"
    if event.chunks:
        times += f", {event.chunks} chunks decoded in {event.decode_seconds * 1000:.1f} ms of workers"
    tries = "" if event.attempts == 1 else f", sent {event.attempts} times"
    failed = "" if event.error is None else f", {type(event.error).__name__}"
    nbytes = event.bytes_fetched + event.bytes_written
    return f"{event.operation} {event.key}{_part(event)}: {nbytes} bytes, {times}{tries}{failed}"


def _part(event: RequestEvent) -> str:
    match event.range:
        case Range(start, length):
            return f" {start}-{'' if length is None else start + length - 1}"
        case Suffix(length):
            return f" last {length}"
        case _:
            return ""
