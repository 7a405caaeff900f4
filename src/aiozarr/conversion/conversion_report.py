"""The result of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiozarr.common.formatting import format_count

MAX_SHOWN_FAILURES = 5
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ConversionReport:
    """What a conversion or a migration has done; `print` shows it as a table.

    Attributes:
        arrays: number of arrays at the destination.
        groups: number of groups at the destination.
        tasks: tasks that were run. Each has written whole stored objects of one region.
        skipped: tasks that an interrupted conversion had done before.
        copied: stored objects that were copied as they are.
        bytes: bytes of elements that the tasks have written, intermediate arrays included.
        bytes_read: bytes that were received from stores.
        bytes_written: bytes that were sent to stores.
        requests: requests to stores, with repetitions, of all processes.
        seconds: wall time.
        reencoded: why chunks of an array could not stay as they are, by the path of the array (`migrate` only).
        notes: remarks, by the path of the array they are about.
        planned: what a dry run of `migrate` would do: pairs of "write", "erase" or "encode", and a key or path.
        failed: the regions that could not be converted, with the error of each (`on_error="continue"` only).
    """

    arrays: int = 0
    groups: int = 0
    tasks: int = 0
    skipped: int = 0
    copied: int = 0
    bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    requests: int = 0
    seconds: float = 0.0
    reencoded: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[tuple[str, BaseException], ...] = ()
    planned: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        mib = self.bytes / MIB
        done_before = f", {self.skipped:,} done before" if self.skipped else ""
        copied = f", {format_count(self.copied, 'object')} copied" if self.copied else ""
        rate = f"{mib:,.1f} MiB in {self.seconds:.2f} s ({mib / max(self.seconds, 1e-9):,.1f} MiB/s)"
        requests = format_count(self.requests, "request")
        nodes = f"{format_count(self.arrays, 'array')}, {format_count(self.groups, 'group')}"
        lines = [f"{nodes}: {format_count(self.tasks, 'task')}{done_before}{copied}, {rate}, {requests}"]
        lines += [f"{path or '.'}: encoded again: {reason}" for path, reason in self.reencoded.items()]
        lines += [f"{path or '.'}: {note}" for path, note in self.notes.items()]
        if self.failed:
            lines.append(f"{format_count(len(self.failed), 'region')} not converted:")
            lines += [f"  {region}: {error}" for region, error in self.failed[:MAX_SHOWN_FAILURES]]
            if len(self.failed) > MAX_SHOWN_FAILURES:
                lines.append(f"  and {len(self.failed) - MAX_SHOWN_FAILURES:,} more")
        return "\n".join(lines)
