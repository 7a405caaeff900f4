"""A plugin for pytest that writes the outcome of each test, and what the codec pipeline was used for, as JSON.

It runs in the environments of other projects, beside their own configuration.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

_outcomes: dict[str, str] = {}
_usage: list[dict[str, Any]] = []


def pytest_runtest_logreport(report: Any) -> None:
    """Keep the worst outcome of set-up, call and tear-down."""
    if report.outcome == "failed" or report.nodeid not in _outcomes or report.outcome == "skipped":
        _outcomes[report.nodeid] = report.outcome


def pytest_collectreport(report: Any) -> None:
    """Count a module that cannot be imported as a failed test."""
    if report.failed:
        _outcomes[report.nodeid] = "failed"


def pytest_testnodedown(node: Any, error: Any) -> None:
    """Take over what a process of pytest-xdist has counted."""
    usage = getattr(node, "workeroutput", {}).get("aiozarr_usage")
    if usage is not None:
        _usage.append(usage)


def pytest_sessionfinish(session: Any) -> None:
    """Write the file that the environment names, or hand the counts to the main process of pytest-xdist."""
    usage = _own_usage()
    worker = getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["aiozarr_usage"] = usage
        return
    total: dict[str, Any] = {"reads": 0, "writes": 0, "opened": 0, "fallbacks": {}}
    for each in [*_usage, usage]:
        for what in ("reads", "writes", "opened"):
            total[what] += each[what]
        for reason, count in each["fallbacks"].items():
            total["fallbacks"][reason] = total["fallbacks"].get(reason, 0) + count
    Path(os.environ["ECOSYSTEM_RESULT"]).write_text(json.dumps({"outcomes": _outcomes, "usage": total}))


def _own_usage() -> dict[str, Any]:
    engine = sys.modules.get("scripts.ecosystem.xarray_engine")
    opened = 0 if engine is None else engine.opened
    try:
        from aiozarr.integrations.zarr import usage
    except ImportError:
        return {"reads": 0, "writes": 0, "opened": opened, "fallbacks": {}}
    found = usage()
    return {"reads": found.reads, "writes": found.writes, "opened": opened, "fallbacks": found.fallbacks}
