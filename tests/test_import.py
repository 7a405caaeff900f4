"""What `import aiozarr` and one local read load: a script must not pay for what it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import aiozarr

REMEDY = "import it in the function that needs it, or export it lazily from its package"
CLIENTS = {"aiohttp", "obstore", "fsspec", "boto3", "botocore", "google.auth", "rich", "zarr", "httptools"}


def modules_after(code: str, *arguments: str) -> set[str]:
    """Return the modules of a new interpreter after this code."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)", *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_neither_numpy_nor_clients() -> None:
    loaded = modules_after("import aiozarr")
    assert not loaded & {"numpy", "asyncio", "numcodecs", *CLIENTS}, REMEDY
    assert len([name for name in loaded if name.startswith("aiozarr")]) <= 5, REMEDY


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


def test_a_local_read_loads_no_client_of_a_server_and_no_blocking_names(tmp_path: Path) -> None:
    aiozarr.sync.create_array(tmp_path / "a", data=[1, 2, 3])
    code = """
import asyncio, sys
import aiozarr
async def main():
    async with aiozarr.open_array(sys.argv[1]) as array:
        assert (await array[...]).tolist() == [1, 2, 3]
asyncio.run(main())
"""
    loaded = modules_after(code, str(tmp_path / "a"))
    assert not loaded & CLIENTS, REMEDY
    unused = [name for name in loaded if name.startswith(("aiozarr.sync", "aiozarr.transfer", "aiozarr.testing"))]
    assert not unused, REMEDY
    assert len([name for name in loaded if name.startswith("aiozarr")]) <= 215, REMEDY


def test_every_public_name_is_there_when_it_is_asked_for() -> None:
    for name in aiozarr.__all__:
        assert getattr(aiozarr, name) is not None
    for module in (aiozarr, aiozarr.sync, aiozarr.stores):
        assert dir(module) == sorted(module.__all__)
