"""Results of the store contract become a table: what passed, what was refused, and why something was left out."""

from __future__ import annotations

from matrix import Case, Matrix


def cases(store: str, chapter: str, outcomes: dict[str, int], reason: str = "", server: str = "moto") -> Matrix:
    matrix = Matrix()
    for outcome, count in outcomes.items():
        for number in range(count):
            matrix.add(Case(store, server, "5.2", chapter, f"statement {number}"), outcome, reason)
    return matrix


def row(matrix: Matrix) -> list[str]:
    line = next(line for line in matrix.page().splitlines() if line.startswith("| A"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_cell_counts_what_passed() -> None:
    assert row(cases("A", "reading", {"passed": 3})) == ["A", "moto 5.2", "3", "–", "–", "–", "–", "–", "–"]


def test_a_cell_says_of_how_many_where_some_were_left_out_and_the_page_says_why() -> None:
    matrix = cases("A", "life", {"passed": 2, "skipped": 1}, "A does not pickle")
    assert row(matrix)[-1] == "2 of 3"
    assert "- A on moto: 1 – A does not pickle" in matrix.page()


def test_a_failure_is_not_to_be_overlooked() -> None:
    assert row(cases("A", "reading", {"passed": 2, "failed": 1}))[2] == "1 of 3 FAILED"


def test_refusals_alone_are_refusals() -> None:
    matrix = cases("A", "listing", {"skipped": 4}, "A does not support listable")
    matrix.add(Case("A", "moto", "", "listing", "what cannot be listed says so"), "passed")
    assert row(matrix)[7] == "refused"


def test_what_is_stated_of_stores_of_another_kind_is_not_left_out() -> None:
    matrix = cases("A", "listing", {"skipped": 1}, "A can be listed")
    matrix.add(Case("A", "moto", "", "listing", "an empty store lists nothing"), "passed")
    assert row(matrix)[7] == "1"


def test_statements_outside_of_the_suite_stand_in_a_table_of_their_own() -> None:
    matrix = cases("A", "reading", {"passed": 1})
    matrix.add(Case("B", "s3rver", "3.7", "", "a range gives its own bytes or an error"), "passed")
    assert "| a range gives its own bytes or an error | yes |" in matrix.page()
    assert "| B |" not in matrix.page()
