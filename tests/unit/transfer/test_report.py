"""The report of a copy, and the progress that is told meanwhile."""

from __future__ import annotations

import sys

from aiozarr.engine import Progress
from aiozarr.errors import StoreError
from aiozarr.model import Entry
from aiozarr.transfer.report import Tally


def test_progress_ends_at_its_totals_whatever_sizes_the_listing_told() -> None:
    told: list[Progress] = []
    tally = Tally(told.append)
    entries = [Entry("a", 10), Entry("b", None), Entry("c", 5), Entry("d/", 0)]
    for entry in entries:
        tally.found(entry)
    tally.copied(entries[0], 12, changed=True, metadata=False)
    tally.copied(entries[1], 7, changed=False, metadata=True)
    tally.lost(entries[2], StoreError("no"))
    tally.marker(entries[3])
    assert told[0] == Progress(1, 4, 12, 17)
    assert told[-1] == Progress(4, 4, 19, 19)


def test_a_report_reads_well_and_names_only_the_first_failures() -> None:
    tally = Tally(None)
    for number in range(2000):
        tally.found(Entry(f"c/{number}", 1 << 20))
        tally.copied(Entry(f"c/{number}", 1 << 20), 1 << 20, changed=number == 7, metadata=number == 0)
    for number in range(8):
        tally.lost(Entry(f"x/{number}", 1), StoreError("gone", key=f"x/{number}"))
    text = str(tally.report(seconds=10.0, requests=4016))
    assert text.splitlines() == [
        "2,000 objects (1 metadata documents), 2,000.0 MiB in 10.00 s (200.0 MiB/s), 4,016 requests",
        "1 changed while they were copied",
        "8 not copied:",
        *[f"  'x/{number}': gone (key 'x/{number}')" for number in range(5)],
        "  and 3 more",
    ]


def test_kept_errors_do_not_keep_the_bytes_of_their_objects() -> None:
    class Data(bytes):
        pass

    data = Data(b"x")
    before = sys.getrefcount(data)

    def fail(held: Data) -> None:
        try:
            raise OSError("disk")
        except OSError as error:
            raise StoreError("not stored") from error

    tally = Tally(None)
    try:
        fail(data)
    except StoreError as error:
        tally.lost(Entry("k", 1), error)
    assert sys.getrefcount(data) == before
    assert isinstance(tally.failed[0][1].__cause__, OSError)
