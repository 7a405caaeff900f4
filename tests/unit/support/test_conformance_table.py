"""Results of the store contract become a table: what passed, what was refused, and why something was left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.conformance_table import ContractCase, ContractTable
from tests.support.generated_part import COMPATIBILITY, write_part


def cases(store: str, chapter: str, outcomes: dict[str, int], reason: str = "", server: str = "moto") -> ContractTable:
    matrix = ContractTable()
    for outcome, count in outcomes.items():
        for number in range(count):
            matrix.add(ContractCase(store, server, "5.2", chapter, f"statement {number}"), outcome, reason)
    return matrix


def row(matrix: ContractTable) -> list[str]:
    line = next(line for line in matrix.part().splitlines() if line.startswith("| A"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_cell_counts_passed_tests() -> None:
    assert row(cases("A", "reading", {"passed": 3})) == ["A", "moto 5.2", "3", "–", "–", "–", "–", "–", "–"]


def test_a_cell_shows_the_total_if_tests_were_skipped_and_a_table_has_the_reasons() -> None:
    matrix = cases("A", "lifecycle", {"passed": 2, "skipped": 1}, "A does not pickle")
    assert row(matrix)[-1] == "2 of 3"
    assert "| pickle: 1 | A on moto |" in matrix.part()


def test_stores_that_lack_the_same_share_a_row_of_what_was_left_out() -> None:
    matrix = cases("A", "listing", {"passed": 1, "skipped": 2}, "A does not support listable")
    for outcome in ("passed", "skipped", "skipped"):
        matrix.add(ContractCase("B", "", "", "listing", "statement"), outcome, "B does not support listable")
    assert "| listable: 2 | A on moto; B |" in matrix.part()


def test_a_failure_is_not_to_be_overlooked() -> None:
    assert row(cases("A", "reading", {"passed": 2, "failed": 1}))[2] == "1 of 3 FAILED"


def test_refusals_alone_are_refusals() -> None:
    matrix = cases("A", "listing", {"skipped": 4}, "A does not support listable")
    matrix.add(ContractCase("A", "moto", "", "listing", "what cannot be listed says so"), "passed")
    assert row(matrix)[7] == "refused"


@pytest.mark.parametrize("reason", ["A can be listed", "A is not a BlockingStore"])
def test_statements_about_other_kinds_of_stores_count_as_tested(reason: str) -> None:
    matrix = cases("A", "listing", {"skipped": 1}, reason)
    matrix.add(ContractCase("A", "moto", "", "listing", "an empty store lists nothing"), "passed")
    assert row(matrix)[7] == "1"


def test_statements_outside_of_the_suite_stand_in_a_table_of_their_own() -> None:
    matrix = cases("A", "reading", {"passed": 1})
    matrix.add(ContractCase("B", "s3rver", "3.7", "", "a range gives its own bytes or an error"), "passed")
    assert "| a range gives its own bytes or an error | yes |" in matrix.part()
    assert "| B |" not in matrix.part()


def test_a_part_of_a_page_is_replaced_and_the_rest_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- begin: a -->\nold\n<!-- end: a -->\n\nText\n")
    write_part(page, "a", "new\n")
    assert page.read_text() == "# Page\n\n<!-- begin: a -->\n\nnew\n\n<!-- end: a -->\n\nText\n"
    with pytest.raises(AssertionError, match="needs the comments"):
        write_part(page, "b", "new\n")


@pytest.mark.parametrize("part", ["implementations", "arrays", "stores"])
def test_the_page_of_compatibility_has_the_parts_that_runs_write(part: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(COMPATIBILITY.read_text("utf-8"), "utf-8")
    write_part(page, part, "new")
