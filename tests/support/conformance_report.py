"""A pytest plugin that counts the results of the conformance suite, and of the tests behind the tables of faults.

`--matrix` prints those of the suite by store, server and chapter at the end of a run. AIOZARR_WRITE_TABLE=1 writes both
into the documentation. It works with pytest-xdist: what is counted travels with each test's report.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.conformance_table import ContractCase, ContractTable
from tests.support.fault_table import FaultResults
from tests.support.generated_part import COMPATIBILITY, write_part

_PROPERTY = "aiozarr_store_contract"
_MATRIX = pytest.StashKey[ContractTable]()
_FAULTS = pytest.StashKey[FaultResults]()
_SUITE = "aiozarr.testing.conformance."


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--matrix`."""
    parser.addoption("--matrix", action="store_true", help="print which store was tested against what, and how it went")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count, and make the marker known that all tests of the contract have."""
    config.stash[_MATRIX] = ContractTable()
    config.stash[_FAULTS] = FaultResults()
    config.addinivalue_line("markers", "contract: states what the store contract says (added by itself)")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of the contract."""
    if _describe(item) is not None:
        item.add_marker("contract")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the tested store, server and statement to the report."""
    report = yield
    described = _describe(item)
    if described is not None:
        report.user_properties.append((_PROPERTY, described))
    return report


class Counting:
    """Counts the reports that come in, on the process that prints."""

    def __init__(self, matrix: ContractTable, faults: FaultResults) -> None:
        self.matrix, self.faults = matrix, faults

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: when it was called, or when it was not because of its setup."""
        if report.when != "call" and report.outcome == "passed":
            return
        reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
        reason = reason.removeprefix("Skipped: ")
        self.faults.add(report.nodeid, report.outcome, reason)
        properties: dict[str, Any] = dict(report.user_properties)
        if (described := properties.get(_PROPERTY)) is not None:
            self.matrix.add(ContractCase(**described), report.outcome, reason)


def _describe(item: pytest.Item) -> dict[str, Any] | None:
    """Return the fields of the item's case; None for tests that have nothing to do with stores and servers."""
    kind = getattr(item, "cls", None)
    server = getattr(kind, "server_name", None)
    if kind is None or server is None:
        return None
    name = getattr(item, "originalname", item.name)
    chapters = [base for base in kind.__mro__ if base.__module__.startswith(_SUITE) and name in vars(base)]
    return {
        "store": getattr(kind, "store_name", "") or _words(kind.__name__.removeprefix("Test")),
        "server": server,
        "version": getattr(getattr(item, "instance", None), "server_version", ""),
        "chapter": _chapter(chapters[-1].__name__.lower(), name) if chapters else "",
        "test": name.removeprefix("test_").replace("_", " "),
    }


def _words(name: str) -> str:
    """Return the name of a class as it is read: `CacheOnMemory` is about a cache on memory."""
    return re.sub(r"(?<=[a-z\d])(On|Below|Without)(?=[A-Z])", lambda found: f" {found[1].lower()} ", name)


def _chapter(written_in: str, test: str) -> str:
    """Return the operation that a test is about: the suite's own chapters, with two split that are long."""
    if written_in == "reading" and "range" in test:
        return "ranges"
    return "erasing" if "erase" in test else written_in


def pytest_sessionstart(session: pytest.Session) -> None:
    """Count on the process that prints, which hears of all tests."""
    if not hasattr(session.config, "workerinput"):
        stash = session.config.stash
        session.config.pluginmanager.register(Counting(stash[_MATRIX], stash[_FAULTS]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of the suite, and write all tables where that is asked for."""
    matrix = config.stash[_MATRIX]
    if config.getoption("--matrix") and matrix:
        terminalreporter.section("which store was tested against what")
        terminalreporter.write_line(matrix.text())
    if not os.environ.get("AIOZARR_WRITE_TABLE"):
        return
    written = [page for page in [config.stash[_FAULTS].write_page()] if page is not None]
    if config.getoption("--servers") and matrix:
        write_part(COMPATIBILITY, "stores", matrix.part())
        written.append(COMPATIBILITY)
    for page in written:
        terminalreporter.write_line(f"written: {page}")
