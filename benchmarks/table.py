"""Tables of measurements, for a terminal and, as plain lines, for a page."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.layouts import MIB
from benchmarks.scenarios import Scenario

if TYPE_CHECKING:
    from benchmarks.run import Outcome


WIDTH = 120


def console_of() -> Console:
    """Return where tables are printed: as wide as the terminal, and wide enough for all columns in a file."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def comparison(
    scenario: Scenario, outcomes: Mapping[str, Sequence[Outcome] | str], me: str, ratio: float | None
) -> Table:
    """Return the table of one scenario: a line for each peer."""
    said = "no peer to compare with" if ratio is None else f"{ratio:.2f} of the best peer"
    title = f"{scenario.name}: {scenario.what}, {scenario.where}, {scenario.layout.name}. {me}: {said}"
    headings = ("peer", "s", "first s", "CPU s", "MiB", "lag p99 ms", "worst ms", "requests", "digest")
    table = rows_table(title, headings, [])
    for peer, kept in outcomes.items():
        if isinstance(kept, str):
            table.add_row(peer, f"– {kept}"[:60])
            continue

        def median(pick: Callable[[Outcome], float], kept: Sequence[Outcome] = kept) -> float:
            return statistics.median([pick(each) for each in kept])

        requests = {each.requests for each in kept} - {None}
        table.add_row(
            peer,
            f"{median(lambda each: each.seconds):.3f}",
            f"{median(lambda each: each.first):.3f}",
            f"{median(lambda each: each.cpu):.2f}",
            f"{median(lambda each: each.memory) / MIB:.0f}",
            f"{median(lambda each: each.lag_p99) * 1000:.0f}",
            f"{max([each.lag_max for each in kept]) * 1000:.0f}",
            "/".join([f"{each:,}" for each in sorted(filter(None, requests))]),
            "/".join(sorted({each.digest[:8] for each in kept})),
        )
    return table


def summary(ratios: Mapping[str, float | None]) -> Table:
    """Return the ratios of all scenarios, the worst last."""
    known = sorted([(ratio, name) for name, ratio in ratios.items() if ratio is not None])
    rows = [(name, f"{ratio:.2f}") for ratio, name in known]
    return rows_table("seconds, over the best peer's", ("scenario", "ratio"), rows)


def rows_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table whose first column is words and whose others are numbers."""
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the same as lines of Markdown."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join([f"| {' | '.join(line)} |" for line in lines])
