"""What commands print, and progress in plain lines."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from aiozarr.cli import output
from aiozarr.cli.output import Output, progress_text, seconds_text
from aiozarr.common.formatting import readable_bytes
from aiozarr.common.progress import Progress


def test_data_go_to_standard_output_and_talk_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(verbose=1)
    out.record({"a": 1}, "one")
    out.say("two")
    out.detail("three")
    captured = capsys.readouterr()
    assert captured.out == "one\n"
    assert captured.err == "two\nthree\n"


def test_quiet_output_has_data_only(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True, quiet=True)
    out.record({"a": (1, None), "ü": "é"}, "one")
    out.say("two")
    with out.progress("working") as progress:
        assert progress is None
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"a": [1, None], "ü": "é"}
    assert captured.err == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_lines_are_json_in_every_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    record = {"key": "ü 名 \U0001f600 \udc80"}
    with io.TextIOWrapper(written, encoding=encoding, write_through=True) as stream:
        monkeypatch.setattr("sys.stdout", stream)
        Output(as_json=True).record(record, "")
        assert json.loads(written.getvalue().decode(encoding)) == record


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 6.0, 7.0, 12.0])
    monkeypatch.setattr(output, "monotonic", lambda: next(clock))
    with Output().progress("copying") as progress:
        assert progress is not None
        for done in range(1, 5):
            progress(Progress(done, 4, done << 20, 4 << 20))
    assert capsys.readouterr().err.splitlines() == [
        "copying: 2 of 4 objects, 2.0 MiB of 4.0 MiB, 341.3 KiB/s, 6 s left",
        "copying: 4 of 4 objects, 4.0 MiB of 4.0 MiB, 341.3 KiB/s, 0 s left",
    ]


def test_a_bar_has_rate_and_time_left_while_the_total_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    options = {"file": drawn, "force_terminal": True, "width": 120}
    make_bars = output.make_bars
    monkeypatch.setattr(output, "make_bars", lambda: make_bars(**options))
    clock = iter([0.0, 1.0, 1.0, 2.0, 4.0])
    monkeypatch.setattr(output, "monotonic", lambda: next(clock))
    bar = output._Bar("copying")
    for done in (1, 2, 4):
        bar.update(Progress(done, 2 * done, done << 20, 2 * done << 20))
    bar.close()
    assert "1.0 MiB/s" in drawn.getvalue()
    assert "4 s left" in drawn.getvalue()


def test_progress_without_bytes_has_no_time_left() -> None:
    assert progress_text(Progress(0, 3, 0, 100), 0.0) == "0 of 3 objects, 0 B of 100 B, 0 B/s"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (1 << 80, "1048576.0 EiB")],
)
def test_bytes_in_binary_units(count: int, text: str) -> None:
    assert readable_bytes(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1:01 min"), (3723, "1:02:03")])
def test_durations(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


HOSTILE = "a\x1b[0m\x9b2J\u202e\u2028\ud800\n\U000e0001größe"


def test_characters_that_a_terminal_obeys_are_escaped_in_all_streams(capsys: pytest.CaptureFixture[str]) -> None:
    for out in (Output(), Output(as_json=True)):
        out.record({HOSTILE: HOSTILE, "deep": [{"x": (HOSTILE,)}]}, HOSTILE, HOSTILE)
        out.say(HOSTILE)
        out.complain(HOSTILE)
    captured = capsys.readouterr()
    *text, line = captured.out.splitlines()
    assert json.loads(line) == {HOSTILE: HOSTILE, "deep": [{"x": [HOSTILE]}]}
    escaped = "a\\x1b[0m\\x9b2J\\u202e\\u2028\\ud800\\n\\U000e0001größe"
    assert text == [escaped, escaped]
    assert captured.err.splitlines() == 2 * [escaped, f"aiozarr: {escaped}"]
    assert line.isprintable()


def test_floats_that_json_lacks_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).record({"a": [float("nan"), {"b": (float("inf"), -np.float64("inf"), -0.0)}]})
    assert capsys.readouterr().out == '{"a": ["NaN", {"b": ["Infinity", "-Infinity", -0.0]}]}\n'
