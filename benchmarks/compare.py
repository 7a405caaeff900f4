"""aiozarr beside its peers: scenario by scenario, every peer in a fresh process, in alternating order.

python -m benchmarks.compare --peers-python .venv-peers/bench/bin/python     (or: make bench)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.figures import add_section, medians
from benchmarks.import_time import PEER_STATEMENTS, STATEMENTS, import_lines, import_seconds
from benchmarks.layouts import CODECS, MIB, Layout, size_of
from benchmarks.peers import BEST, BUCKET, PEERS, split
from benchmarks.run import Outcome, Task, command
from benchmarks.scenarios import Scenario, scenarios
from benchmarks.server import REPOSITORY, Server, served
from benchmarks.service import compare_services, service_table
from benchmarks.table import comparison, console_of, summary

SERVICE = "service"
"""Many readers of windows, which is no operation of one array: `benchmarks.service` measures it."""

QUICK = ("medium", "small", "shard-plane", "points", "local-small")
TASK_SECONDS = 600
Outcomes = dict[str, list[Outcome] | str]
"""The outcomes of one scenario by peer, or the reason why there are none."""


def options() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join([*scenarios(512 * MIB), SERVICE])
    parser.add_argument(
        "--scenarios", metavar="NAMES", help=f"with commas between; default: all but the last of {names}"
    )
    parser.add_argument(
        "--peers", default=",".join(BEST), help=f"of {', '.join(PEERS)}, each with @REQUESTS or without"
    )
    parser.add_argument("--me", default="aiozarr", help="who is compared with the others (default: %(default)s)")
    parser.add_argument("--peers-python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--size", type=size_of, default=512 * MIB, help="of the arrays, a power of two (512MiB)")
    parser.add_argument("--chunk", type=size_of, help="chunk size in place of each scenario's own, such as 256KiB")
    parser.add_argument("--shard", type=size_of, help="shard size in place of the sharded scenarios' own")
    parser.add_argument("--codec", choices=CODECS, help="in place of each scenario's own")
    parser.add_argument("--latency", type=float, default=20.0, help="ms to the first byte of each answer (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each peer and scenario (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="operations in each process (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="about two minutes: some scenarios, 64 MiB, one round")
    parser.add_argument("--python-server", action="store_true", help="use the server in Python although nginx is there")
    parser.add_argument("--folder", type=Path, help="where the arrays are kept (default: below the temporary folder)")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    parser.add_argument("--figures", type=Path, help="update the sections of this run in docs/figures.json")
    return parser


def chosen(arguments: argparse.Namespace) -> list[Scenario]:
    """Return the scenarios that are asked for, changed as asked.

    Raises:
        ValueError: there is no such scenario, or sizes do not fit.
    """
    if arguments.quick:
        arguments.size, arguments.rounds = min(arguments.size, 64 * MIB), 1
    known = scenarios(arguments.size)
    names = arguments.scenarios.split(",") if arguments.scenarios else list(QUICK if arguments.quick else known)
    unknown = sorted(set(names) - {*known, SERVICE})
    if unknown:
        raise ValueError(f"no scenario {', '.join(unknown)}; there are {', '.join(known)}, {SERVICE}")
    return [_changed(known[name], arguments) for name in names if name != SERVICE]


def _changed(scenario: Scenario, arguments: argparse.Namespace) -> Scenario:
    changes: dict[str, Any] = {}
    if arguments.chunk:
        changes["chunk"] = arguments.chunk
    if arguments.shard and scenario.layout.shard:
        changes["shard"] = arguments.shard
    if arguments.codec:
        changes["codec"] = arguments.codec
    return replace(scenario, layout=replace(scenario.layout, **changes)) if changes else scenario


def prepare(python: str, folder: Path, layouts: Sequence[Layout]) -> None:
    """Have zarr-python write the arrays that are not there yet.

    Raises:
        subprocess.CalledProcessError: it has not.
    """
    wanted = {layout.name: layout for layout in layouts if not (folder / layout.name).exists()}
    if wanted:
        arguments = [json.dumps(asdict(layout)) for layout in wanted.values()]
        subprocess.run([python, "-m", "benchmarks.make_data", str(folder), *arguments], cwd=REPOSITORY, check=True)


@contextmanager
def target(folder: Path, scenario: Scenario) -> Iterator[str]:
    """Yield the name of the array to work on: for a write one with the metadata of the scenario's array alone."""
    if scenario.what != "write":
        yield scenario.layout.name
        return
    name = f"written-{os.getpid()}"
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir()
    for document in ("zarr.json", ".zarray", ".zattrs"):
        if (folder / scenario.layout.name / document).exists():
            shutil.copy(folder / scenario.layout.name / document, folder / name / document)
    try:
        yield name
    finally:
        shutil.rmtree(folder / name, ignore_errors=True)


def measure(
    peer: str, scenario: Scenario, pythons: dict[str, str], folder: Path, server: Server, repeats: int
) -> Outcome | str:
    """Run one process; return its measurements, or the last line of its error output."""
    python = pythons["aiozarr" if split(peer)[0] == "aiozarr" else "peers"]
    root = str(folder) if scenario.where == "local" else server.url
    with target(folder, scenario) as name:
        task = Task(peer, scenario.what, scenario.where, root, name, asdict(scenario.layout), repeats)
        outcome = _started(command(python, task))
        if scenario.what == "write" and isinstance(outcome, Outcome):
            # What was written counts as what a peer reads of it.
            check = Task("zarr-python", "whole", "local", str(folder), name, asdict(scenario.layout), 1)
            back = _started(command(pythons["peers"], check))
            outcome = replace(outcome, digest=back.digest) if isinstance(back, Outcome) else f"unreadable: {back}"
        return outcome


def _started(arguments: list[str]) -> Outcome | str:
    try:
        done = subprocess.run(
            arguments, cwd=REPOSITORY, capture_output=True, text=True, timeout=TASK_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"more than {TASK_SECONDS} s"
    if done.returncode:
        # A library that brings down its process says nothing; the status is minus the number of the signal then.
        return (done.stderr.strip().splitlines() or [f"it said nothing, exit status {done.returncode}"])[-1]
    return Outcome(**json.loads(done.stdout.strip().splitlines()[-1]))


def compare(
    scenario: Scenario, everyone: Sequence[str], pythons: dict[str, str], folder: Path, server: Server, args: Any
) -> Outcomes:
    """Measure everyone in turn; the order turns round after each round, so that drift hits all alike."""
    outcomes: Outcomes = {peer: [] for peer in everyone}
    for number in range(args.rounds):
        for peer in everyone if number % 2 == 0 else everyone[::-1]:
            kept = outcomes[peer]
            if isinstance(kept, str):
                continue
            outcome = measure(peer, scenario, pythons, folder, server, args.repeats)
            if isinstance(outcome, str):
                outcomes[peer] = outcome
            else:
                kept.append(outcome)
    return outcomes


def ratio(outcomes: Outcomes, me: str) -> float | None:
    """Return my median seconds over the best peer's; None where there are not both."""
    medians = {
        peer: statistics.median([outcome.seconds for outcome in kept])
        for peer, kept in outcomes.items()
        if not isinstance(kept, str)
    }
    others = [seconds for peer, seconds in medians.items() if peer != me]
    return medians[me] / min(others) if me in medians and others else None


def main() -> int:
    """Compare, print, and return 1 where digests differ or aiozarr failed."""
    parser = options()
    args = parser.parse_args()
    try:
        wanted = chosen(args)
        everyone = [args.me, *[peer for peer in args.peers.split(",") if peer]]
        for peer in everyone:
            split(peer)
    except ValueError as error:
        parser.error(str(error))
    root = args.folder or Path(tempfile.gettempdir(), "aiozarr-bench")
    folder = root / BUCKET
    folder.mkdir(parents=True, exist_ok=True)
    pythons = {"aiozarr": sys.executable, "peers": args.peers_python}
    console = console_of()
    service = [scenarios(args.size)[name].layout for name in ("medium", "shard-plane")] if _wants_service(args) else []
    prepare(args.peers_python, folder, [*[scenario.layout for scenario in wanted], *service])
    found: dict[str, Outcomes] = {}
    with served(root, args.latency / 1000, python=args.python_server) as server:
        console.print(f"{server.name}; {args.rounds} rounds of {args.repeats} operations in fresh processes")
        for scenario in wanted:
            found[scenario.name] = compare(
                scenario,
                everyone,
                pythons,
                folder,
                server,
                args,
            )
            console.print(comparison(scenario, found[scenario.name], args.me, ratio(found[scenario.name], args.me)))
        if service:
            root, names = f"{server.url}/{BUCKET}", [layout.name for layout in service]
            loads: dict[str, Any] = {}
            for title, outcomes in compare_services(everyone, pythons, root, names, args.rounds):
                console.print(service_table(f"service: {title}", outcomes))
                loads[title] = medians(outcomes)
            add_section(args.figures, "service", {"loads": loads})
        imports = import_seconds(
            dict.fromkeys(STATEMENTS, sys.executable) | {each: str(args.peers_python) for each in PEER_STATEMENTS},
            {**STATEMENTS, **PEER_STATEMENTS},
            args.rounds,
        )
        for line in import_lines(imports):
            console.print(line)
        console.print(summary({name: ratio(outcomes, args.me) for name, outcomes in found.items()}))
        if found:
            section = "reads" if args.me == "aiozarr" else args.me
            medians_by_name = {name: medians(outcomes) for name, outcomes in found.items()}
            add_section(args.figures, section, {"server": server.name, "scenarios": medians_by_name})
        if args.me == "aiozarr":
            add_section(args.figures, "imports", {"seconds": imports})
        if args.json:
            measured = {**_plain(found, server, args.me), "import_seconds": imports}
            args.json.write_text(json.dumps(measured, indent=1), "utf-8")
    return int(any([_wrong(outcomes, args.me) for outcomes in found.values()]))


def _wants_service(arguments: argparse.Namespace) -> bool:
    return SERVICE in (arguments.scenarios or "").split(",")


def _wrong(outcomes: Outcomes, me: str) -> bool:
    digests = {outcome.digest for kept in outcomes.values() if not isinstance(kept, str) for outcome in kept}
    return isinstance(outcomes[me], str) or len(digests) > 1


def _plain(found: dict[str, Outcomes], server: Server, me: str) -> dict[str, Any]:
    plain = {
        name: {
            "ratio": ratio(outcomes, me),
            "peers": {
                peer: kept if isinstance(kept, str) else [asdict(each) for each in kept]
                for peer, kept in outcomes.items()
            },
        }
        for name, outcomes in found.items()
    }
    return {"server": server.name, "cores": os.cpu_count(), "python": sys.version.split()[0], "scenarios": plain}


if __name__ == "__main__":
    sys.exit(main())
