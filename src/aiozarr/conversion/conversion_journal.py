"""The journal of a conversion, a small object at the destination that records the done tasks; and the final report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from aiozarr.common.formatting import argument, format_count, printable
from aiozarr.engine import ScheduledStore
from aiozarr.errors import CopyError
from aiozarr.model import CONVERSION_FOLDER, CONVERSION_JOURNAL_KEY
from aiozarr.transfer.journal import Journal
from aiozarr.transfer.report import format_cost, format_failures

FOLDER = CONVERSION_FOLDER
JOURNAL_KEY = CONVERSION_JOURNAL_KEY


class ConversionJournal(Journal):
    """The done tasks of all passes of one conversion. Used on the I/O thread only.

    Args:
        store: the destination.
        fingerprint: equal for conversions with equal arguments and an unchanged source.
        counts: number of tasks of each pass.
    """

    def __init__(self, store: ScheduledStore, fingerprint: str, counts: Sequence[int]) -> None:
        super().__init__(store, JOURNAL_KEY)
        self._fingerprint = fingerprint
        self.done = [bytearray(count) for count in counts]
        self._lock = asyncio.Lock()

    async def load(self) -> bool:
        """Read the stored journal, and adopt its done tasks.

        Returns: False if none is stored.

        Raises:
            CopyError: it belongs to another conversion, or is damaged.
        """
        stored = await self.read()
        if stored is None:
            return False
        if not {"fingerprint", "done"} <= stored.keys():
            raise self._damaged_error()
        if stored["fingerprint"] != self._fingerprint:
            raise CopyError(
                f"{self._store.store.url} contains an interrupted conversion with other arguments, or of a source "
                f"that has changed since; {argument('overwrite', True)} erases its results and starts over"
            )
        if not _are_runs_of(stored["done"], [len(flags) for flags in self.done]):
            raise self._damaged_error()
        for flags, runs in zip(self.done, stored["done"], strict=True):
            for start, stop in runs:
                flags[start:stop] = b"\1" * (stop - start)
        return True

    def _damaged_error(self) -> CopyError:
        return CopyError(
            f"{JOURNAL_KEY!r} of {self._store.store.url}, the journal of an interrupted conversion, is damaged or "
            f"from an earlier release, so {argument('resume', True)} cannot continue it; "
            f"{argument('overwrite', True)} erases the results of the conversion and starts over"
        )

    async def add(self, number: int, task: int) -> None:
        """Mark a task of the pass `number` as done; store the journal unless it was stored recently."""
        self.done[number][task] = 1
        if not self._lock.locked() and self.is_due():
            await self.save()

    async def save(self) -> None:
        """Store the journal."""
        async with self._lock:
            done = [done_runs(flags) for flags in self.done]
            await self.write({"fingerprint": self._fingerprint, "done": done})


def _are_runs_of(done: object, counts: Sequence[int]) -> bool:
    """Return whether these are ascending runs of tasks for each pass."""
    if not isinstance(done, list) or len(done) != len(counts):
        return False
    for runs, count in zip(done, counts, strict=True):
        last = 0
        for run in runs if isinstance(runs, list) else (None,):
            match run:
                case [int(start), int(stop)] if last <= start < stop <= count:
                    last = stop
                case _:
                    return False
    return True


def done_runs(flags: bytearray) -> list[tuple[int, int]]:
    """Return the done tasks as pairs of the first one and the one after the last."""
    runs: list[tuple[int, int]] = []
    start = 0
    for is_done, group in groupby(flags):
        stop = start + sum(1 for _ in group)
        if is_done:
            runs.append((start, stop))
        start = stop
    return runs


@dataclass(frozen=True, kw_only=True)
class ConversionReport:
    """The result of a conversion; `print` shows it as a table.

    Attributes:
        arrays: number of arrays at the destination.
        groups: number of groups at the destination.
        tasks: number of tasks that ran. Each wrote the whole stored objects of one region.
        skipped: number of tasks that an interrupted conversion had already finished.
        bytes: bytes of elements that the tasks wrote, including intermediate arrays.
        bytes_read: bytes that were received from stores.
        bytes_written: bytes that were sent to stores.
        requests: requests over a network by all processes, including retries. Local reads and writes are not counted.
        seconds: wall time.
        notes: remarks, by the path of the array they are about.
        failed: the regions that could not be converted, with the error of each (`on_error="continue"` only).
    """

    arrays: int = 0
    groups: int = 0
    tasks: int = 0
    skipped: int = 0
    bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    requests: int = 0
    seconds: float = 0.0
    notes: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[tuple[str, BaseException], ...] = ()

    def __str__(self) -> str:
        done_before = f", {self.skipped:,} done before" if self.skipped else ""
        cost = format_cost(self.bytes, self.seconds, self.requests)
        nodes = f"{format_count(self.arrays, 'array')}, {format_count(self.groups, 'group')}"
        lines = [f"{nodes}: {format_count(self.tasks, 'task')}{done_before}, {cost}"]
        lines += [f"{path or '.'}: {note}" for path, note in self.notes.items()]
        if self.failed:
            lines += [f"{format_count(len(self.failed), 'region')} not converted:", *format_failures(self.failed)]
        return "\n".join(map(printable, lines))
