"""Run the fuzz targets of `tests/fuzz`, each in a process of its own, and report what they find.

`make fuzz SECONDS=60` runs all of them with a new seed, and `make fuzz TARGET=zip SEED=1 N=5` one input again. Each
finding is a file in `fuzz-findings/`, with its traceback and its input. `AIOZARR_FIXTURES` adds documents of a folder.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import random
import subprocess
import sys
from pathlib import Path

from tests.fuzz.machine import TARGETS, Found, fuzz

FOLDER = Path("fuzz-findings")


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--target", choices=TARGETS, help="this target only")
    parser.add_argument("--seed", type=int, help="repeats a run; random otherwise")
    parser.add_argument("--number", type=int, help="this one input only")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.here:
        return run_here(options.target, seed, options.seconds, options.number)
    print(f"SEED={seed} repeats this run; an input depends on TARGET, SEED and its number N", flush=True)
    statuses = [
        run_apart(target, seed, arguments) for target in ([options.target] if options.target is not None else TARGETS)
    ]
    return int(any(statuses))


def run_apart(target: str, seed: int, arguments: list[str]) -> int:
    """Run a target in a process of its own: a crash of a C library is a finding, too, and ends no other target."""
    command = [sys.executable, "-m", "tests.fuzz", *arguments, "--here", "--target", target, "--seed", str(seed)]
    status = subprocess.run(command, check=False).returncode
    if status not in (0, 1):
        number = last(target).read_text("utf-8")
        print(f"{target}: the process ended with status {status}: make fuzz TARGET={target} SEED={seed} N={number}")
    last(target).unlink(missing_ok=True)
    return status


def last(target: str) -> Path:
    """The file that has the number of the input that a target runs."""
    return FOLDER / f"{target}.running"


def run_here(name: str, seed: int, seconds: float, number: int | None) -> int:
    """Run a target in this process; write each kind of finding to a file, and print how to repeat it."""
    faulthandler.enable()
    FOLDER.mkdir(exist_ok=True)

    def report(found: Found) -> None:
        path = FOLDER / f"{name}-{seed}-{found.number}.txt"
        text = f"{found.finding.kind}\n\n{found.finding.report}\n\n{found.input}\n"
        path.write_text(text, "utf-8", "backslashreplace")
        again = f"make fuzz TARGET={name} SEED={seed} N={found.number}"
        print(f"  {found.finding.kind}: the input is in {path}; {again}", flush=True)

    numbers = None if number is None else [number]
    target, running = TARGETS[name](), last(name)
    run = asyncio.run(fuzz(target, seed, numbers=numbers, seconds=seconds, running=running, report=report))
    counts = ", ".join(f"{count} x {kind}" for kind, count in run.counts.items()) or "nothing found"
    rate = run.inputs / run.seconds
    print(f"{name:20} {run.inputs:7} inputs in {run.seconds:5.1f} s, {rate:5.0f}/s: {counts}", flush=True)
    return int(bool(run.found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
