"""The environments that foreign suites run in, and the source distributions that they come from."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class World:
    """One Python version with releases of other projects.

    Attributes:
        name: its name in `suites.toml`.
        python: its interpreter.
        sources: folders of unpacked source distributions, by project.
    """

    name: str
    python: Path
    sources: dict[str, Path]


def build(name: str, described: dict[str, Any], interpreter: str, folder: Path) -> World:
    """Return a world, after building its environment if its description has changed since."""
    home = folder / name
    python = home / "env" / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = sha256(repr((described, interpreter, project)).encode()).hexdigest()
    stamp = home / "ready"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print(f"Building {home} with {interpreter} ...", flush=True)
        subprocess.run(["rm", "-rf", str(home)], check=True)
        subprocess.run([interpreter, "-m", "venv", str(home / "env")], check=True)
        _pip(python, "install", "--upgrade", "pip>=25.1")
        _pip(python, "install", "--editable", f"{ROOT}[{','.join(described['extras'])}]", *described["packages"])
        for project, version in described.get("sources", {}).items():
            _unpack(python, project, version, home / "sources")
        stamp.write_text(wanted, "utf-8")
    sources = {
        project: home / "sources" / f"{project}-{version}" for project, version in described.get("sources", {}).items()
    }
    return World(name, python, sources)


def describe() -> dict[str, Any]:
    """Return the worlds and suites of `suites.toml`."""
    return tomllib.loads((HERE / "suites.toml").read_text("utf-8"))


def environment(**added: str) -> dict[str, str]:
    """Return the environment of a suite: without what the caller's own Python was told, and with `added`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ZARR_", "PYTEST_"))}
    return {**kept, **added}


def _unpack(python: Path, project: str, version: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # The tests are in the source distribution alone.
    _pip(python, "download", "--no-deps", "--no-binary", project, "--dest", str(folder), f"{project}=={version}")
    with tarfile.open(folder / f"{project}-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")


def _pip(python: Path, command: str, *arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check"]
    result = subprocess.run([str(python), "-m", "pip", command, *quiet, *arguments], env=environment(), check=False)
    if result.returncode:
        sys.exit(f"pip {command} {' '.join(arguments)} failed")
