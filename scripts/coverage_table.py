"""Print the branch coverage of each package, from the data that `make coverage` has recorded.

The figures are to look at: no check depends on them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

FOLDER = "src/aiozarr/"


def main() -> int:
    """Combine the data of all processes, and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        for arguments in (["combine", "--quiet"], ["json", "--quiet", "-o", str(report)]):
            subprocess.run([sys.executable, "-m", "coverage", *arguments], check=True)
        print(table(json.loads(report.read_text("utf-8"))["files"]))
    return 0


def table(files: dict[str, Any]) -> str:
    """Return the lines of the table: per package its statements, its branches, and how many per cent of each ran."""
    packages: dict[str, Counter[str]] = {}
    for path, result in files.items():
        package, separator, _ = path.replace("\\", "/").removeprefix(FOLDER).partition("/")
        for name in (package if separator else "root", "total"):
            packages.setdefault(name, Counter()).update(result["summary"])
    total = packages.pop("total", Counter())
    rows = [f"{'package':<14}{'statements':>11}{'run':>7}{'branches':>11}{'run':>7}"]
    for name, sums in [*sorted(packages.items()), ("total", total)]:
        lines = share(sums["covered_lines"], sums["num_statements"])
        branches = share(sums["covered_branches"], sums["num_branches"])
        rows.append(f"{name:<14}{sums['num_statements']:>11}{lines:>7}{sums['num_branches']:>11}{branches:>7}")
    return "\n".join(rows)


def share(part: int, whole: int) -> str:
    """Return a part as per cent of the whole."""
    return f"{100 * part / whole:.1f}%" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())
