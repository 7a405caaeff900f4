"""Every test that a page names exists; every mistake and every promise has one, or a reason why it has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.fault_table import is_test

ROOT = Path(__file__).parents[2]
ENTRIES = dict(
    re.findall(r"^### (\w+): (.*?)(?=^##|\Z)", (ROOT / "docs/correctness.md").read_text(), re.DOTALL | re.MULTILINE)
)


def named_tests(text: str) -> list[str]:
    return re.findall(r"`(tests/[\w/]+\.py::\w+)`", text)


@pytest.mark.parametrize("number", ENTRIES)
def test_the_tests_of_a_mistake_exist(number: str) -> None:
    tests = named_tests(ENTRIES[number])
    assert [test for test in tests if not is_test(test)] == [], "correct the names of tests in docs/correctness.md"
    has_state = re.search(r"\*\*State\.\*\* (Decided|Open)", ENTRIES[number])
    assert tests or has_state, "name the test that holds it, or say **State.** Decided or Open and why"


def test_each_number_is_there_once() -> None:
    text = (ROOT / "docs/correctness.md").read_text()
    assert len(re.findall(r"^### ", text, re.MULTILINE)) == len(ENTRIES), (
        "number each mistake of docs/correctness.md once"
    )


def test_each_promise_has_tests_that_exist() -> None:
    text = (ROOT / "docs/reference/guarantees.md").read_text("utf-8")
    promises = [line for line in text.splitlines() if line.startswith("| ") and line != "| promise | test |"]
    assert len(promises) > 40
    for promise in promises:
        tests = named_tests(promise)
        assert tests, f"name the test that shows it: {promise}"
        assert [test for test in tests if not is_test(test)] == [], "correct the names in docs/reference/guarantees.md"
