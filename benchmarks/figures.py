"""The file of figures that `make bench` writes: docs/figures.json. `scripts.make_figures` puts them on the pages."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def add_section(file: Path | None, name: str, figures: Mapping[str, Any]) -> None:
    """Replace one section of `file`, with the date and the machine of this run; do nothing if `file` is None.

    Args:
        file: docs/figures.json; it is created if it does not exist.
        name: of the section, such as `reads`.
        figures: anything that JSON can hold.
    """
    if file is None:
        return
    sections = json.loads(file.read_text("utf-8")) if file.exists() else {}
    sections[name] = {"run": run_facts(), **figures}
    file.write_text(json.dumps(dict(sorted(sections.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")


def run_facts() -> dict[str, Any]:
    """Return the date, the number of cores, the system and the version of Python."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def table_section(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return a table as a section."""
    return {"headings": list(headings), "rows": [list(row) for row in rows]}


def medians(outcomes: Mapping[str, Sequence[Any] | str]) -> dict[str, dict[str, float] | str]:
    """Return the median of each number by peer, the maximum of `lag_max`, or the error of a peer that failed."""
    return {peer: runs if isinstance(runs, str) else _medians_of(runs) for peer, runs in outcomes.items()}


def _medians_of(runs: Sequence[Any]) -> dict[str, float]:
    records = [asdict(run) for run in runs]
    numbers = [name for name, value in records[0].items() if isinstance(value, int | float)]
    return {
        name: float(f"{(max if name == 'lag_max' else statistics.median)([record[name] for record in records]):.4g}")
        for name in numbers
    }
