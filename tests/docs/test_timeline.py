"""The picture of a read: a row per request, bars in proportion to their times, text that cannot break the document."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from aiozarr.errors import StoreError
from aiozarr.model import Range, Suffix
from aiozarr.schedule.events import RequestEvent
from scripts.timeline import MAX_ROWS, timeline_svg

SVG = "{http://www.w3.org/2000/svg}"
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_timeline.py"


def event(key: str, *, started: float, seconds: float = 1.0, **fields: object) -> RequestEvent:
    whole: dict[str, object] = {
        "operation": "fetch",
        "store": "memory://a",
        "key": key,
        "range": None,
        "bytes_wanted": 4,
        "bytes_fetched": 4,
        "attempts": 1,
        **fields,
    }
    return RequestEvent(started=started, seconds=seconds, **whole)  # type: ignore[arg-type]  # fields are the test's


def bars(svg: str, kind: str) -> list[tuple[float, float]]:
    """Where the bars of this kind begin, and how wide they are."""
    return [
        (float(each.attrib["x"]), float(each.attrib["width"]))
        for each in ET.fromstring(svg).iter(f"{SVG}rect")
        if each.attrib.get("class") == kind
    ]


def titles(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter(f"{SVG}title")]


def test_bars_are_in_proportion_to_their_times() -> None:
    first = event("c/0", started=10.0, seconds=1.0, chunks=1, decode_started=11.5, decode_ended=12.0)
    second = event("c/1", started=11.0, seconds=0.5, queue_seconds=1.0, range=Range(4, 4))
    svg = timeline_svg([second, first])
    (_, none), (left, waited) = bars(svg, "waiting")
    (start, whole), (later, half) = bars(svg, "fetching")
    ((decoded, width),) = bars(svg, "decoding")
    assert none == 0
    assert left == start  # both begin where the axis does
    assert waited == pytest.approx(whole)
    assert half == pytest.approx(whole / 2, abs=0.01)
    assert later == pytest.approx(start + whole, abs=0.02)
    assert decoded - start == pytest.approx(1.5 * whole, abs=0.02)
    assert width == pytest.approx(whole / 2, abs=0.01)
    assert titles(svg)[1].startswith("fetch c/1 4-7: 4 bytes, waited 1000.0 ms")


def test_a_failed_request_has_another_colour() -> None:
    svg = timeline_svg([event("c/0", started=1.0, error=StoreError("no"), attempts=3, range=Suffix(8))])
    assert not bars(svg, "fetching")
    assert len(bars(svg, "failed")) == 1
    assert titles(svg)[0].endswith("sent 3 times, StoreError")


def test_keys_cannot_break_the_document() -> None:
    svg = timeline_svg([event('<a&"b', started=1.0)], title="<&>")
    assert titles(svg)[0].startswith('fetch <a&"b:')


def test_without_requests_the_picture_has_a_note() -> None:
    svg = timeline_svg([])
    assert "0 requests in 0 ms" in svg
    assert not titles(svg)


def test_of_many_requests_the_first_are_drawn_in_a_picture_of_bounded_height() -> None:
    svg = timeline_svg([event(f"c/{number}", started=1.0 + number) for number in range(MAX_ROWS + 50)])
    assert len(bars(svg, "fetching")) == MAX_ROWS
    assert f"{MAX_ROWS + 50} requests in" in svg
    assert float(ET.fromstring(svg).attrib["height"]) < 1000


def test_a_request_without_seconds_of_its_own_has_no_bar() -> None:
    assert not titles(timeline_svg([event("c/0", started=1.0, seconds=0.0)]))


def test_the_script_draws_a_real_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tmp_path / "timeline.svg"
    monkeypatch.setattr(sys, "argv", ["make_timeline.py", str(picture)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    svg = picture.read_text("utf-8")
    # 8 indexes, one of them of a shard that is not stored, and 2 inner chunks of each of the others.
    assert len(bars(svg, "fetching")) == 8 + 7 * 2
    assert len(bars(svg, "decoding")) == 7 * 2


def test_characters_that_xml_cannot_write_do_not_break_the_picture() -> None:
    key = 'a\x01\x0b\ufffe<&>"]]>\U0001f600'
    svg = timeline_svg([event(key, started=1.0)], title="\x02 of \ud800")
    svg.encode()
    (title,) = titles(svg)
    assert 'a\ufffd\ufffd\ufffd<&>"]]>\U0001f600' in title
    assert "\ufffd of \ufffd" in svg
