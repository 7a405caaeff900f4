"""Runs targets, and keeps what they find."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.fuzz.data_targets import Archives, CacheFiles, Chunks, Shards
from tests.fuzz.document_targets import Consolidated, Documents
from tests.fuzz.journal_targets import ConversionJournals, CopyJournals
from tests.fuzz.name_targets import References, Specs, StoredSpecs, Urls
from tests.fuzz.target import Target
from tests.fuzz.watchdog import Finding, Watchdog
from tests.fuzz.web_targets import Http, Listings, Pages

TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (
        *(Documents, Consolidated, Chunks, Shards, Http, Listings, Pages, Archives, Urls, Specs, StoredSpecs),
        *(References, ConversionJournals, CopyJournals, CacheFiles),
    )
}


@dataclass(frozen=True)
class Found:
    """A finding, with the number and the `repr` of its input."""

    number: int
    finding: Finding
    input: str = field(repr=False)


@dataclass
class Run:
    """The outcome of one target.

    Attributes:
        inputs: how many inputs were used.
        seconds: how long that took.
        found: the first finding of each kind.
        counts: how many inputs had a finding of each kind.
    """

    target: str
    seed: int
    inputs: int = 0
    seconds: float = 0.0
    found: list[Found] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


async def fuzz(
    target: Target,
    seed: int,
    *,
    numbers: Iterable[int] | None = None,
    seconds: float = 0.0,
    running: Path | None = None,
    report: Callable[[Found], None] | None = None,
) -> Run:
    """Run inputs of a target.

    Args:
        target: the target.
        seed: chooses the inputs, with their numbers.
        numbers: the numbers of the inputs; None for as many as `seconds` allow.
        seconds: how long, preparations included.
        running: a file that gets the number of each input, and shows which one ended the process.
        report: called with the first finding of each kind.
    """
    run, started = Run(target.name, seed), time.monotonic()
    with warnings.catch_warnings(), Watchdog(cpu_seconds=target.cpu_seconds) as watchdog:
        # Documents of strangers give reason for many a warning, once or each time.
        warnings.simplefilter("ignore")
        async with target:
            for number in itertools.count() if numbers is None else numbers:
                if numbers is None and time.monotonic() - started >= seconds:
                    break
                if running is not None:
                    running.write_text(str(number), "utf-8")
                value = target.input(seed, number)
                finding = await watchdog.run(f"TARGET={target.name} SEED={seed} N={number}", partial(target.run, value))
                run.inputs += 1
                if finding is not None:
                    if finding.kind not in run.counts:
                        run.found.append(Found(number, finding, repr(value)))
                        if report is not None:
                            report(run.found[-1])
                    run.counts[finding.kind] = run.counts.get(finding.kind, 0) + 1
    run.seconds = time.monotonic() - started
    return run
