"""Copies of very many objects, by stores that make up the bytes: memory is bounded by hashes, not by entries."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

OBJECTS = int(os.environ.get("OBJECTS", "120000"))
SCRIPT = """
import asyncio, sys
import aiozarr
from aiozarr.model import Entry, Supports, Value, Version
from aiozarr.stores import BlockingStore, MemoryStore

count, keywords = int(sys.argv[1]), eval(sys.argv[2])


def key_of(number):
    return f"era5/temperature_2m/c/{number // 1000}/{number % 1000}"


class Many(BlockingStore):
    supports = Supports(writable=True, listable=True, conditional_reads=True, bounded_reads=True)
    url = "many://source"
    identity = "many"

    async def scan(self, prefix=""):
        for number in range(count):
            yield Entry(key_of(number), 4, Version(f'"{number:032x}"'))
        yield Entry("zarr.json", 2, Version("d"))

    def fetch_now(self, key, range=None, *, if_match=None, max_bytes=None):
        return Value(b"data", None, 4) if key != "zarr.json" else Value(b"{}", None, 2)


    def set_now(self, key, value, *, precondition=None):
        raise AssertionError

    def erase_now(self, key):
        raise AssertionError


class Sink(Many):
    url = "many://sink"
    identity = "sink"
    stored = 0

    def __init__(self):
        self.journal = MemoryStore()

    async def scan(self, prefix=""):
        async for entry in self.journal.scan():
            if entry.key.startswith(prefix):
                yield entry
        if not prefix and self.stored:
            async for entry in super().scan():
                yield entry

    def fetch_now(self, key, range=None, *, if_match=None, max_bytes=None):
        return self.journal.fetch_now(key) if key.startswith(".") else super().fetch_now(key)

    def set_now(self, key, value, *, precondition=None):
        if key.startswith("."):
            return self.journal.set_now(key, value)
        self.stored += 1
        if self.stored == keywords.get("fail_at"):
            raise aiozarr.PermissionDeniedError("no")
        return Version("x")

    def erase_now(self, key):
        assert key.startswith("."), key
        self.journal.erase_now(key)


async def main():
    source, sink = Many(), Sink()
    if keywords.pop("resumed", False):
        keywords["fail_at"] = count - 10
        try:
            await aiozarr.copy(source, sink)
        except aiozarr.CopyError:
            pass
        del keywords["fail_at"]
        keywords["resume"] = True
    before = sink.stored
    report = await aiozarr.copy(source, sink, **keywords)
    assert report.objects + report.skipped == count + 1, report
    assert report.deleted == 0
    # `ru_maxrss` of a new process begins with the peak of its parent.
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))
    print(peak, report.objects, report.skipped, report.seconds)


asyncio.run(main())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("keywords", [{}, {"delete": True}, {"resumed": True}, {"dry_run": True, "include": "era5/*"}])
def test_the_memory_of_a_copy_of_many_objects_is_bounded(keywords: dict[str, object]) -> None:
    if "include" in keywords:
        keywords = {**keywords, "include": ["*"]}
    command = [sys.executable, "-c", SCRIPT, str(OBJECTS), repr(keywords)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    peak, _, skipped, _ = done.stdout.split()
    # 50 MB are Python's and the library's; a million objects take less than 290 MB.
    assert int(peak) < 50 + 240 * OBJECTS / 1_000_000
    if "resumed" in keywords:
        assert int(skipped) > OBJECTS * 0.9
