"""Put the figures of docs/figures.json on the pages that show them; `--check` only checks that they are up to date.

`make bench` writes the file. A page marks a table with `<!-- figures: NAME -->` above and `<!-- end of figures -->`
below, and a number with `<!--=NAME-->12<!--/-->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.table import markdown

REPOSITORY = Path(__file__).parents[1]
FIGURES = REPOSITORY / "docs" / "figures.json"
PAGES = [REPOSITORY / name for name in ("README.md", "docs/performance.md")]

READS = {
    "medium": "HTTP, chunks of 1 MiB",
    "small": "HTTP, chunks of 32 KiB (128 MiB)",
    "shard-plane": "HTTP, a plane across shards",
    "shard-whole": "HTTP, whole shards",
    "points": "HTTP, 500 points at once",
    "blosc": "HTTP, Blosc",
    "gzip": "HTTP, gzip (128 MiB)",
    "raw": "HTTP, no compression",
    "v2": "HTTP, format 2",
    "local-medium": "local disk, chunks of 1 MiB",
    "local-small": "local disk, chunks of 32 KiB (128 MiB)",
    "local-shard": "local disk, whole shards",
}
WRITES = {
    "write-medium": "local disk, chunks of 1 MiB",
    "write-small": "local disk, chunks of 32 KiB (128 MiB)",
    "write-shard": "local disk, whole shards",
    "write-s3": "S3, chunks of 1 MiB",
    "write-s3-small": "S3, chunks of 32 KiB (128 MiB)",
}
HEADLINES = ("shard-plane", "small", "points", "local-medium")
CACHED_LOAD = "full load, 256 MiB of decoded chunks cached"
# Each library with its fastest setting of those that ran.
LIBRARIES = {"aiozarr": "aiozarr", "TensorStore": "tensorstore", "zarrista": "zarrista", "zarr-python": "zarr-python"}

Figures = Mapping[str, Any]
Peers = Mapping[str, Mapping[str, float] | str]


def best(peers: Peers, library: str, name: str = "seconds") -> float | None:
    """Return the lowest `name` of the settings of one library; None if none of them worked."""
    settings = [run for peer, run in peers.items() if peer.split("@")[0] == library]
    numbers = [run[name] for run in settings if not isinstance(run, str)]
    return min(numbers) if numbers else None


def ratio_of(peers: Peers, name: str = "seconds") -> float:
    """Return aiozarr's number over the lowest of the other libraries."""
    mine, *others = [best(peers, library, name) for library in LIBRARIES.values()]
    known = [other for other in others if other is not None]
    if mine is None or not known:
        raise ValueError("the run has no aiozarr, or nothing to compare it with")
    return mine / min(known)


def cells(peers: Peers, name: str = "seconds", scale: float = 1.0, unit: str = " s", digits: int = 3) -> list[str]:
    """Return a cell for each library, the lowest number in bold, and the ratio."""
    numbers = [best(peers, library, name) for library in LIBRARIES.values()]
    lowest = min([number for number in numbers if number is not None])
    texts = ["–" if number is None else f"{number * scale:.{digits}f}{unit}" for number in numbers]
    bold = [f"**{text}**" if number == lowest else text for text, number in zip(texts, numbers, strict=True)]
    return [*bold, f"{ratio_of(peers, name):.2f}"]


def worst_of(figures: Figures, names: Sequence[str]) -> str:
    """Return the scenario with the highest ratio."""
    scenarios = figures["reads"]["scenarios"]
    return max([name for name in names if name in scenarios], key=lambda name: ratio_of(scenarios[name]))


def headline(figures: Figures) -> str:
    """Return the table of README, which home includes: some reads, the worst read and write, a percentile."""
    scenarios = figures["reads"]["scenarios"]
    read, write = worst_of(figures, list(READS)), worst_of(figures, list(WRITES))
    rows = [[f"read, {READS[name]}", *cells(scenarios[name], unit="")] for name in HEADLINES if name != read]
    rows.append([f"read, {READS[read]} (the worst read)", *cells(scenarios[read], unit="")])
    rows.append([f"write, {WRITES[write]} (the worst write)", *cells(scenarios[write], unit="")])
    load = figures["service"]["loads"][CACHED_LOAD]
    rows.append(["99th percentile of 64 readers with a cache", *cells(load, "latency_p99", unit="")])
    return markdown(["seconds; 512 MiB, zstd", *LIBRARIES, "ratio"], rows).replace(" |", "|").replace("| ", "|")


def all_rows(names: Mapping[str, str]) -> Callable[[Figures], str]:
    """Return the renderer of a table with one row for each scenario."""

    def render(figures: Figures) -> str:
        scenarios = figures["reads"]["scenarios"]
        rows = []
        for name, about in names.items():
            peers = scenarios[name]
            mine = peers["aiozarr"]
            fastest = min(
                [run for peer, run in peers.items() if peer != "aiozarr" and not isinstance(run, str)],
                key=lambda run: run["seconds"],
            )
            pairs = [
                f"{mine['cpu']:.2f} / {fastest['cpu']:.2f}",
                f"{mine['lag_max'] * 1000:.0f} / {fastest['lag_max'] * 1000:.0f}",
            ]
            rows.append([f"`{name}` {about}", *cells(peers, unit=""), *pairs])
        headings = ["scenario", *[f"{library} s" for library in LIBRARIES], "ratio", "CPU s", "lag ms"]
        return markdown(headings, rows)

    return render


def service(figures: Figures) -> str:
    """Return the table of the service: windows a second, percentiles and lag by load and library."""
    rows = []
    for title, peers in figures["service"]["loads"].items():
        for peer, run in peers.items():
            if isinstance(run, str):
                continue
            milliseconds = [f"{run[name] * 1000:.0f}" for name in ("latency_p50", "latency_p99", "lag_max")]
            rows.append([f"{title}: {peer}", f"{run['rate']:.0f}", *milliseconds, f"{run['cpu'] * 1000:.2f}"])
    return markdown(["load: library", "windows a second", "p50 ms", "p99 ms", "lag ms", "CPU ms a window"], rows)


def with_and_without(peers: Peers) -> tuple[float, float]:
    """Return the seconds of zarr-python with `enable()` and without."""
    with_it, without = best(peers, "zarr-aiozarr"), best(peers, "zarr-python")
    if with_it is None or without is None:
        raise ValueError("the run lacks zarr-python")
    return with_it, without


def enabled(figures: Figures) -> str:
    """Return the table of zarr-python with and without `enable()`."""
    rows = []
    for name, peers in figures["zarr-aiozarr"]["scenarios"].items():
        with_it, without = with_and_without(peers)
        rows.append([f"`{name}` {READS[name]}", f"{without:.3f} s", f"{with_it:.3f} s", f"{with_it / without:.2f}"])
    return markdown(["scenario", "zarr-python", "with `enable()`", "ratio"], rows)


def imports(figures: Figures) -> str:
    """Return the table of import times."""
    seconds = figures["imports"]["seconds"]
    rows = [
        [f"`import {name}`", f"{value * 1000:.0f} ms", f"{value / seconds['numpy']:.2f}"]
        for name, value in seconds.items()
        if value is not None
    ]
    return markdown(["statement", "time", "of numpy's import"], rows)


def table(name: str) -> Callable[[Figures], str]:
    """Return the renderer of a section that is a table already."""
    return lambda figures: markdown(figures[name]["headings"], figures[name]["rows"])


TABLES: Mapping[str, Callable[[Figures], str]] = {
    "headline": headline,
    "reads": all_rows(READS),
    "writes": all_rows(WRITES),
    "service": service,
    "enabled": enabled,
    "imports": imports,
    **{name: table(name) for name in ("many", "lone", "tiles", "memory", "rechunk")},
}


def tile_requests(figures: Figures, service_name: str) -> str:
    """Return the requests that one tile service sent to its store while no client left."""
    row = next(row for row in figures["tiles"]["rows"] if row[0] == service_name)
    return f"{int(row[5]):,}"


def peak_of(figures: Figures, runner: str) -> str:
    """Return the peak memory of one way to rechunk, in MiB."""
    peaks: list[str] = [row[3] for row in figures["rechunk"]["rows"] if row[0].startswith(runner)]
    return max(peaks, key=lambda peak: int(peak.replace(",", "")))


def lag(figures: Figures, library: str) -> str:
    """Return the worst lag of the loop in any read, in milliseconds."""
    scenarios = {name: figures["reads"]["scenarios"][name] for name in READS}
    lags = [best(peers, library, "lag_max") for peers in scenarios.values()]
    return f"{max([value for value in lags if value is not None]) * 1000:,.0f}"


def enabled_factor(figures: Figures, name: str) -> str:
    """Return how many times faster one scenario is with `enable()`."""
    with_it, without = with_and_without(figures["zarr-aiozarr"]["scenarios"][name])
    return f"{without / with_it:.1f}"


def day(figures: Figures, section: str) -> str:
    """Return the date of one run in words."""
    run = date.fromisoformat(figures[section]["run"]["date"])
    return f"{run.day} {run:%B %Y}"


NUMBERS: Mapping[str, Callable[[Figures], str]] = {
    "date": lambda figures: day(figures, "reads"),
    "cores": lambda figures: str(figures["reads"]["run"]["cores"]),
    "python": lambda figures: ".".join(figures["reads"]["run"]["python"].split(".")[:2]),
    "tile-requests": lambda figures: tile_requests(figures, "aiozarr"),
    "tile-requests-of-zarr-python": lambda figures: tile_requests(figures, "zarr-python"),
    "best-ratio": lambda figures: f"{min(ratio_of(figures['reads']['scenarios'][name]) for name in READS):.2f}",
    "worst-ratio": lambda figures: f"{max(ratio_of(figures['reads']['scenarios'][name]) for name in READS):.2f}",
    "lag": lambda figures: lag(figures, "aiozarr"),
    "lag-of-zarr-python": lambda figures: lag(figures, "zarr-python"),
    "rechunk-size": lambda figures: figures["rechunk"]["size"].replace("GiB", " GiB"),
    "rechunk-peak": lambda figures: peak_of(figures, "aiozarr"),
    "rechunk-peak-of-dask": lambda figures: peak_of(figures, "dask"),
    "enabled-small": lambda figures: enabled_factor(figures, "small"),
    "enabled-medium": lambda figures: enabled_factor(figures, "medium"),
}

TABLE = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
NUMBER = re.compile(r"(<!--=(?P<name>[\w-]+)-->)[^<]*(<!--/-->)")


def rendered(text: str, figures: Figures) -> str:
    """Return the text of a page with all its figures."""
    text = TABLE.sub(lambda match: f"{match[1]}\n{TABLES[match['name']](figures)}\n\n{match[3]}", text)
    return NUMBER.sub(lambda match: f"{match[1]}{NUMBERS[match['name']](figures)}{match[3]}", text)


def main() -> int:
    """Write the figures on the pages, or check that they are there."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    texts = {page: page.read_text("utf-8") for page in PAGES}
    changed = {page: now for page, text in texts.items() if (now := rendered(text, figures)) != text}
    if "--check" in sys.argv[1:]:
        return int(bool(changed))
    for page, now in changed.items():
        page.write_text(now, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
