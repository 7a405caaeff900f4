"""Runs the suites of `suites.toml` in their environments, and compares their failures with `deviations.toml`.

    python -m scripts.ecosystem [SUITE ...] [--world NAME ...] [--stock] [--processes 2]

A suite is named by the beginning of its name. A failure that `deviations.toml` does not list, and a suite whose reads
and writes aiozarr did not take, fail the run. `--stock` runs the suites without aiozarr and lists their failures, for
`deviations.toml`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scripts.ecosystem.worlds import HERE, ROOT, World, build, describe, environment

STOCK_PIPELINE = "zarr.core.codec_pipeline.BatchedCodecPipeline"


@dataclass
class Result:
    """What a suite has come to.

    Attributes:
        passed, skipped: how many tests.
        failed: the names of the others.
        usage: reads, writes and fallbacks of the codec pipeline.
        seconds: how long it took.
        broken: why there is no result, if there is none.
    """

    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    broken: str = ""


def main(arguments: list[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.ecosystem", description=__doc__)
    parser.add_argument("suites", nargs="*", help="beginnings of names of suites; all by default")
    parser.add_argument("--world", action="append", help="names of worlds; all by default")
    parser.add_argument("--oldest", default=sys.executable, help="the interpreter of the world 'oldest'")
    parser.add_argument("--newest", default=sys.executable, help="the interpreter of the world 'newest'")
    parser.add_argument("--folder", type=Path, default=ROOT / ".ecosystem", help="where environments are built")
    parser.add_argument("--stock", action="store_true", help="run without aiozarr, and list the failures")
    parser.add_argument("--processes", type=int, default=2, help="test processes of each suite")
    options = parser.parse_args(arguments)
    described = describe()
    interpreters = {"oldest": options.oldest, "newest": options.newest}
    status = 0
    for name, world in described["worlds"].items():
        if options.world and name not in options.world:
            continue
        suites = {
            suite: each
            for suite, each in described["suites"].items()
            if name in each["worlds"] and (not options.suites or suite.startswith(tuple(options.suites)))
        }
        if not suites:
            continue
        built = build(name, world, interpreters[world.get("python", name)], options.folder)
        for suite, each in suites.items():
            result = run(built, suite, each, stock=options.stock, processes=options.processes)
            status |= report(name, suite, each, result, stock=options.stock)
    return status


def run(world: World, suite: str, described: dict[str, Any], *, stock: bool, processes: int) -> Result:
    """Run one suite; its output goes to a file beside the result."""
    home = world.python.parents[2] / "results"
    home.mkdir(exist_ok=True)
    label = f"{suite}{'-stock' if stock else ''}"
    folder = world.sources[described["source"]] if "source" in described else home / f"{suite}-tests"
    for name in described.get("files", ()):
        # Beside the foreign tests, whose classes they subclass.
        target = folder / described.get("into", "") / Path(name).name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "suites" / name, target)
    outcome, log = home / f"{label}.json", home / f"{label}.txt"
    outcome.unlink(missing_ok=True)
    settings = {**described.get("environment", {}), "ECOSYSTEM_RESULT": str(outcome), "PYTHONPATH": str(ROOT)}
    if stock:
        settings["ZARR_CODEC_PIPELINE__PATH"] = STOCK_PIPELINE
        settings["ECOSYSTEM_STOCK"] = "1"
    command = [str(world.python), "-m", "pytest", "-p", "scripts.ecosystem.recorder", "-p", "no:cacheprovider", "-q"]
    command += ["--tb=short", *(["-n", str(processes)] if described.get("parallel", True) else [])]
    begun, timed_out = time.monotonic(), False
    with log.open("w") as output:
        try:
            subprocess.run(
                [*command, *described["arguments"]],
                cwd=folder,
                env=environment(**settings),
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=described.get("timeout", 1200),
                check=False,
            )
        except subprocess.TimeoutExpired:
            timed_out = True
    seconds = time.monotonic() - begun
    if timed_out or not outcome.exists():
        return Result(seconds=seconds, broken=f"{'it took too long' if timed_out else 'pytest failed'}: see {log}")
    found = json.loads(outcome.read_text("utf-8"))
    outcomes = found["outcomes"]
    return Result(
        passed=sum([each == "passed" for each in outcomes.values()]),
        skipped=sum([each == "skipped" for each in outcomes.values()]),
        failed=sorted([test for test, each in outcomes.items() if each == "failed"]),
        usage=found["usage"],
        seconds=seconds,
    )


def report(world: str, suite: str, described: dict[str, Any], result: Result, *, stock: bool) -> int:
    """Print the result; return 1 if it has a failure that no deviation explains."""
    title = f"{world} {suite}{' (stock)' if stock else ''}"
    if result.broken:
        print(f"{title}: {result.broken}", flush=True)
        return 1
    patterns = [
        _glob(each["test"])
        for each in deviations()
        if world in each["worlds"] and suite in each["suites"] and (each["stock"] or not stock)
    ]
    unexplained = [test for test in result.failed if not any(fnmatchcase(test, pattern) for pattern in patterns)]
    unused = described.get("takes", ()) if not stock and world not in described.get("untaken", ()) else ()
    unused = [what for what in unused if not result.usage.get(what)]
    usage = ", ".join(f"{what} {result.usage.get(what, 0)}" for what in ("reads", "writes", "opened"))
    fallbacks = "".join(f"; {count} left: {reason}" for reason, count in result.usage.get("fallbacks", {}).items())
    listed, others = len(result.failed) - len(unexplained), len(unexplained)
    print(
        f"{title}: {result.passed} passed, {listed} failed as listed, {others} others, {result.skipped} skipped "
        f"in {result.seconds:.0f} s ({usage}{fallbacks})",
        flush=True,
    )
    for test in unexplained:
        print(f"  not in deviations.toml: {test}", flush=True)
    for what in unused:
        print(f"  aiozarr was used for no {what}", flush=True)
    return int(bool(unexplained or unused))


def deviations() -> list[dict[str, Any]]:
    """Return the failures that are known, each with its reason."""
    listed: list[dict[str, Any]] = tomllib.loads((HERE / "deviations.toml").read_text("utf-8")).get("deviation", [])
    return listed


def _glob(test: str) -> str:
    """Return a pattern in which only `*` is special: brackets are parts of the names of tests."""
    return test.replace("[", "[[]")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
