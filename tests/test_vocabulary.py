"""One word has one meaning in the whole package: names of classes, of constants and of modules."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "aiozarr"

# Modules of one basename that mean the same thing, each for its own package.
SHARED_BASENAMES = {
    "address": "the parts of a URL of one cloud",
    "bucket_client": "the client of a bucket or container of one cloud",
    "credentials": "the credentials of one cloud, and where they come from",
    "errors": "the errors of the package, and those of one library translated into them",
    "functions": "the functions of one door to the same nodes: asynchronous, blocking, for xarray",
    "store": "the store of one kind",
}

# A bound without the thing that it bounds, or its unit.
BARE_CONSTANT = re.compile(r"_?(?:(?:LEAST|MOST)(?:_[A-Z0-9_]*)?|ANY|NEVER|LONG)")


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax trees of all modules, by path in the package."""
    files = sorted(SOURCE.rglob("*.py"))
    return {file.relative_to(SOURCE).as_posix(): ast.parse(file.read_text("utf-8")) for file in files}


def is_twin(paths: Iterable[str]) -> bool:
    """Whether these are a module and its blocking twin in `aiozarr.sync`, which has the same names on purpose."""
    blocking = [path.startswith("sync/") for path in paths]
    return sorted(blocking) == [False, True]


def by_package(violations: Iterable[tuple[str, str]]) -> str:
    """The violations as lines below the first folder of the module that each is in; empty if there are none."""
    lines = defaultdict(set)
    for path, text in violations:
        lines[path.partition("/")[0] if "/" in path else "aiozarr"].add(f"    {path}: {text}")
    return "\n".join([line for package in sorted(lines) for line in [f"{package}/", *sorted(lines[package])]])


def assigned_names(tree: ast.Module) -> Iterator[str]:
    """The names that are assigned at the top of a module or in the body of a class."""
    for scope in [tree, *[node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]]:
        for statement in scope.body:
            targets: list[ast.expr] = []
            if isinstance(statement, ast.AnnAssign):
                targets = [statement.target]
            elif isinstance(statement, ast.Assign):
                targets = statement.targets
            yield from [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def test_class_names_are_unique() -> None:
    places = defaultdict(list)
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    repeated = {name: paths for name, paths in places.items() if len(paths) > 1 and not is_twin(paths)}
    found = by_package(
        (path, f"class {name}, as in {', '.join(sorted({*paths} - {path}) or ['the same module'])}")
        for name, paths in repeated.items()
        for path in paths
    )
    assert not found, f"rename so that one search finds one class:\n{found}"


def test_constants_say_what_they_bound() -> None:
    found = by_package(
        (path, name)
        for path, tree in modules().items()
        for name in assigned_names(tree)
        if BARE_CONSTANT.fullmatch(name)
    )
    assert not found, f"say what it bounds and in which unit, such as MIN_PART_BYTES:\n{found}"


def test_modules_of_one_basename_mean_the_same_thing() -> None:
    places = defaultdict(list)
    for path in modules():
        basename = path.rpartition("/")[2].removesuffix(".py")
        if basename != "__init__":
            places[basename].append(path)
    repeated = {name: paths for name, paths in places.items() if len(paths) > 1 and not is_twin(paths)}
    found = by_package(
        (path, f"as {', '.join(sorted({*paths} - {path}))}")
        for name, paths in repeated.items()
        if name not in SHARED_BASENAMES
        for path in paths
    )
    assert not found, f"rename, or add the word to SHARED_BASENAMES if it has one meaning:\n{found}"
    assert SHARED_BASENAMES.keys() <= repeated.keys(), "no longer repeated: remove it from SHARED_BASENAMES"
