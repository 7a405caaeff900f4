"""Results of the store contract as a table: a row for each store and server, a column for each chapter."""

from __future__ import annotations

import platform
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

CHAPTERS = ("reading", "ranges", "writing", "erasing", "conditions", "listing", "lifecycle")
PACKAGES = ("aiozarr", "obstore", "aiohttp", "fsspec", "s3fs", "gcsfs", "google-auth")
NO_SERVER = "none"

# Skips of tests that state what stores of another kind say: nothing is lacking there.
_OTHER_KIND = ("can be written to", "can be listed", "is not a BlockingStore")
# How the statements end that a store refuses what it does not claim.
_REFUSAL = "says so"

_LEFT_OUT = """
### What was left out

The number of tests that do not apply, because the store does not have the property.
"""

_BREAKING = """
### Servers that break the rules

Some servers ignore conditions, or send other bytes than requested. The tests show that aiozarr notices: wrong bytes are
never returned as values, and a write is never reported as safe if it is not.
"""


@dataclass(frozen=True)
class ContractCase:
    """One test.

    Attributes:
        store, server, version: what was tested against what.
        chapter: the operation; empty for a statement that is no part of the suite.
        test: the statement.
    """

    store: str
    server: str
    version: str
    chapter: str
    test: str


@dataclass
class ContractCell:
    """How the tests of one cell went."""

    passed: int = 0
    refusals: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """Return the text of the cell."""
        if self.passed == self.refusals > 0 and not self.failed:
            return "refused"
        total = self.passed + self.failed + self.skipped.total()
        if self.failed:
            return f"{self.failed} of {total} FAILED"
        if not self.passed:
            return "–"
        return str(self.passed) if self.passed == total else f"{self.passed} of {total}"


class ContractTable:
    """All results of a run so far."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[str, ContractCell]] = defaultdict(lambda: defaultdict(ContractCell))
        self._statements: dict[str, dict[str, ContractCell]] = defaultdict(lambda: defaultdict(ContractCell))
        self._versions: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._rows or self._statements)

    def add(self, case: ContractCase, outcome: str, reason: str = "") -> None:
        """Count a test; `outcome` is pytest's word for it, `reason` says why it was skipped."""
        if case.version:
            self._versions[case.server] = case.version
        if outcome == "skipped" and reason.endswith(_OTHER_KIND):
            return
        row = self._rows[case.store, case.server] if case.chapter else self._statements[case.test]
        cell = row[case.chapter or case.server]
        match outcome:
            case "passed":
                cell.passed += 1
                cell.refusals += case.test.endswith(_REFUSAL)
            case "failed":
                cell.failed += 1
            case _:
                cell.skipped[reason] += 1

    # --- the tables ----------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return everything as lines for a terminal."""
        parts = [_aligned(self._table()), *(f"  {': '.join(line)}" for line in self._left_out())]
        if self._statements:
            parts += ["", _aligned(self._statement_table())]
        return "\n".join(parts)

    def part(self) -> str:
        """Return the part of the documentation's page."""
        left_out = [["left out", "stores"], *self._left_out()]
        parts = [_markdown(self._table(), texts=2), _LEFT_OUT, _markdown(left_out, texts=2)]
        if self._statements:
            parts += [_BREAKING, _markdown(self._statement_table(), texts=1)]
        parts += ["\n### Versions\n", *(f"- {line}" for line in self._made_with())]
        return "\n".join(parts) + "\n"

    def _table(self) -> list[list[str]]:
        lines = [["store", "server", *CHAPTERS]]
        for (store, server), row in sorted(self._rows.items()):
            lines.append([store, self._named(server), *(row[chapter].text() for chapter in CHAPTERS)])
        return lines

    def _statement_table(self) -> list[list[str]]:
        servers = sorted({server for row in self._statements.values() for server in row})
        lines = [["statement", *(self._named(server) for server in servers)]]
        for statement, row in sorted(self._statements.items()):
            lines.append([statement, *(_mark(row[server]) if server in row else "" for server in servers)])
        return lines

    def _named(self, server: str) -> str:
        return f"{server or NO_SERVER} {self._versions.get(server, '')}".rstrip()

    def _left_out(self) -> list[list[str]]:
        """Return pairs of what was left out, and the stores where it was."""
        stores: dict[str, list[str]] = defaultdict(list)
        for (store, server), row in sorted(self._rows.items()):
            whole: Counter[str] = Counter()
            for cell in row.values():
                whole += cell.skipped
            if whole:
                total = sum(cell.passed + cell.failed + cell.skipped.total() for cell in row.values())
                left_out = [f"{_lacking(reason)}: {_count(whole[reason], total)}" for reason in sorted(whole)]
                stores[", ".join(left_out)].append(f"{store} on {server}" if server else store)
        return [[left_out, "; ".join(names)] for left_out, names in sorted(stores.items())]

    def _made_with(self) -> Iterable[str]:
        yield f"{platform.python_implementation()} {platform.python_version()} on {platform.system()}"
        for package in PACKAGES:
            try:
                yield f"{package} {version(package)}"
            except PackageNotFoundError:
                continue
        for server, its_version in sorted(self._versions.items()):
            yield f"{server} {its_version}"


def _lacking(reason: str) -> str:
    """Return the property that the store lacks: `conditional_reads` for "X does not support conditional_reads"."""
    found = re.fullmatch(r"\w+ does not (?:support )?(\w+)", reason)
    return found[1] if found else reason


def _count(count: int, total: int) -> str:
    return "all" if count == total else str(count)


def _mark(cell: ContractCell) -> str:
    text = cell.text()
    return "yes" if text.isdecimal() else text


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _markdown(lines: list[list[str]], *, texts: int) -> str:
    """Return a table whose first `texts` columns are texts; the others have counts, to the right."""
    head, *rows = lines
    marked = [head, ["---"] * texts + ["---:"] * (len(head) - texts), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in marked)
