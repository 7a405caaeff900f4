"""Every data type × codec × format in both directions with other implementations, each in an environment of its own.

`make test-peers` builds the environments and names their folder in AIOZARR_PEERS; with AIOZARR_WRITE_TABLE set, the run
writes the tables of docs/reference/compatibility.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pytest

from aiozarr import AiozarrError
from aiozarr import sync as aiozarr
from tests.support.generated_part import COMPATIBILITY, write_part
from tests.support.interop_cases import Case, all_cases, contents
from tests.support.interop_peer import lay_down
from tests.support.interop_values import AnyArray, dump, load, plain, same

FOLDER = os.environ.get("AIOZARR_PEERS")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="AIOZARR_PEERS names no environments of peers (make test-peers)")

REPOSITORY = Path(__file__).parents[2]

PEERS = {
    "zarr2": ("zarr-python 2", "zarr2"),
    "zarr3": ("zarr-python 3", "newest"),
    "tensorstore": ("TensorStore", "newest"),
    "zarrs": ("zarrs (zarr-python pipeline)", "newest"),
    "zarrista": ("zarrista", "newest"),
    "gdal": ("GDAL", "newest"),
    "netcdf": ("netCDF-C", "newest"),
}
FORMATS = {"zarr2": (2,), "netcdf": (2,)}

Status = Literal["equal", "no", "wrong", "refused"]


@dataclass
class Peer:
    """A worker process."""

    name: str
    process: subprocess.Popen[str]
    version: str = ""

    @classmethod
    def start(cls, name: str) -> Peer:
        python = Path(str(FOLDER), PEERS[name][1], "bin", "python")
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(
            [python, "-m", "tests.support.interop_peer", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        peer = cls(name, process)
        peer.version = str(peer._answer()["ok"])
        return peer

    def ask(self, **order: Any) -> dict[str, Any]:
        if self.process.poll() is not None:
            self.close()
            self.process = Peer.start(self.name).process
        _pipe(self.process.stdin).write(json.dumps(order) + "\n")
        _pipe(self.process.stdin).flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = _pipe(self.process.stdout).readline()
        if not line:
            self.process.wait()
            return {"no": f"the process ended with status {self.process.returncode}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            _pipe(pipe).close()
        self.process.wait()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@dataclass
class Results:
    """What became of each case, by peer and direction."""

    statuses: dict[tuple[str, str], dict[Case, tuple[Status, str]]] = field(default_factory=lambda: defaultdict(dict))
    versions: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    gathered = Results()
    yield gathered
    if os.environ.get("AIOZARR_WRITE_TABLE") and len(gathered.versions) == len(PEERS):
        write_part(COMPATIBILITY, "implementations", summary(gathered))
        write_part(COMPATIBILITY, "arrays", render(gathered))


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    started = Peer.start(request.param)
    yield started
    started.close()


def cases_of(peer: Peer) -> list[Case]:
    return [case for case in all_cases() if case.zarr_format in FORMATS.get(peer.name, (2, 3))]


def test_arrays_written_by_a_peer_are_read(peer: Peer, results: Results, tmp_path: Path) -> None:
    found = {}
    for number, case in enumerate(cases_of(peer)):
        found[case] = exchange_from(peer, case, tmp_path / str(number))
    judge(peer, "read", found, results)


def test_arrays_written_by_aiozarr_are_read_by_a_peer(peer: Peer, results: Results, tmp_path: Path) -> None:
    found = {}
    for number, case in enumerate(cases_of(peer)):
        found[case] = exchange_to(peer, case, tmp_path / str(number))
    judge(peer, "written", found, results)


def exchange_from(peer: Peer, case: Case, folder: Path) -> tuple[Status, str]:
    folder.mkdir()
    values = contents(case.kind)
    dump(values, folder / "values")
    order = {"path": str(folder / "a"), "document": case.document, "values": str(folder / "values")}
    answer = peer.ask(op="write", dtype=dtype_name(values), **order)
    if "no" in answer:
        return "no", answer["no"]
    # NCZarr stores a dataset, which is a group.
    node = "v" if peer.name == "netcdf" else ""
    if (folder / "a" / "a").exists():
        node = "a"  # and so is what GDAL stores, at times
    try:
        read = aiozarr.open_array(folder / "a", node)[...]
    except AiozarrError as error:
        return "refused", str(error)
    expected = values if answer["ok"] == len(values) else written(case)
    return compare(canonical(read), canonical(expected))


def exchange_to(peer: Peer, case: Case, folder: Path) -> tuple[Status, str]:
    path = folder / "group" / "a"
    lay_down(path, case.document)
    if peer.name == "netcdf":
        (path.parent / ".zgroup").write_text('{"zarr_format": 2}', "utf-8")
    values = contents(case.kind)
    try:
        array = aiozarr.open_array(path, mode="r+")
        array.update_attributes({"written": "here"})
        array[:4] = values[:4]
    except AiozarrError as error:
        return "refused", str(error)
    answer = peer.ask(op="read", path=str(path), values=str(folder / "values"))
    if "no" in answer:
        return "no", answer["no"]
    return compare(load(folder / "values"), canonical(written(case)))


def compare(read: AnyArray, expected: AnyArray) -> tuple[Status, str]:
    if same(read, expected):
        return "equal", ""
    if read.shape != expected.shape:
        return "wrong", f"shape {read.shape} is not {expected.shape}"
    # 0-d slices, because a scalar of some types compares in its own way.
    at = next(i for i in np.ndindex(read.shape) if not same(read[(*i, ...)], expected[(*i, ...)]))
    return "wrong", f"{read[at]!r} ({read.dtype}) is not {expected[at]!r} at {at}"


def written(case: Case) -> AnyArray:
    """What is there after four rows were written: stored chunks and missing ones hold the fill value alike."""
    return contents(case.kind)


def canonical(array: AnyArray) -> AnyArray:
    return array.astype(object) if array.dtype.kind in "OT" else plain(array)


def dtype_name(array: AnyArray) -> str:
    ours = array.dtype.type.__module__.startswith("ml_dtypes")
    return f"ml_dtypes.{array.dtype.name}" if ours else array.dtype.str


# What peers do wrong, by peer, direction and a part of the case's name. A case that is here and passes is an error too.
KNOWN: dict[tuple[str, str], tuple[str, ...]] = {
    # The fill value of bytes is handed out as the text that stands for it in the document.
    ("zarr2", "written"): ("v2-vlen-bytes",),
    # A fill value of 1.0 becomes 2^-64: the upper byte of 1.0 as float32 is taken for the exponent.
    ("tensorstore", "written"): ("float8_e8m0fnu",),
    # Real and imaginary part change places, and integers go by way of float32.
    ("zarrs", "read"): ("v2-<i4-filter-scale",),
    ("zarrs", "written"): ("v3-complex64-big-endian", "v3-complex128-big-endian", "v2-<i4-filter-scale"),
    # `order` is not looked at, and a fill value is not swapped.
    ("netcdf", "written"): ("order-F", "v2->"),
}


def judge(peer: Peer, direction: str, found: dict[Case, tuple[Status, str]], results: Results) -> None:
    results.versions[peer.name] = peer.version
    results.statuses[peer.name, direction] = found
    known = KNOWN.get((peer.name, direction), ())
    bad = {case.name: (status, why) for case, (status, why) in found.items() if status in ("wrong", "refused")}
    unknown = {name: what for name, what in bad.items() if not any(part in name for part in known)}
    if os.environ.get("AIOZARR_SHOW_PEERS"):
        for case, (status, why) in found.items():
            if status != "equal":
                sys.stderr.write(f"{peer.name} {direction} {case.name}: {status}: {why[:200]}\n")
        sys.stderr.write(f"FLOOR {peer.name} {direction} {sum(status == 'equal' for status, _ in found.values())}\n")
    assert not unknown, f"{len(unknown)} of {len(found)}"
    equal = [case for case, (status, _) in found.items() if status == "equal"]
    assert len(equal) >= FLOORS[peer.name, direction]
    assert all(any(part in name for name in bad) for part in known), "a fault that is gone is still on the list"


# How many cases were exchanged when this was written; nothing lowers them but another version of the peer.
FLOORS = {
    ("zarr2", "read"): 381,
    ("zarr2", "written"): 381,
    ("zarr3", "read"): 736,
    ("zarr3", "written"): 736,
    ("tensorstore", "read"): 415,
    ("tensorstore", "written"): 408,
    ("zarrs", "read"): 361,
    ("zarrs", "written"): 255,
    ("zarrista", "read"): 259,
    ("zarrista", "written"): 328,
    ("gdal", "read"): 140,
    ("gdal", "written"): 278,
    ("netcdf", "read"): 20,
    ("netcdf", "written"): 70,
}


# --- the tables -----------------------------------------------------------------------------------------------------


def summary(results: Results) -> str:
    """One row for each implementation."""
    parts = ["| implementation | formats | arrays | read here | written here |\n|---|---|---|---|---|"]
    for name, (title, _) in PEERS.items():
        formats = FORMATS.get(name, (2, 3))
        cases = [case for case in all_cases() if case.zarr_format in formats]
        numbers = " and ".join(map(str, formats))
        counts = " | ".join(str(count_equal(results, name, direction, cases)) for direction in ("read", "written"))
        parts.append(f"| {title} {results.versions[name]} | {numbers} | {len(cases)} | {counts} |")
    return "\n".join(parts)


def render(results: Results) -> str:
    names = [title.partition(" (")[0] for title, _ in PEERS.values()]
    parts = []
    for zarr_format in (2, 3):
        cases = [case for case in all_cases() if case.zarr_format == zarr_format]
        for title, of in (("Data types", lambda case: case.kind.name), ("Codecs and layouts", lambda case: case.codec)):
            groups: dict[str, list[Case]] = defaultdict(list)
            for case in cases:
                groups[of(case)].append(case)
            parts.append(f"\n### Format {zarr_format}: {title.lower()}\n")
            parts.append(f"| | cases | {' | '.join(names)} |\n|---|---:|{'---:|' * len(names)}")
            for group, members in groups.items():
                cells = [cell(results, name, members) for name in PEERS]
                parts.append(f"| `{group}` | {len(members)} | {' | '.join(cells)} |")
    parts.append("")
    return "\n".join(parts)


def count_equal(results: Results, name: str, direction: str, cases: list[Case]) -> int:
    found = results.statuses[name, direction]
    return sum([found.get(case, ("no", ""))[0] == "equal" for case in cases])


def cell(results: Results, name: str, members: list[Case]) -> str:
    counts = [count_equal(results, name, direction, members) for direction in ("read", "written")]
    return f"{counts[0]} / {counts[1]}" if any(counts) else "–"
