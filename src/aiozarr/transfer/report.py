"""The report of a copy, and the counters from which it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiozarr.common.formatting import format_count, preformatted, printable, readable_bytes
from aiozarr.common.progress import Progress
from aiozarr.metadata.format_rules import document_write_order
from aiozarr.model import Entry

MAX_SHOWN_FAILURES = 5


@dataclass(frozen=True)
class CopyReport:
    """The result of `aiozarr.copy`.

    Attributes:
        objects: number of copied objects, metadata documents included.
        bytes: their bytes.
        metadata_documents: number of metadata documents among them.
        failed: the keys that were not copied, each with its error. Includes metadata documents that were not written
            because something below their node was not copied.
        changed: the keys of objects that were replaced in the source during the copy. Of chunks, the later version was
            copied; of documents, the version that describes the copied chunks.
        folder_markers: number of empty objects that only mark a folder, and were not copied.
        skipped: number of objects that the destination already had, from an interrupted copy or in a mirror.
        deleted: number of objects that were removed from the destination because the source does not have them.
        missing_chunks: for a source without a listing, number of chunks in its grids that are not stored.
        server_side: number of copied objects that the server copied itself.
        dry_run: True if nothing was written; the other numbers say what a real copy would do.
        planned: the actions of a dry run: pairs of "copy" or "delete" and a key. Empty for a copy.
        seconds: wall time.
        requests: requests over a network to both stores, including retries. Each start of a listing counts as one.
            Reads and writes of local disks are not counted.
    """

    objects: int = 0
    bytes: int = 0
    metadata_documents: int = 0
    failed: tuple[tuple[str, BaseException], ...] = ()
    changed: tuple[str, ...] = ()
    folder_markers: int = 0
    seconds: float = 0.0
    requests: int = 0
    skipped: int = 0
    deleted: int = 0
    missing_chunks: int = 0
    server_side: int = 0
    dry_run: bool = False
    planned: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __str__(self) -> str:
        objects, documents = (
            format_count(self.objects, "object"),
            format_count(self.metadata_documents, "metadata document"),
        )
        head = f"{objects} ({documents}), "
        if self.dry_run:
            lines = [f"not written (dry run): {head}{readable_bytes(self.bytes)}"]
        else:
            lines = [head + format_cost(self.bytes, self.seconds, self.requests)]
        for count, what in (
            (self.skipped, "already at the destination"),
            (self.server_side, "copied by the server itself"),
            (self.missing_chunks, "chunks missing in the source"),
            (self.deleted, "to delete from the destination" if self.dry_run else "deleted from the destination"),
        ):
            if count:
                lines.append(f"{count:,} {what}")
        if self.changed:
            lines.append(f"{len(self.changed):,} changed while they were copied")
        if self.failed:
            failures = format_failures([(repr(key), error) for key, error in self.failed])
            lines += [f"{len(self.failed):,} not copied:", *failures]
        return "\n".join(map(printable, lines))


def format_cost(nbytes: int, seconds: float, requests: int) -> str:
    """Return bytes, their rate and the requests of a copy or a conversion as text."""
    rate = readable_bytes(nbytes / max(seconds, 1e-9))
    return f"{readable_bytes(nbytes)} in {seconds:.2f} s ({rate}/s), {format_count(requests, 'request')}"


def format_failures(failed: Sequence[tuple[str, BaseException]]) -> list[str]:
    """Return lines for the first failures, and one with the number of the others."""
    lines = [f"  {name}: {error}" for name, error in failed[:MAX_SHOWN_FAILURES]]
    return lines + [f"  and {len(failed) - MAX_SHOWN_FAILURES:,} more"] * (len(failed) > MAX_SHOWN_FAILURES)


class CopyCounters:
    """The counters of a copy in progress; `progress` is called when an object is finished.

    Attributes:
        counts: the counts of `CopyReport`, by the names of its attributes.
        listed: number of objects of the listing.
        failed: the keys that were not copied, with their errors.
        changed: the keys of objects that were replaced since they were listed.
    """

    def __init__(self, progress: Callable[[Progress], None] | None = None, *, is_dry_run: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.listed = 0
        self.failed: list[tuple[str, BaseException]] = []
        self.changed: list[str] = []
        self._planned: list[tuple[str, str]] = []
        self._is_dry_run = is_dry_run
        self._progress = progress
        self._done = self._bytes_done = self._bytes_total = 0

    def add_listed(self, entry: Entry) -> None:
        """Count an object of the listing."""
        self.listed += 1
        self._bytes_total += entry.size or 0

    def add_copied(self, entry: Entry, size: int | None = None, *, is_changed: bool = False) -> None:
        """Count a copied object of `size` bytes; None: of the listed size."""
        size = (entry.size or 0) if size is None else size
        self.counts["bytes"] += size
        self.counts["metadata_documents"] += document_write_order(entry.key) is not None
        if self._is_dry_run:
            self._planned.append(("copy", entry.key))
        if is_changed:
            self.changed.append(entry.key)
        self.add("objects", entry, size)

    def add_deleted(self, keys: Sequence[str]) -> None:
        """Count objects that are removed from the destination."""
        self.counts["deleted"] += len(keys)
        if self._is_dry_run:
            self._planned += [("delete", key) for key in keys]

    def add_failed(self, entry: Entry, error: BaseException) -> None:
        """Count an object that was not copied."""
        self.failed.append((entry.key, _without_tracebacks(error)))
        self.add("", entry)

    def add(self, count: str, entry: Entry, size: int = 0) -> None:
        """Count an object as finished: in the count of this name, and with `size` bytes in the progress."""
        if count:
            self.counts[count] += 1
        self._done += 1
        self._bytes_done += size
        # The total is corrected by an object that is not copied, or has another size than in the listing.
        self._bytes_total += size - (entry.size or 0)
        if self._progress is not None:
            self._progress(Progress(self._done, self.listed, self._bytes_done, self._bytes_total))

    def report(self, **others: Any) -> CopyReport:
        """Return the report of the present counts, with values of `others`."""
        facts: dict[str, Any] = {**self.counts, **others}
        return CopyReport(
            failed=tuple(self.failed),
            changed=tuple(self.changed),
            planned=tuple(self._planned),
            dry_run=self._is_dry_run,
            **facts,
        )


def _without_tracebacks(error: BaseException) -> BaseException:
    """Remove the tracebacks of `error`, whose frames reference the bytes of the object, because reports are kept."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            pending += [each.__cause__, each.__context__]
    return error
