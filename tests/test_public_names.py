"""tests/public_names.txt lists the public names with their parameters, because a change of them is a decision.

`python tests/test_public_names.py --update` writes the file.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SNAPSHOT = Path(__file__).with_name("public_names.txt")
ROOT = Path(__file__).parents[1]
MODULES = [
    "aiozarr",
    "aiozarr.results",
    "aiozarr.sync",
    "aiozarr.stores",
    "aiozarr.codecs",
    "aiozarr.grid",
    "aiozarr.metadata",
    "aiozarr.driver",
    "aiozarr.integrations.icechunk",
    "aiozarr.integrations.obspec",
    "aiozarr.integrations.otel",
    "aiozarr.integrations.virtualizarr",
    "aiozarr.integrations.xarray",
    "aiozarr.integrations.zarr",
    "aiozarr.testing",
    "aiozarr.testing.conformance",
    "aiozarr.testing.fakes",
    "aiozarr.testing.faults",
    "aiozarr.testing.virtual_time",
]
MAX_NAMES = 900


def public_names() -> list[str]:
    """One line per public function, class and member, sorted."""
    classes = {value for name in MODULES for value in _values(name).values() if inspect.isclass(value)}
    return sorted(line for name in MODULES for line in _names_of_module(name, classes))


def _values(name: str) -> dict[str, Any]:
    module = importlib.import_module(name)
    return {public: getattr(module, public) for public in module.__all__}


def _names_of_module(name: str, classes: set[type]) -> Iterator[str]:
    for public, value in _values(name).items():
        yield f"{name}.{public}{_parameters(value)}"
        if inspect.isclass(value) and not issubclass(value, BaseException):
            inherited = {line for base in value.__mro__[1:] if base in classes for line in _lines(base)}
            yield from (f"{name}.{public}.{line}" for line in _lines(value) - inherited)


def _lines(kind: type) -> set[str]:
    """The members of a class with their parameters. A class that overrides one with the same parameters inherits it."""
    return {f"{member}{_parameters(getattr(kind, member, None))}" for member in _members(kind)}


def _members(kind: type) -> set[str]:
    """The names that a class adds to its bases from Python and other packages, such as zarr-python's `Store`.

    The tests of a conformance suite are left out, because pytest calls them.
    """
    ours = [base for base in kind.__mro__ if base.__module__.split(".")[0] == "aiozarr"]
    others = {name for base in kind.__mro__ if base not in ours for name in vars(base)}
    names = {name for base in ours for name in {**vars(base), **vars(base).get("__annotations__", {})}} - others
    return {name for name in names if not name.startswith(("_", "test_"))}


def _parameters(value: Any) -> str:
    """The parameters by name; nothing for other values. Neither types nor defaults: those are documented."""
    if not (inspect.isfunction(value) or inspect.ismethod(value)):
        return ""
    parts: list[str] = []
    starred = False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        parts.append(prefix + parameter.name)
    return f"({', '.join(parts)})"


def test_the_public_names_are_those_of_the_snapshot() -> None:
    known = SNAPSHOT.read_text("utf-8").splitlines()
    now = public_names()
    assert now == known, (
        "add the change to CHANGELOG.md and run: .venv/bin/python tests/test_public_names.py --update\n"
        f"gone: {sorted(set(known) - set(now))}; new: {sorted(set(now) - set(known))}"
    )


def test_there_are_few_enough_names_to_learn() -> None:
    count = len(public_names())
    assert count <= MAX_NAMES, f"{count} names: make those private that no user needs, or that a method can replace"


def test_the_snapshot_covers_every_integration_and_every_tool_for_tests() -> None:
    root = Path(importlib.import_module("aiozarr").__file__ or "").parent
    modules = {
        f"aiozarr.{folder}.{path.stem}"
        for folder in ("integrations", "testing")
        for path in (root / folder).iterdir()
        if not path.name.startswith("_")
    }
    assert modules <= set(MODULES), "add the module to MODULES"


def test_the_stability_page_lists_the_modules_of_the_snapshot() -> None:
    listed = re.findall(
        r"^\| `(aiozarr[.\w]*)`", (ROOT / "docs/reference/stability.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(MODULES)


def test_pages_and_examples_import_public_names_only() -> None:
    paths = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    pages = {path: path.read_text("utf-8") for path in paths if "design" not in path.parts}
    private = [
        f"{path.relative_to(ROOT)}: {name} of {module}"
        for path, text in pages.items()
        for module, names in re.findall(r"^ *from (aiozarr[.\w]*) import \(?([\w ,]+)", text, re.MULTILINE)
        for name in re.findall(r"(\w+)(?: as \w+)?(?:,|$)", names.strip())
        if f"{module}.{name}" not in MODULES and (module not in MODULES or name not in _values(module))
    ]
    assert not private, f"import public names, or make these public: {private}"


@pytest.mark.parametrize("module", MODULES)
def test_all_lists_each_name_once(module: str) -> None:
    names = importlib.import_module(module).__all__
    repeated = sorted({name for name in names if names.count(name) > 1})
    assert not repeated, f"remove the second entry from __all__ of {module}: {repeated}"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_documented(module: str) -> None:
    loaded = importlib.import_module(module)
    values = {name: getattr(loaded, name) for name in loaded.__all__}
    callables = {
        f"{name}.{member}": getattr(value, member)
        for name, value in values.items()
        if inspect.isclass(value) and not issubclass(value, BaseException)
        for member in _members(value)
        if isinstance(inspect.getattr_static(value, member, None), property)
        or inspect.isroutine(inspect.getattr_static(value, member, None))
    }
    documented = {**{name: value for name, value in values.items() if inspect.isclass(value)}, **callables}
    documented |= {name: value for name, value in values.items() if inspect.isroutine(value)}
    undocumented = [name for name, value in documented.items() if not inspect.getdoc(value)]
    assert not undocumented, f"write a docstring for each of these names of {module}: {undocumented}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    SNAPSHOT.write_text("\n".join(public_names()) + "\n", "utf-8")
