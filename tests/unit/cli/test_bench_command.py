"""bench: what it derives from measurements."""

from __future__ import annotations

from pathlib import Path

from aiozarr.cli.bench_command import Sample, recommend
from tests.support.command_line import invoke, records, succeed


def test_bench_prints_latency_rates_and_settings(sample: Path) -> None:
    found = records("bench", "--seconds", "0.01", "--max-requests", "4", sample)
    assert [each["type"] for each in found] == ["latency", *["rate"] * 4, "settings"]
    assert [each["concurrency"] for each in found if each["type"] == "rate"] == [1, 4, 1, 4]
    assert all(each["bytes"] > 0 for each in found if each["type"] == "rate")
    assert "settings" in succeed("bench", "--seconds", "0.01", "--max-requests", "1", sample).stdout


def test_the_fewest_requests_that_are_about_as_fast_as_more() -> None:
    small = [Sample("small", n, rate, 0, 1.0) for n, rate in ((1, 20), (4, 80), (16, 300), (64, 310))]
    large = [Sample("large", n, rate, rate * 1000, 1.0) for n, rate in ((1, 10), (4, 11), (16, 40), (64, 41))]
    record, text = recommend([0.05] * 10, [*small, *large])
    assert record == {"type": "settings", "max_requests": 16, "gap": 133}
    assert "max_requests=16" in text


def test_nothing_to_read(tmp_path: Path) -> None:
    assert invoke("bench", tmp_path / "none").exit_code == 3
