"""The public names, with their parameters, are those of tests/public_names.txt: a change of them is a decision.

`python tests/test_public_names.py --update` writes the file anew.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SNAPSHOT = Path(__file__).with_name("public_names.txt")
MODULES = ["aiozarr", "aiozarr.sync", "aiozarr.driver", "aiozarr.stores", "aiozarr.codecs"]


def public_names() -> list[str]:
    """One line per public function, class and member, sorted."""
    return sorted(line for name in MODULES for line in _names_of_module(name))


def _names_of_module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    for public in module.__all__:
        value = getattr(module, public)
        yield f"{name}.{public}{_parameters(value)}"
        if inspect.isclass(value) and not issubclass(value, BaseException):
            for member in _members(value):
                yield f"{name}.{public}.{member}{_parameters(getattr(value, member, None))}"


def _members(kind: type) -> set[str]:
    """What a class of ours offers beside what Python gives it, such as a tuple's `count` or an enum's machinery."""
    ours = [base for base in kind.__mro__ if base.__module__.split(".")[0] == "aiozarr"]
    names = {name for base in ours for name in {**vars(base), **vars(base).get("__annotations__", {})}}
    return {name for name in names if not name.startswith("_")}


def _parameters(value: Any) -> str:
    """The parameters by name; nothing for what is no function. Neither types nor defaults: those are documented."""
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
