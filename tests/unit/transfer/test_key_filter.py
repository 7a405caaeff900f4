"""Patterns that select the keys of a copy."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from aiozarr.transfer.copy_rules import KeyFilter

KEYS = ["zarr.json", "air/zarr.json", "air/c/0/0", "air/c/0/1", "wind/zarr.json", "wind/c/0", "[x]/c", "ä\n/c"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), KEYS),
        ("air/*", (), KEYS[1:4]),
        (["air/*"], "*.json", KEYS[2:4]),
        ("*zarr.json", (), [KEYS[0], KEYS[1], KEYS[4]]),
        (["air/c/?/0", "wind/*"], (), [KEYS[2], *KEYS[4:6]]),
        ("air/c/0/[!0]", (), [KEYS[3]]),
        ("[[]x]/*", (), ["[x]/c"]),
        ("ä?/*", (), ["ä\n/c"]),
        ("AIR/*", (), []),
        ((), "*", []),
        ("air", (), []),
    ],
)
def test_patterns_are_those_of_the_shell_and_match_slashes(include: Any, exclude: Any, expected: list[str]) -> None:
    keys = KeyFilter(include, exclude)
    assert [key for key in KEYS if keys.matches(key)] == expected


def test_a_filter_without_patterns_is_false() -> None:
    assert not KeyFilter()
    assert KeyFilter(exclude="x")


@pytest.mark.parametrize(
    ("pattern", "error"), [("", ValueError), ("/air", ValueError), ("x" * 1025, ValueError), (3, TypeError)]
)
def test_patterns_that_match_nothing_are_mistakes(pattern: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="include"):
        KeyFilter([pattern])


def test_a_pattern_of_many_stars_is_matched_in_bounded_time() -> None:
    keys = KeyFilter("*a" * 400 + "*b")
    begun = process_time()
    assert not keys.matches("a" * 1024)
    # Backtracking would take longer than the universe has existed.
    assert process_time() - begun < 60
