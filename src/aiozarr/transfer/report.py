"""What a copy did: the record that it returns, and the counts from which that is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiozarr.engine import Progress
from aiozarr.model import Entry

SHOWN_FAILURES = 5
MIB = 1 << 20


@dataclass(frozen=True)
class CopyReport:
    """What `aiozarr.copy` did.

    Attributes:
        objects: objects that were copied, metadata documents included.
        bytes: their bytes.
        metadata_documents: how many of them are metadata documents.
        failed: the keys that were not copied, with the error of each; of metadata documents also those that were held
            back because something below their node was not copied.
        changed: the keys whose objects were replaced in the source while it was being copied; they were copied as they
            then were.
        folder_markers: empty objects that only show a folder, and were not copied.
        seconds: wall time.
        requests: requests to both stores, repetitions included; the listing counts as one each time that it begins.
    """

    objects: int
    bytes: int
    metadata_documents: int
    failed: tuple[tuple[str, BaseException], ...]
    changed: tuple[str, ...]
    folder_markers: int
    seconds: float
    requests: int

    def __str__(self) -> str:
        mib = self.bytes / MIB
        head = (
            f"{self.objects:,} objects ({self.metadata_documents:,} metadata documents), {mib:,.1f} MiB "
            f"in {self.seconds:.2f} s ({mib / max(self.seconds, 1e-9):,.1f} MiB/s), {self.requests:,} requests"
        )
        lines = [head]
        if self.changed:
            lines.append(f"{len(self.changed):,} changed while they were copied")
        if self.failed:
            lines.append(f"{len(self.failed):,} not copied:")
            lines += [f"  {key!r}: {error}" for key, error in self.failed[:SHOWN_FAILURES]]
            if len(self.failed) > SHOWN_FAILURES:
                lines.append(f"  and {len(self.failed) - SHOWN_FAILURES:,} more")
        return "\n".join(lines)


class Tally:
    """The counts of a copy that is under way; `progress` is called whenever an object is finished."""

    def __init__(self, progress: Callable[[Progress], None] | None) -> None:
        self.objects = self.bytes = self.metadata_documents = self.folder_markers = 0
        self.failed: list[tuple[str, BaseException]] = []
        self.changed: list[str] = []
        self.listed = 0
        self._progress = progress
        self._done = self._bytes_done = self._bytes_total = 0

    def found(self, entry: Entry) -> None:
        """The listing named an object."""
        self.listed += 1
        self._bytes_total += entry.size or 0

    def marker(self, entry: Entry) -> None:
        """An object that was found is a folder marker."""
        self.folder_markers += 1
        self._finished(entry, 0)

    def copied(self, entry: Entry, size: int, *, changed: bool, metadata: bool) -> None:
        """An object of `size` bytes was stored."""
        self.objects += 1
        self.bytes += size
        self.metadata_documents += metadata
        if changed:
            self.changed.append(entry.key)
        self._finished(entry, size)

    def lost(self, entry: Entry, error: BaseException) -> None:
        """An object was not copied."""
        self.failed.append((entry.key, _without_frames(error)))
        self._finished(entry, 0)

    def report(self, *, seconds: float, requests: int) -> CopyReport:
        """Return the counts as they are now."""
        return CopyReport(
            objects=self.objects,
            bytes=self.bytes,
            metadata_documents=self.metadata_documents,
            failed=tuple(self.failed),
            changed=tuple(self.changed),
            folder_markers=self.folder_markers,
            seconds=seconds,
            requests=requests,
        )

    def _finished(self, entry: Entry, size: int) -> None:
        self._done += 1
        self._bytes_done += size
        # An object that has another size than the listing said, or is not copied, corrects the total.
        self._bytes_total += size - (entry.size or 0)
        if self._progress is not None:
            self._progress(Progress(self._done, self.listed, self._bytes_done, self._bytes_total))


def _without_frames(error: BaseException) -> BaseException:
    """Drop the tracebacks of `error`: their frames hold the object's bytes, and reports of many errors are kept."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            pending += [each.__cause__, each.__context__]
    return error
