"""Conversions by other processes: a process pool, a dask cluster, and processes that are killed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from tests.support.servers.moto import LocalS3

VALUES = np.arange(32 * 24 * 20, dtype="f4").reshape(32, 24, 20)
LAYOUT: dict[str, Any] = {"chunks": (32, 4, 4), "shards": (32, 8, 20), "max_memory": 100_000}

# Converts the first URL to the second one with resume, and prints the report's counts.
CONVERT = """
import sys
from aiozarr import Settings, sync
source, result, *options = sys.argv[1:]
options = dict(each.split("=", 1) for each in options)
print("begun", flush=True)
report = sync.convert(
    source, result, chunks=(32, 2, 2), max_memory=30_000, resume=True, source_options=options,
    destination_options=options,
)
print(report.skipped, report.tasks)
"""


def test_a_process_pool_converts_with_the_report_of_one_process(tmp_path: Path) -> None:
    sync.create_array(tmp_path / "maps", data=VALUES, chunks=(1, 24, 20))
    here = sync.convert(tmp_path / "maps", tmp_path / "here", **LAYOUT)
    seen: list[aiozarr.Progress] = []
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        there = sync.convert(tmp_path / "maps", tmp_path / "there", **LAYOUT, executor=executor, progress=seen.append)
        with pytest.raises(OverflowError, match="out of range for int8"):
            sync.convert(tmp_path / "maps", tmp_path / "cast", dtype="int8", executor=executor)
    assert (here.tasks, here.bytes, here.bytes_read) == (there.tasks, there.bytes, there.bytes_read)
    assert (seen[-1].done, seen[-1].bytes_done) == (there.tasks, VALUES.nbytes)
    assert np.array_equal(sync.open_array(tmp_path / "there")[...], VALUES)


# Another scheduler has only the pickled task.
RUN_PICKLED = "import pickle, sys\nwhile task := sys.stdin.readline(): pickle.loads(bytes.fromhex(task)).run()"


def test_another_scheduler_runs_pickled_tasks_between_prepare_and_finish(tmp_path: Path) -> None:
    tree, result = sync.create_group(tmp_path / "tree"), tmp_path / "result"
    tree.create_array("maps", data=VALUES, chunks=(1, 24, 20))
    sync.consolidate_metadata(tmp_path / "tree")
    options: dict[str, Any] = {"chunks": (32, 2, 2), "max_memory": 30_000, "max_amplification": 1}
    plan = sync.plan_conversion(tmp_path / "tree", result, **options)
    assert len(plan.stages) > 1
    with pytest.raises(aiozarr.CopyError, match="not prepared"):
        plan.finish()
    plan.prepare()
    with pytest.raises(aiozarr.CopyError, match="interrupted conversion"):
        plan.prepare()
    total = sum(stage.tasks for stage in plan.stages)
    for stage in range(len(plan.stages)):
        tasks = list(plan.tasks(stage))
        if stage == len(plan.stages) - 1:
            last = tasks.pop()
        lines = "\n".join([pickle.dumps(task).hex() for task in [*reversed(tasks), tasks[0]]])
        subprocess.run([sys.executable, "-c", RUN_PICKLED], input=lines, text=True, check=True)
    with pytest.raises(aiozarr.CopyError, match=f"1 of {total} tasks"):
        plan.finish()
    with pytest.raises(aiozarr.NodeNotFoundError):
        sync.open(result)
    last.run()
    pickle.loads(pickle.dumps(plan)).finish()
    assert sorted(each.name for each in result.iterdir()) == ["maps", "zarr.json"]
    found = sync.open_group(result)
    assert found.metadata.consolidated is not None
    assert np.array_equal(found["maps"][...], VALUES)


def test_a_killed_conversion_never_looks_complete_and_is_resumed(s3_server: LocalS3) -> None:
    bucket = f"conversion-{uuid4().hex[:12]}"
    s3_server.create_bucket(bucket)
    options = s3_server.storage_options
    source, result = f"s3://{bucket}/maps", f"s3://{bucket}/series"
    sync.create_array(source, data=VALUES, chunks=(1, 24, 20), storage_options=options)
    arguments = [source, result, *[f"{name}={value}" for name, value in options.items()]]
    kills = 0
    for seconds in (0.1, 0.3, 0.6, 1.2):
        process = subprocess.Popen([sys.executable, "-c", CONVERT, *arguments], stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            killed = process.wait() == -signal.SIGKILL
        if not killed:
            break
        kills += 1
        try:
            # A document is there only if everything else is.
            found = sync.open_array(result, storage_options=options)[...]
        except aiozarr.NodeNotFoundError:
            continue
        assert np.array_equal(found, VALUES)
    assert kills
    # The last one may have been killed after its last write.
    with contextlib.suppress(aiozarr.NodeExistsError):
        both: dict[str, Any] = {"source_options": options, "destination_options": options}
        sync.convert(source, result, chunks=(32, 2, 2), max_memory=30_000, resume=True, **both)
    assert np.array_equal(sync.open_array(result, storage_options=options)[...], VALUES)


def write_part(url: str, start: int) -> None:
    """Write every fourth row: part of every shard."""
    array = sync.open_array(url, mode="r+")
    for row in range(start, 32, 4):
        array[row] = VALUES[row]


# A cluster takes seconds to start: it belongs to the lane of servers, though no system package is needed.
@pytest.mark.servers
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_converts_survives_a_killed_worker_and_shares_shards(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    sync.create_array(tmp_path / "maps", data=VALUES, chunks=(1, 24, 20))
    small: dict[str, Any] = {"chunks": (32, 2, 2), "max_memory": 30_000}
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        report = sync.convert(tmp_path / "maps", tmp_path / "series", **LAYOUT, executor=executor)
        assert report.bytes == VALUES.nbytes
        assert np.array_equal(sync.open_array(tmp_path / "series")[...], VALUES)

        with pytest.raises(OverflowError, match="out of range for int8"):
            sync.convert(tmp_path / "maps", tmp_path / "cast", dtype="int8", executor=executor)

        pids = list(client.run(os.getpid).values())

        def kill_one(progress: aiozarr.Progress) -> None:
            if progress.done == 3:
                os.kill(pids[0], signal.SIGKILL)

        report = sync.convert(tmp_path / "maps", tmp_path / "killed", **small, executor=executor, progress=kill_one)
        assert report.tasks == sum(stage.tasks for stage in plan_stages(tmp_path, small))
        assert np.array_equal(sync.open_array(tmp_path / "killed")[...], VALUES)

        # Elsewhere, parallel writers of parts of one shard lose each other's inner chunks without a word.
        shared = sync.create_array(
            tmp_path / "shared", shape=VALUES.shape, dtype="f4", chunks=(1, 4, 4), shards=(16, 8, 20)
        )
        client.gather(client.map(write_part, [str(tmp_path / "shared")] * 4, range(4)))
        assert np.array_equal(shared[...], VALUES)


def plan_stages(folder: Path, options: dict[str, Any]) -> Any:
    return sync.plan_conversion(folder / "maps", folder / "none", **options).stages
