"""The report of a copy, and the counters that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aiozarr.common.formatting import format_count, preformatted
from aiozarr.engine import Progress
from aiozarr.model import Entry

MAX_SHOWN_FAILURES = 5
MIB = 1 << 20


@dataclass(frozen=True)
class CopyReport:
    """The result of `aiozarr.copy`.

    Attributes:
        objects: number of copied objects, metadata documents included.
        bytes: their bytes.
        metadata_documents: number of metadata documents among them.
        failed: the keys that were not copied, each with its error. Includes metadata documents that were not written
            because something below their node was not copied.
        changed: the keys of objects that were replaced in the source during the copy. Their later state was copied.
        folder_markers: number of empty objects that only show a folder, and were not copied.
        skipped: number of objects that the destination had already, from an interrupted copy or by a mirror.
        deleted: number of objects that were removed from the destination because the source does not have them.
        missing_chunks: number of chunks that the metadata of a source that cannot be listed allow, and it lacks.
        server_side: number of copied objects that the server copied itself.
        rewritten: number of copied objects that were decoded and encoded again, at the edges of a selection.
        dry_run: True if nothing was written: the other numbers are those of the copy that would be made.
        planned: what a dry run would do: pairs of "copy" or "delete" and a key. Empty for a copy.
        seconds: wall time.
        requests: requests to both stores, repetitions and calls of a local disk included. Each start of the listing
            counts as one.
    """

    objects: int
    bytes: int
    metadata_documents: int
    failed: tuple[tuple[str, BaseException], ...]
    changed: tuple[str, ...]
    folder_markers: int
    seconds: float
    requests: int
    skipped: int = 0
    deleted: int = 0
    missing_chunks: int = 0
    server_side: int = 0
    rewritten: int = 0
    dry_run: bool = False
    planned: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __str__(self) -> str:
        mib = self.bytes / MIB
        head = (
            f"{format_count(self.objects, 'object')} ({format_count(self.metadata_documents, 'metadata document')}), "
            f"{mib:,.1f} MiB in {self.seconds:.2f} s ({mib / max(self.seconds, 1e-9):,.1f} MiB/s), "
            f"{format_count(self.requests, 'request')}"
        )
        lines = [f"not written (dry run): {head}" if self.dry_run else head]
        for count, what in (
            (self.skipped, "at the destination already"),
            (self.server_side, "copied by the server itself"),
            (self.rewritten, "encoded again, at the edges of the selection"),
            (self.missing_chunks, "chunks missing in the source"),
            (self.deleted, "to delete from the destination" if self.dry_run else "deleted from the destination"),
        ):
            if count:
                lines.append(f"{count:,} {what}")
        if self.changed:
            lines.append(f"{len(self.changed):,} changed while they were copied")
        if self.failed:
            lines.append(f"{len(self.failed):,} not copied:")
            lines += [f"  {key!r}: {error}" for key, error in self.failed[:MAX_SHOWN_FAILURES]]
            if len(self.failed) > MAX_SHOWN_FAILURES:
                lines.append(f"  and {len(self.failed) - MAX_SHOWN_FAILURES:,} more")
        return "\n".join(lines)


class CopyCounters:
    """The counters of a copy in progress; `progress` is called when an object is finished."""

    def __init__(self, progress: Callable[[Progress], None] | None, *, plans: bool = False) -> None:
        self.objects = self.bytes = self.metadata_documents = self.folder_markers = 0
        self.failed: list[tuple[str, BaseException]] = []
        self.changed: list[str] = []
        self.listed = self.skipped = self.deleted = self.missing_chunks = 0
        self._progress = progress
        self._planned: list[tuple[str, str]] | None = [] if plans else None
        self._done = self._bytes_done = self._bytes_total = 0

    def add_listed(self, entry: Entry) -> None:
        """Count an object of the listing."""
        self.listed += 1
        self._bytes_total += entry.size or 0

    def add_folder_marker(self, entry: Entry) -> None:
        """Count a listed object as a folder marker."""
        self.folder_markers += 1
        self._finish(entry, 0)

    def add_copied(self, entry: Entry, size: int, *, is_changed: bool, is_document: bool) -> None:
        """Count a copied object of `size` bytes."""
        self.objects += 1
        self.bytes += size
        self.metadata_documents += is_document
        if self._planned is not None:
            self._planned.append(("copy", entry.key))
        if is_changed:
            self.changed.append(entry.key)
        self._finish(entry, size)

    def add_skipped(self, entry: Entry) -> None:
        """Count an object that the destination has already."""
        self.skipped += 1
        self._finish(entry, entry.size or 0)

    def add_deleted(self, keys: Sequence[str]) -> None:
        """Count objects that are removed from the destination."""
        self.deleted += len(keys)
        if self._planned is not None:
            self._planned += [("delete", key) for key in keys]

    def add_missing_chunk(self, entry: Entry) -> None:
        """Count a chunk that the source does not have."""
        self.missing_chunks += 1
        self._finish(entry, 0)

    def add_failed(self, entry: Entry, error: BaseException) -> None:
        """Count an object that was not copied."""
        self.failed.append((entry.key, _without_tracebacks(error)))
        self._finish(entry, 0)

    def report(
        self, *, seconds: float, requests: int, is_dry_run: bool = False, server_side: int = 0, rewritten: int = 0
    ) -> CopyReport:
        """Return the report of the present counts."""
        return CopyReport(
            objects=self.objects,
            bytes=self.bytes,
            metadata_documents=self.metadata_documents,
            failed=tuple(self.failed),
            changed=tuple(self.changed),
            folder_markers=self.folder_markers,
            seconds=seconds,
            requests=requests,
            skipped=self.skipped,
            deleted=self.deleted,
            missing_chunks=self.missing_chunks,
            server_side=server_side,
            rewritten=rewritten,
            dry_run=is_dry_run,
            planned=tuple(self._planned or ()),
        )

    def _finish(self, entry: Entry, size: int) -> None:
        self._done += 1
        self._bytes_done += size
        # The total is corrected by an object that is not copied, or has another size than in the listing.
        self._bytes_total += size - (entry.size or 0)
        if self._progress is not None:
            self._progress(Progress(self._done, self.listed, self._bytes_done, self._bytes_total))


def _without_tracebacks(error: BaseException) -> BaseException:
    """Remove the tracebacks of `error`: their frames reference the bytes of the object, and reports are kept."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            pending += [each.__cause__, each.__context__]
    return error
