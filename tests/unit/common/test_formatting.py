"""Text of records: bytes and seconds in readable units, tables, and names without control characters."""

from __future__ import annotations

import pytest

from aiozarr.common.formatting import (
    clip,
    did_you_mean,
    format_bytes,
    format_count,
    format_seconds,
    format_table,
    preformatted,
    printable,
    shown,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1024 B (1.0 KiB)"), (3 << 40, "3298534883328 B (3.0 TiB)")],
)
def test_bytes_are_readable_and_exact(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_seconds_have_a_unit() -> None:
    assert [format_seconds(each) for each in (0, 0.0031, 2.5)] == ["0.0 ms", "3.1 ms", "2.50 s"]


def test_a_table_has_one_line_per_fact_whatever_the_names_are() -> None:
    assert format_table([("a", "1"), ("long\n", "\x1b[31m2")]) == "a      : 1\nlong\\n : \\x1b[31m2"


def test_names_are_escaped_for_terminals_and_pages() -> None:
    assert printable("t°\n\x1b") == "t°\\n\\x1b"
    assert preformatted("<b>\udc80") == "<pre>&lt;b&gt;\\udc80</pre>"


def test_one_thing_has_no_plural() -> None:
    assert [format_count(each, "array") for each in (0, 1, 2000)] == ["0 arrays", "1 array", "2,000 arrays"]


def test_the_nearest_name_is_suggested_if_one_is_similar() -> None:
    assert did_you_mean("zsdt", ["gzip", "zstd"]) == "did you mean 'zstd'?"
    assert did_you_mean("qqq", ["gzip"], "known: gzip") == "known: gzip"
    assert did_you_mean(5, []) == ""


def test_texts_of_any_size_are_shown_in_part() -> None:
    assert (clip("a" * 5, 3), clip("a" * 3, 3)) == ("aaa…", "aaa")
    assert shown("a" * 100) == f"'{'a' * 59}…"
    assert shown(10**5000) == "an integer of thousands of digits"
