"""Every test that the page about mistakes names exists, and every mistake has one or a reason why it has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRIES = dict(
    re.findall(r"^### (\w+): (.*?)(?=^##|\Z)", (ROOT / "docs/correctness.md").read_text(), re.DOTALL | re.MULTILINE)
)


@pytest.mark.parametrize("number", ENTRIES)
def test_the_tests_of_a_mistake_exist(number: str) -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", ENTRIES[number])
    for file, name in tests:
        assert re.search(rf"^ *(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"
    assert tests or re.search(r"\*\*State\.\*\* (Decided|Open)", ENTRIES[number])


def test_each_number_is_there_once() -> None:
    text = (ROOT / "docs/correctness.md").read_text()
    assert len(re.findall(r"^### ", text, re.MULTILINE)) == len(ENTRIES)
