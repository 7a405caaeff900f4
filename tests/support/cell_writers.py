"""Processes that write cells of one array, each its own, and the check of what readers see of them.

A cell holds the number of its latest write times the number of cells, plus its own number: so a value says whose it
is, and of which write. Writers note each write in a file before it begins, and again when it has returned.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import aiozarr
from tests.support.child_process import LIVENESS
from tests.support.forked_processes import fork, forking_interpreter, serve

CELLS = 32
"""Cells of the array: two shards of four chunks, so each is shared by all writers."""


async def create(target: str, options: dict[str, Any]) -> None:
    """Create the array; all cells hold the write number 0."""
    values = np.arange(CELLS, dtype="i8")
    await aiozarr.create_array(target, data=values, chunks=4, shards=16, storage_options=options)


@dataclass
class History:
    """The check of reads against the notes of the writers."""

    folder: Path
    reads: int = 0

    def __post_init__(self) -> None:
        self._latest = np.zeros(CELLS, "i8")

    def noted(self, kind: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return for each cell the highest number of a write of which `kind` is noted: "begun" or "done"."""
        numbers = np.zeros(CELLS, "i8")
        for path in self.folder.glob("*.log"):
            for line in path.read_text().splitlines():
                word, cell, number = line.split()
                if word == kind:
                    numbers[int(cell)] = max(numbers[int(cell)], int(number))
        return numbers

    async def read(self, target: str, options: dict[str, Any]) -> None:
        """Read the array while it is written, and check that no value is foreign, lost or stale."""
        done = np.maximum(self.noted("done"), self._latest)
        values = await (await aiozarr.open_array(target, storage_options=options))[...]
        begun = self.noted("begun")
        seen, cells = np.divmod(values, CELLS)
        assert (cells == np.arange(CELLS)).all(), f"foreign values: {values}"
        assert (seen >= done).all(), f"lost or stale: {seen} after {done}"
        assert (seen <= begun).all(), f"never written: {seen} before {begun}"
        self._latest = seen
        self.reads += 1


async def check_history(
    target: str, options: dict[str, Any], folder: Path, chance: random.Random, *, writers: int, kills: int
) -> History:
    """Let processes write, kill one after the other, and read meanwhile. Each killed one is replaced.

    Args:
        target: the array, which `create` has made.
        options: storage options of the target.
        folder: an empty folder for the notes.
        chance: decides who is killed, and after how many writes.
        writers: processes at a time.
        kills: how many of them are killed before the end.
    """
    history = History(folder)
    with forking_interpreter(__name__) as interpreter:

        def start(number: int) -> int:
            cells = list(range(number, CELLS, writers))
            numbers = [int(history.noted("begun")[cell]) for cell in cells]
            task = {"target": target, "options": options, "log": str(folder / f"{number}.log"), "cells": cells}
            child: int = interpreter.ask(**task, numbers=numbers, seed=chance.getrandbits(32))
            return child

        children = [start(number) for number in range(writers)]
        for _ in range(kills):
            number = chance.randrange(writers)
            due = history.noted("done").sum() + chance.randint(1, 10 * writers)
            async with asyncio.timeout(LIVENESS):
                while history.noted("done").sum() < due:
                    await history.read(target, options)
            os.kill(children[number], signal.SIGKILL)
            children[number] = start(number)
        for child in children:
            os.kill(child, signal.SIGKILL)
    await history.read(target, options)
    return history


# --- in the interpreter that forks ---------------------------------------------------------------------------------


def _answer(task: dict[str, Any]) -> int:
    return fork(lambda: asyncio.run(_write(**task)))


async def _write(
    target: str, options: dict[str, Any], log: str, cells: list[int], numbers: list[int], seed: int
) -> int:
    chance = random.Random(seed)
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    array = await aiozarr.open_array(target, mode="r+", storage_options=options)
    latest = dict(zip(cells, numbers, strict=True))
    while True:
        some = chance.sample(cells, 2)
        for cell in some:
            latest[cell] += 1
            os.write(notes, f"begun {cell} {latest[cell]}\n".encode())
        await array.oindex[some].write([latest[cell] * CELLS + cell for cell in some])
        for cell in some:
            os.write(notes, f"done {cell} {latest[cell]}\n".encode())


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(_answer)
