"""One measurement: seconds, CPU seconds of the process, peak memory, and the lag of the caller's loop."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TICK = 0.005
_STATUS = Path("/proc/self/status")


@dataclass
class Cost:
    """Seconds of wall time and of CPU time of all threads."""

    seconds: float = 0.0
    cpu: float = 0.0


@contextmanager
def timed() -> Iterator[Cost]:
    """Measure the block."""
    cost = Cost()
    begun, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.seconds, cost.cpu = time.perf_counter() - begun, time.process_time() - cpu


@dataclass
class Lag:
    """How late a timer of the caller's loop fired, in seconds, at each tick of 5 ms."""

    ticks: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        """Return the lag that this share of the ticks stayed below; 0 where there was no tick."""
        ordered = sorted(self.ticks)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


@asynccontextmanager
async def watched() -> AsyncIterator[Lag]:
    """Watch the running loop meanwhile."""
    lag = Lag()

    async def watch() -> None:
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            lag.ticks.append(max(0.0, time.perf_counter() - due))

    watcher = asyncio.create_task(watch())
    try:
        yield lag
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


def reset_peak() -> None:
    """Forget the highest memory so far, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def resident() -> int:
    """Return the process's resident bytes, or their peak on systems that report only that."""
    return _status("VmRSS") or peak()


def peak() -> int:
    """Return the highest memory since `reset_peak`, in bytes; where that cannot be reset, of the process's life."""
    found = _status("VmHWM")
    if found:
        return found
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest << 10


def _status(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text("utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    return 0
