"""The tables of faults name tests that exist, and their page has the results of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import fault_table
from tests.support.fault_table import PAGE, FaultResults, FaultRow, fault_rows, is_test, page_text

ROWS = [*(f"F{number:02}" for number in range(1, 81)), *(f"H{number:02}" for number in range(1, 77))]


def test_all_rows_are_there_in_order() -> None:
    assert list(fault_rows()) == ROWS, "keep the rows of tests/support/faults.toml in order, and add new ones to ROWS"


@pytest.mark.parametrize("number", ROWS)
def test_a_row_has_tests_that_exist_or_a_reason(number: str) -> None:
    row = fault_rows()[number]
    assert row.tests or row.reason, f"name tests of {number} in tests/support/faults.toml, or a reason why it has none"
    assert [test for test in row.tests if not is_test(test)] == [], "correct the names in tests/support/faults.toml"


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("tests/contract/test_s3.py::test_of_racing_creators_one_wins", True),
        ("tests/faults/test_s3.py::test_of_racing_creators_one_wins", False),
        ("tests/faults/test_s4.py::test_a_missing_key_reads_as_the_fill_value", False),
    ],
)
def test_a_test_exists_in_its_file_or_in_the_suite_of_contracts(name: str, *, exists: bool) -> None:
    assert is_test(name) is exists


def test_the_page_has_the_present_rows_and_a_result_of_each() -> None:
    text = PAGE.read_text("utf-8")
    assert text == page_text({}), "run: AIOZARR_WRITE_TABLE=1 make test"
    missing = any(result in text for result in ("| not run |", "| FAILED |"))
    assert not missing, "mend the failed tests, and run: AIOZARR_WRITE_TABLE=1 make test"


def test_a_row_has_passed_when_all_its_tests_have() -> None:
    results = FaultResults()
    one, two = fault_rows()["F02"].tests
    row = FaultRow("f", "o", (one, two))
    results.add(one + "[a]", "passed")
    assert results.result(row) is None
    results.add(two.replace("::", "::TestSome::") + "[b::c]", "skipped", "needs a server")
    assert results.result(row) == "needs a server"
    results.add(two, "passed")
    assert results.result(row) == "passed"
    results.add(one + "[b]", "failed")
    assert results.result(row) == "FAILED"


def test_rows_that_were_not_run_keep_their_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "faults.md"
    monkeypatch.setattr(fault_table, "PAGE", page)
    for number in ("F17", "F23", "F70"):
        results = FaultResults()
        for test in fault_rows()[number].tests:
            results.add(test, "failed" if number == "F23" else "passed")
        assert results.write_page() == page
    ends = {
        line[2:5]: line.split(" | ")[-1].removesuffix(" |") for line in page.read_text().splitlines() if "::" in line
    }
    assert (ends["F17"], ends["F23"], ends["F70"], ends["F01"]) == ("passed", "FAILED", "passed", "not run")
    assert len(ends) == len(ROWS)
