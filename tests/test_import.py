"""What `import aiozarr` and one local read load: a script must not pay for what it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aiozarr

# The modules of aiozarr that a read of an array on the disk with the codec `zstd` needs, by their package. One is added
# with the reason why such a read cannot do without it.
NEEDED = """
aiozarr: codecs common engine errors grid hierarchy memory metadata model plugins schedule settings stores
aiozarr.codecs: bytes chain codec codec_pipeline region_decoder registry zstd
aiozarr.common: checks concurrency fork_safe formatting lazy_names
aiozarr.engine: array_read blocking_queue blocking_read caches decoder engine fetch_request
    group_commit in_flight layout open_store operation prefault private_thread read read_operation runtime
    state timing worker_pool
aiozarr.grid: axes axis_layout chunk_grid key_encoding projection transform
aiozarr.hierarchy: array attributes changes indexer node node_access open opening unread_values view
aiozarr.metadata: consolidated data_type document extensions format_rules formats number_types records v3
aiozarr.schedule: coalesce events requests
aiozarr.stores: blocking capabilities contract local schemes urls
aiozarr.stores.local: atomic_write open_directory store stored_file
"""
# Further ones of a blocking read.
NEEDED_BLOCKING = {"aiozarr.sync", "aiozarr.sync.array", "aiozarr.sync.opening", "aiozarr.sync.wait"}
# What takes long to import, and what such a read does without.
HEAVY = {"hashlib", "numcodecs", "ml_dtypes", "urllib.request", "typing_extensions", "anyio", "zipfile", "xml"}
REMEDY = "import it in the function that needs it, or export it lazily from its package"
CLIENTS = {"aiohttp", "obstore", "fsspec", "boto3", "botocore", "google.auth", "rich", "zarr", "httptools"}


def modules_after(code: str, *arguments: str) -> set[str]:
    """Return the modules of a new interpreter after this code."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)", *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_neither_numpy_nor_clients() -> None:
    loaded = modules_after("import aiozarr, aiozarr.results")
    assert not loaded & {"numpy", "asyncio", "numcodecs", *CLIENTS}, REMEDY
    assert len([name for name in loaded if name.startswith("aiozarr")]) <= 6, REMEDY


def test_what_a_copy_needs_is_imported_without_numpy() -> None:
    code = """
import importlib, pkgutil
import aiozarr, aiozarr.engine.private_thread, aiozarr.engine.runtime, aiozarr.http1, aiozarr.schedule, aiozarr.stores
for package in (aiozarr.http1, aiozarr.schedule):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
for name in aiozarr.stores.__all__:
    getattr(aiozarr.stores, name)
aiozarr.engine.private_thread.io_thread()
"""
    assert not modules_after(code) & {"numpy", "numcodecs"}, REMEDY


def needed_modules() -> set[str]:
    modules, package = {"aiozarr"}, ""
    for word in NEEDED.split():
        if word.endswith(":"):
            package = word[:-1]
        else:
            modules.add(f"{package}.{word}")
    return modules


@pytest.mark.parametrize(
    ("code", "further"),
    [
        (
            """
import asyncio, sys
import aiozarr
async def main():
    async with aiozarr.open_array(sys.argv[1]) as array:
        assert (await array[...]).tolist() == [1, 2, 3]
asyncio.run(main())
""",
            set(),
        ),
        (
            """
import sys
import aiozarr.sync
assert aiozarr.sync.open_array(sys.argv[1])[...].tolist() == [1, 2, 3]
""",
            NEEDED_BLOCKING,
        ),
    ],
    ids=["awaited", "blocking"],
)
def test_a_local_read_loads_only_the_modules_that_it_needs(tmp_path: Path, code: str, further: set[str]) -> None:
    aiozarr.sync.create_array(tmp_path / "a", data=np.array([1, 2, 3]))
    loaded = modules_after(code, str(tmp_path / "a"))
    assert not loaded & {*CLIENTS, *HEAVY}, REMEDY
    own = {name for name in loaded if name.partition(".")[0] == "aiozarr"}
    assert own == needed_modules() | further, REMEDY


def test_small_chunks_are_decoded_without_numcodecs_until_they_are_many(tmp_path: Path) -> None:
    aiozarr.sync.create_array(tmp_path / "a", data=np.arange(30), chunks=(3,))
    read = "import sys, aiozarr.sync as z; a = z.open_array(sys.argv[1]); assert a[...].tolist() == [*range(30)]"
    assert not modules_after(read, str(tmp_path / "a")) & {*CLIENTS, *HEAVY}, REMEDY
    few = "import aiozarr.codecs.zstd; aiozarr.codecs.zstd.MAX_CHUNKS_WITHOUT_NATIVE = 9"
    assert "numcodecs" in modules_after(f"{few}\n{read}", str(tmp_path / "a"))


def test_every_public_name_is_there_when_it_is_asked_for() -> None:
    for name in aiozarr.__all__:
        assert getattr(aiozarr, name) is not None
    for module in (aiozarr, aiozarr.sync, aiozarr.stores, aiozarr.results):
        assert dir(module) == sorted(module.__all__)
