"""The report of a copy, and its progress."""

from __future__ import annotations

import sys

from aiozarr.common.progress import Progress
from aiozarr.errors import StoreError
from aiozarr.model import Entry
from aiozarr.transfer.report import CopyCounters


def test_progress_ends_at_its_totals_for_any_listed_sizes() -> None:
    reported: list[Progress] = []
    counters = CopyCounters(reported.append)
    entries = [Entry("a", 10), Entry("zarr.json", None), Entry("c", 5), Entry("d/", 0)]
    for entry in entries:
        counters.add_listed(entry)
    counters.add_copied(entries[0], 12, is_changed=True)
    counters.add_copied(entries[1], 7)
    counters.add_failed(entries[2], StoreError("no"))
    counters.add("folder_markers", entries[3])
    assert reported[0] == Progress(1, 4, 12, 17)
    assert reported[-1] == Progress(4, 4, 19, 19)


def test_a_report_names_only_the_first_failures() -> None:
    counters = CopyCounters()
    for number in range(2000):
        entry = Entry(f"c/{number}" if number else "zarr.json", 1 << 20)
        counters.add_listed(entry)
        counters.add_copied(entry, is_changed=number == 7)
    for number in range(8):
        counters.add_failed(Entry(f"x/{number}", 1), StoreError("gone", key=f"x/{number}"))
    text = str(counters.report(seconds=10.0, requests=4016))
    assert text.splitlines() == [
        "2,000 objects (1 metadata document), 2.0 GiB in 10.00 s (200.0 MiB/s), 4,016 requests",
        "1 changed while they were copied",
        "8 not copied:",
        *[f"  'x/{number}': gone (key 'x/{number}')" for number in range(5)],
        "  and 3 more",
    ]


def test_recorded_errors_do_not_reference_the_bytes_of_their_objects() -> None:
    class Data(bytes):
        pass

    data = Data(b"x")
    before = sys.getrefcount(data)

    def fail(held: Data) -> None:
        try:
            raise OSError("disk")
        except OSError as error:
            raise StoreError("not stored") from error

    counters = CopyCounters()
    try:
        fail(data)
    except StoreError as error:
        counters.add_failed(Entry("k", 1), error)
    assert sys.getrefcount(data) == before
    assert isinstance(counters.failed[0][1].__cause__, OSError)
