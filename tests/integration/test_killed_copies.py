"""Copies from a bucket that are killed at random moments, and resumed: whole, equal, and never complete too early."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiozarr.stores import ObjectStore
from tests.support.servers.moto import LocalS3

CHUNKS = 300
COPY = """
import asyncio, json, sys
import aiozarr
options = json.loads(sys.argv[3])
settings = aiozarr.Settings(max_requests=8, max_request_bytes=1 << 20)
print("started", flush=True)
report = asyncio.run(
    aiozarr.copy(sys.argv[1], sys.argv[2], source_options=options, resume=True, settings=settings)
)
print(report.objects, report.skipped, flush=True)
"""


def tree(source: random.Random) -> dict[str, bytes]:
    chunks = {f"a/c/{n}": source.randbytes(source.randrange(1, 5000)) for n in range(CHUNKS)}
    return {"zarr.json": b"{}", "a/zarr.json": b'{"a": 1}', "a/c/large": source.randbytes(5 << 20), **chunks}


def stored(folder: Path) -> dict[str, bytes]:
    names = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def check_unfinished(folder: Path, expected: dict[str, bytes]) -> None:
    """No object is partial, and no document is there before everything below its node."""
    found = {key: data for key, data in stored(folder).items() if ".aiozarr-" not in key}
    assert all(expected[key] == data for key, data in found.items())
    if "a/zarr.json" in found:
        assert {key for key in expected if key.startswith("a/")} <= found.keys()
    if "zarr.json" in found:
        assert found == expected


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.servers)])
def test_a_killed_copy_is_resumed_and_never_looks_complete(tmp_path: Path, s3_server: LocalS3, kills: int) -> None:
    seed = int(os.environ.get("SEED", "0"))
    chance = random.Random(seed)
    expected = tree(chance)
    bucket = f"killed{kills}"
    s3_server.create_bucket(bucket)

    async def fill() -> None:
        async with ObjectStore(f"s3://{bucket}/x.zarr", **s3_server.storage_options) as store:
            for key, data in expected.items():
                await store.set(key, data)

    asyncio.run(fill())
    target = tmp_path / "x.zarr"
    options = str(s3_server.storage_options).replace("'", '"')
    command = [sys.executable, "-c", COPY, f"s3://{bucket}/x.zarr", str(target), options]
    killed = 0
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            # A moment between the start and the end of a copy, which takes about a second.
            time.sleep(chance.uniform(0.02, 1.0))
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        check_unfinished(target, expected)
        if (target / "zarr.json").exists() and not (target / ".aiozarr-copy~").exists():
            for path in target.rglob("*"):
                if path.is_file():
                    path.unlink()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "zarr.json" in str(done.stderr) and not (target / ".aiozarr-copy~").exists():
        # The last one was killed behind its last document.
        assert {key for key in stored(target) if ".aiozarr-" not in key} == set(expected)
    else:
        assert done.returncode == 0, done.stderr
    found = {key: data for key, data in stored(target).items() if ".aiozarr-write~" not in key}
    assert found == expected
    assert killed
