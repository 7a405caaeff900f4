"""Every benchmark runs with a tiny amount of work; its figures are not tested."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LIVENESS = 300.0
"""Seconds after which a benchmark counts as hung."""

pytestmark = pytest.mark.skipif(not (REPOSITORY / "benchmarks").is_dir(), reason="there are no benchmarks here")


def run(module: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIVENESS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_stage_has_its_figures_and_whole_reads_have_their_shares() -> None:
    said = run("stages", "--tiny", "--python-server")
    for stage in ("plan:", "schedule:", "transport:", "decode:", "scatter:", "workers: codecs", "I/O thread:"):
        assert stage in said


def test_curves_are_tables_and_pictures(tmp_path: Path) -> None:
    run("growth", "--tiny", "--python-server", "--folder", str(tmp_path))
    for curve in ("chunks", "sizes", "latencies", "concurrencies"):
        assert (tmp_path / f"{curve}.md").read_text("utf-8").startswith("| ")
        assert "<polyline" in (tmp_path / f"{curve}.svg").read_text("utf-8")


def test_small_things_in_great_number_are_a_table_and_a_picture(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    said = run("many", "--tiny", "--rounds", "1", "--folder", str(tmp_path), "--figures", str(figures))
    assert "members, 2" in said
    assert "HTTP, p99" in said
    assert json.loads(figures.read_text("utf-8"))["many"]["headings"][0] == "µs of one"
    assert "<polyline" in (tmp_path / "many.svg").read_text("utf-8")


def test_memory_is_measured_for_each_location() -> None:
    assert "chunks of 64 KiB, HTTP" in run("memory", "--tiny", "--latency", "0", "--python-server")


@pytest.mark.skipif(find_spec("dask") is None or find_spec("zarr") is None, reason="the peers are not installed")
def test_rechunking_is_compared_with_dask_and_both_results_are_equal() -> None:
    said = run("rechunk", "--tiny")
    assert "aiozarr" in said
    assert "dask + zarr-python" in said


@pytest.mark.skipif(find_spec("xarray") is None, reason="xarray is not installed")
def test_opening_is_compared_with_xarrays_own_engine() -> None:
    said = run("xarray_opening", "--rounds", "1", "--latency", "0", "--python-server")
    assert said.count("awaited") == 2


@pytest.mark.skipif(find_spec("zarr") is None, reason="zarr-python is not installed")
def test_a_first_read_and_each_operation_on_nodes_have_their_figures() -> None:
    said = run("nodes", "--nodes", "4", "--rounds", "1")
    for name in ("aiozarr.sync", "aiozarr ls", "create_array", "group[name], consolidated"):
        assert name in said
    assert "not installed" not in said or find_spec("tensorstore") is None


@pytest.mark.skipif(find_spec("zarr") is None, reason="zarr-python is not installed")
def test_the_tile_service_is_compared_with_one_on_zarr_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILES_LEVELS", "1")
    said = run("tiles", "--clients", "2", "--seconds", "0.2", "--leave", "0", "--latency", "0", "--python-server")
    assert "zarr-python" in said


@pytest.mark.skipif(find_spec("zarr") is None or find_spec("tensorstore") is None, reason="the peers are not installed")
def test_every_kind_of_scenario_is_compared_and_all_peers_read_the_same(tmp_path: Path) -> None:
    written = tmp_path / "found.json"
    arguments = ["--size=256KiB", "--latency=0", "--rounds=1", "--repeats=1", "--python-server"]
    peers, kinds = "tensorstore@512,zarr-python@128", ["shard-plane", "points", "v2", "write-s3"]
    run(
        "compare",
        *arguments,
        f"--scenarios={','.join(kinds)}",
        f"--peers={peers}",
        f"--folder={tmp_path / 'data'}",
        f"--json={written}",
    )
    said = json.loads(written.read_text("utf-8"))
    assert said["import_seconds"]["numpy"] > 0
    assert said["import_seconds"]["aiozarr"] > 0
    found = said["scenarios"]
    assert list(found) == kinds
    for scenario in found.values():
        assert set(scenario["peers"]) == {"aiozarr", *peers.split(",")}
        # A text in place of outcomes is what a peer complained of.
        assert [peer for peer in scenario["peers"].values() if isinstance(peer, str)] == []
        assert len({outcome["digest"] for peer in scenario["peers"].values() for outcome in peer}) == 1


def test_a_soak_finds_no_wrong_value_and_nothing_that_grows() -> None:
    said = run("soak", "--minutes", "0.05", "--readers", "20", "--writers", "4", "--seed", "1")
    assert "wrong values" not in said
    assert "descriptors" in said


def test_a_scenario_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(AssertionError, match=r"no scenario none; there are medium, small"):
        run("compare", "--scenarios", "none")


def test_a_service_counts_windows_lag_and_shares(tmp_path: Path) -> None:
    from benchmarks.layouts import KIB, Layout
    from benchmarks.server import served

    layouts = [Layout(1024 * KIB, 32 * KIB), Layout(1024 * KIB, 16 * KIB, 256 * KIB)]
    (tmp_path / "bucket").mkdir()
    run("make_data", str(tmp_path / "bucket"), *[json.dumps(asdict(layout)) for layout in layouts])
    with served(tmp_path, 0.0, python=True) as server:
        task = {
            "peer": "aiozarr", "root": f"{server.url}/bucket", "names": [layout.name for layout in layouts],
            "readers": 4, "window": 16, "seconds": 0.3, "cache_bytes": 1 << 20, "leave_share": 0.1,
        }  # fmt: skip
        found = json.loads(run("service", json.dumps(task)))
        objects = run("service", "--objects", json.dumps({**task, "leave_share": 0.0, "cache_bytes": 0}))
    assert found["rate"] > 0
    assert 0 < found["latency_p50"] <= found["latency_p99"]
    assert 0 < found["slowest_share"] <= 1
    counts = dict(re.findall(r"│ (\S+) +│ +([\d.]+) │", objects))
    assert float(counts["all"]) > float(counts["builtins.coroutine"]) >= 1
