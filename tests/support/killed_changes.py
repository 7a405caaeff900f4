"""Changes of a tree by processes that are killed: before a call of the system, or at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiozarr
from tests.support.forked_processes import FAILED, ForkingInterpreter, fork, forking_interpreter, serve
from tests.support.tree_changes import CHANGES

# All calls of the local store that change names or bytes on the disk.
CALLS = (
    *("open", "pwrite", "write", "ftruncate", "utime", "chmod", "fsync"),
    *("replace", "link", "unlink", "mkdir", "rmdir"),
)


class Killer:
    """Runs changes in processes of their own, and kills them."""

    def __init__(self, interpreter: ForkingInterpreter) -> None:
        self._interpreter = interpreter

    def run(self, change: str, folder: Path, *, before_call: int = 0, fsync: bool = False) -> int | None:
        """Run a change in a process that is killed before its call number `before_call`; 0: never.

        Returns: the number of calls, or None if it was killed.
        """
        task = {"change": change, "folder": str(folder), "before_call": before_call, "fsync": fsync}
        [status] = self._interpreter.ask(**task)
        assert status != FAILED, f"the change {change!r} failed in {folder}"
        return None if status == -signal.SIGKILL else status

    def run_several(self, folder: Path, seeds: list[int], seconds: float) -> int:
        """Run a process of random changes for each seed, kill all of them, and return how many ran until then."""
        statuses: list[int] = self._interpreter.ask(folder=str(folder), seeds=seeds, seconds=seconds)
        return statuses.count(-signal.SIGKILL)


@contextmanager
def killer() -> Iterator[Killer]:
    """Start the interpreter that forks the processes."""
    with forking_interpreter(__name__) as interpreter:
        yield Killer(interpreter)


# --- in the interpreter that forks ---------------------------------------------------------------------------------


def _answer(task: dict[str, Any]) -> list[int]:
    folder = Path(task["folder"])
    if "change" in task:
        children = [fork(lambda: _run(task["change"], folder, task["before_call"], fsync=task["fsync"]))]
    else:
        children = [fork(partial(_change_randomly, folder, seed)) for seed in task["seeds"]]
        time.sleep(task["seconds"])
        for child in children:
            os.kill(child, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _run(name: str, folder: Path, before_call: int, *, fsync: bool) -> int:
    lock, count = threading.Lock(), 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            nonlocal count
            if real is not os_open or args[1] & os.O_CREAT:
                with lock:
                    count += 1
                    if count == before_call:
                        os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **keywords)

        return call

    os_open = os.open
    for call in CALLS:
        setattr(os, call, counted(getattr(os, call)))
    asyncio.run(CHANGES[name].run(folder, aiozarr.Settings(fsync=fsync)))
    assert count < FAILED
    return count


# Whoever consolidates or copies while another process changes the tree may store metadata that are outdated already.
ALONE = {"consolidate", "copy into tree"}


def _change_randomly(folder: Path, seed: int) -> int:
    chance = random.Random(seed)

    async def change() -> None:
        while True:
            name = chance.choice(sorted(CHANGES.keys() - ALONE))
            try:
                await CHANGES[name].repeat(folder, aiozarr.Settings())
            except (aiozarr.AiozarrError, IndexError, ValueError):
                # Others have deleted or moved what it needs.
                await asyncio.sleep(0.001)

    asyncio.run(change())
    return 0


if __name__ == "__main__":
    serve(_answer)
