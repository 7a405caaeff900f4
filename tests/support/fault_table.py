"""The tables of faults and of hostile input, with the results of the tests that show each row."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SUITE = _ROOT / "src" / "aiozarr" / "testing" / "conformance"
PAGE = _ROOT / "docs" / "reference" / "faults.md"
INTRODUCTION = """# Faults and hostile input

This page lists what can go wrong between aiozarr and stored data, the result of each fault, and the tests that show it.
[Errors](errors.md) describes the error classes, and [guarantees](guarantees.md) has the general promises.

The last column is the result of a test run: `AIOZARR_WRITE_TABLE=1 make test` writes it. The rows come from
`tests/support/faults.toml`, and the tests refer to them by number.
"""
CHAPTERS = {
    "F": """
## Faults

Networks, servers, disks and processes fail.

""",
    "H": """
## Hostile input

A stranger controls documents, chunks, archives, listings and responses. All errors are typed, nothing is written, and
memory is [bounded](limits.md). [Security](../explanation/security.md) has the rules behind these rows.

""",
}
"""The text above the rows of a letter."""

HEADS = {"F": "what goes wrong", "H": "input"}


@dataclass(frozen=True)
class FaultRow:
    """A row of the tables.

    Attributes:
        fault: what goes wrong, or comes in.
        outcome: what aiozarr does then.
        tests: the tests that show it, each as `file::function`.
        reason: why there are none, or what they leave open.
        section: the heading above the row, if it is the first below it.
    """

    fault: str
    outcome: str
    tests: tuple[str, ...] = ()
    reason: str = ""
    section: str = ""


@cache
def fault_rows() -> dict[str, FaultRow]:
    """Return the rows by their numbers."""
    rows = tomllib.loads(Path(__file__).with_name("faults.toml").read_text("utf-8"))
    sections = rows.pop("sections")
    return {
        number: FaultRow(**{**row, "tests": tuple(row.get("tests", ()))}, section=sections.get(number, ""))
        for number, row in rows.items()
    }


def is_test(name: str) -> bool:
    """Return whether there is a test of this name, `file::function`. Tests of contracts inherit from the suite."""
    file, _, function = name.partition("::")
    paths = [_ROOT / file, *(_SUITE.glob("*.py") if file.startswith("tests/contract/") else ())]
    return paths[0].exists() and any(function in _functions(path) for path in paths)


@cache
def _functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


class FaultResults:
    """The results of one run."""

    def __init__(self) -> None:
        self._named = {test for row in fault_rows().values() for test in row.tests}
        self._outcomes: dict[str, set[str]] = defaultdict(set)

    def add(self, nodeid: str, outcome: str, reason: str = "") -> None:
        """Count a result of a test; `outcome` is pytest's word for it, `reason` says why it was skipped."""
        test = re.sub(r"::(?:\w+::)*(\w+).*", r"::\1", nodeid)
        if test in self._named:
            self._outcomes[test].add(reason if outcome == "skipped" else outcome)

    def result(self, row: FaultRow) -> str | None:
        """Return `passed`, `FAILED` or why tests were skipped; None if not all tests of the row were run.

        A test with parameters has passed if none of them has failed and one of them was not skipped.
        """
        if not all(test in self._outcomes for test in row.tests):
            return None
        outcomes = [self._outcomes[test] for test in row.tests]
        if any("failed" in each for each in outcomes):
            return "FAILED"
        skipped = sorted({reason for each in outcomes if "passed" not in each for reason in each})
        return "; ".join(skipped) or "passed"

    def write_page(self) -> Path | None:
        """Write the page if tests of it were run. Rows that were not run keep the result that they have."""
        rows = {number: row for number, row in fault_rows().items() if row.tests}
        new = {number: result for number, row in rows.items() if (result := self.result(row)) is not None}
        if not new:
            return None
        PAGE.write_text(page_text(new), "utf-8")
        return PAGE


def page_text(new: dict[str, str]) -> str:
    """Return the page with these results, and those that it has already."""
    old = PAGE.read_text("utf-8") if PAGE.exists() else ""
    results = dict(re.findall(r"^\| ([FH]\d\d) \|.*\| ([^|]*) \|$", old, re.MULTILINE)) | new
    lines = [INTRODUCTION.rstrip()]
    letter = ""
    for number, row in fault_rows().items():
        if number[0] != letter:
            letter = number[0]
            lines.append(CHAPTERS[letter].rstrip())
        if row.section:
            lines += ["", f"### {row.section}", ""]
            lines += [f"| id | {HEADS[letter]} | result | test | test run |", "|---|---|---|---|---|"]
        outcome = " ".join(filter(None, (row.outcome, row.reason)))
        tests = "<br>".join(f"`{test}`" for test in row.tests)
        lines.append(f"| {number} | {row.fault} | {outcome} | {tests} | {results.get(number, 'not run')} |")
    return "\n".join(lines) + "\n"
