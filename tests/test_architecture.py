"""The layers hold: imports go downward only, without a cycle, and the pure layers know no event loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import aiozarr
from aiozarr.metadata import PROBE_KEYS

ROOT = Path(aiozarr.__file__).parent
MAX_LINES = 400

# A room may import rooms of a lower rank, and no other room of its own. `aiozarr` is the package's own __init__.
RANK = {
    "cli": 10,
    "integrations": 9,
    "aiozarr": 8,
    "sync": 7,
    "hierarchy": 6,
    "transfer": 6,
    "driver": 6,
    "engine": 5,
    "testing": 5,
    "schedule": 4,
    "codecs": 4,
    "grid": 4,
    "metadata": 4,
    "stores": 3,
    "settings": 2,
    "model": 1,
    "plugins": 1,
    "memory": 1,
    "errors": 0,
}
# No I/O and no event loop: these see the shared records alone.
PURE = {"codecs", "grid", "metadata"}
SHARED = {"settings", "model", "plugins", "memory", "errors"}
LOOPS = {"asyncio", "anyio", "trio", "uvloop", "aiohttp", "socket", "obstore", "httptools"}
# The conformance suite is shipped to authors of stores: it must stand on what they stand on.
# The strategies beside it draw data types and codecs.
TESTING_MAY_USE = {"schedule", "stores", "codecs", "metadata", *SHARED}


@dataclass(frozen=True)
class Import:
    """One import statement: who imports what, and whether only annotations need it."""

    importer: str
    imported: str
    line: int
    for_types_only: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = ["aiozarr", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in PATHS.items()}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "aiozarr"


def is_for_types(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imports_of(module: str) -> Iterator[Import]:
    """Every import of a module, wherever it stands: a lazy one, inside a function, counts like the others."""
    yield from _imports(module, TREES[module].body, for_types_only=False)


def _imports(module: str, body: list[ast.stmt], *, for_types_only: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, for_types_only)
        elif isinstance(node, ast.ImportFrom):
            for target in _targets(module, node):
                yield Import(module, target, node.lineno, for_types_only)
        elif isinstance(node, ast.If) and is_for_types(node.test):
            yield from _imports(module, node.body, for_types_only=True)
            yield from _imports(module, node.orelse, for_types_only=for_types_only)
        else:
            children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            for clause in ast.iter_child_nodes(node):
                if isinstance(clause, ast.ExceptHandler | ast.match_case):
                    children += clause.body
            yield from _imports(module, children, for_types_only=for_types_only)


def _targets(module: str, node: ast.ImportFrom) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        package = module.split(".") if PATHS[module].name == "__init__.py" else module.split(".")[:-1]
        base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
    for alias in node.names:
        name = f"{base}.{alias.name}"
        yield name if name in PATHS else base


INSIDE = [i for name in PATHS for i in imports_of(name) if i.imported.split(".")[0] == "aiozarr"]
AT_RUN_TIME = [i for i in INSIDE if not i.for_types_only]


def allowed(importer: str, imported: str) -> bool:
    """Whether one room may import another."""
    if importer == imported:
        return True
    if importer in PURE:
        return imported in SHARED
    if importer == "testing":
        return imported in TESTING_MAY_USE
    if imported == "testing":
        return importer == "cli"
    return RANK[importer] > RANK[imported]


def test_every_room_has_a_rank() -> None:
    assert {room(name) for name in PATHS} <= set(RANK)


def test_imports_go_downward_lazy_ones_too() -> None:
    upward = [str(i) for i in AT_RUN_TIME if not allowed(room(i.importer), room(i.imported))]
    assert not upward, "\n".join(upward)


def test_imports_for_annotations_alone_may_point_upward_and_then_stay_inside_the_shared_rooms() -> None:
    # Settings names the event record that `on_event` is called with, and errors the range they speak of. Neither is
    # there when the program runs. Anywhere else an upward name says that a type lives in the wrong room.
    upward = [i for i in INSIDE if i.for_types_only and not allowed(room(i.importer), room(i.imported))]
    outside = [str(i) for i in upward if room(i.importer) not in SHARED]
    assert not outside, "\n".join(outside)


def test_there_is_no_import_cycle_lazy_imports_counted() -> None:
    graph: dict[str, set[str]] = {name: set() for name in PATHS}
    for i in AT_RUN_TIME:
        graph[i.importer].add(i.imported)
    assert find_cycle(graph) is None


def find_cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """The modules of one cycle, the first repeated at the end; None where there is none."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> list[str] | None:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return None
        for target in sorted(graph.get(name, ())):
            if cycle := visit(target, [*way, name]):
                return cycle
        done.add(name)
        return None

    return next((cycle for name in sorted(graph) if (cycle := visit(name, []))), None)


def test_the_search_for_cycles_finds_one() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_the_search_for_imports_sees_lazy_nested_and_relative_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from aiozarr.model import Range\n"
        "def f():\n    try:\n        import anyio\n    except ImportError:\n        from aiozarr import errors\n"
    )
    monkeypatch.setitem(TREES, "aiozarr.model", ast.parse(source))
    assert [(i.imported, i.for_types_only) for i in imports_of("aiozarr.model")] == [
        ("typing", False),
        ("aiozarr.model", True),
        ("anyio", False),
        ("aiozarr.errors", False),
    ]


def test_metadata_grid_and_codecs_know_no_event_loop_and_no_network() -> None:
    pure = [name for name in PATHS if room(name) in PURE]
    found = [str(i) for name in pure for i in imports_of(name) if i.imported.split(".")[0] in LOOPS]
    coroutines = [name for name in pure for node in ast.walk(TREES[name]) if isinstance(node, ast.AsyncFunctionDef)]
    assert not found, "\n".join(found)
    assert not coroutines


@pytest.mark.parametrize("name", PATHS)
def test_a_module_opens_with_one_sentence_that_says_what_it_is(name: str) -> None:
    docstring = ast.get_docstring(TREES[name])
    assert docstring, f"{PATHS[name]} has no docstring"
    assert docstring.split("\n\n")[0].rstrip().endswith((".", "...")), docstring


@pytest.mark.parametrize("name", PATHS)
def test_a_module_holds_one_thought(name: str) -> None:
    assert len(PATHS[name].read_text("utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("name", [name for name, path in PATHS.items() if path.name == "__init__.py"])
def test_a_package_re_exports_and_nothing_more(name: str) -> None:
    for node in TREES[name].body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Import() | ast.ImportFrom():
                pass
            case ast.Assign(targets=[ast.Name(id="__all__" | "__version__")]):
                pass
            case ast.If() if is_for_types(node.test):
                pass
            # A name whose module brings a large library is re-exported when it is first asked for.
            case ast.FunctionDef(name="__getattr__" | "__dir__"):
                pass
            # pytest must know the modules whose asserts it explains before they are imported.
            case ast.Expr(value=ast.Call() as call) if ast.unparse(call.func) == "pytest.register_assert_rewrite":
                pass
            case _:
                pytest.fail(f"{name}, line {node.lineno}: {ast.unparse(node)[:80]}")


def test_nothing_that_a_store_holds_is_unpickled_or_evaluated() -> None:
    unsafe = {"eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads"}
    rooms = [name for name in PATHS if room(name) != "testing"]  # there, stores are pickled to see that they can be
    calls = [(name, node) for name in rooms for node in ast.walk(TREES[name]) if isinstance(node, ast.Call)]
    found = [
        f"{name}:{call.lineno}: {ast.unparse(call)[:60]}"
        for name, call in calls
        if ast.unparse(call.func) in unsafe or "allow_pickle=True" in [ast.unparse(word) for word in call.keywords]
    ]
    assert not found, "\n".join(found)


# Who compares a format's number, or spells a document's key, all the same; each with its reason.
MAY_KNOW_FORMATS = {
    "aiozarr.grid.key_extensions": "geometry sees no metadata, and a chunk must not lie where a document does",
}


def test_only_metadata_knows_which_format_it_is() -> None:
    # Reading the number and passing it on is free, and so is asking whether two nodes are of one format. What is
    # shipped for tests holds keys and documents as data.
    names = [name for name in PATHS if room(name) not in ("metadata", "testing") and name not in MAY_KNOW_FORMATS]
    found = [f"{name}:{line}" for name in names for line in knows_formats(TREES[name])]
    assert not found, "\n".join(found)


def test_who_may_know_formats_does() -> None:
    assert [name for name in MAY_KNOW_FORMATS if not list(knows_formats(TREES[name]))] == []


def knows_formats(tree: ast.AST) -> Iterator[int]:
    """The lines that compare `zarr_format` with a number, match it, or spell the key of a metadata document."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                numbers = [each for side in sides for each in ast.walk(side) if is_number(each)]
                if numbers and any(ast.unparse(side).endswith("zarr_format") for side in sides):
                    yield node.lineno
            case ast.Match(subject=subject) if ast.unparse(subject).endswith("zarr_format"):
                yield node.lineno
            case ast.Constant(value=str(text)) if text.rpartition("/")[2] in PROBE_KEYS:
                yield node.lineno
            case _:
                pass


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


@pytest.mark.parametrize(
    "source",
    [
        "zarr_format == 2",
        "2 < a.zarr_format",
        "zarr_format in (1, 2)",
        "match zarr_format:\n case 2: pass",
        "'zarr.json'",
        "f'{prefix}/.zarray'",
        "{'meta': 1}",
    ],
)
def test_the_search_for_formats_finds_them(source: str) -> None:
    assert list(knows_formats(ast.parse(source))) == [1]


@pytest.mark.parametrize("source", ["a.zarr_format != b.zarr_format", "'a.zarray'", "zarr_format is None"])
def test_the_search_for_formats_finds_nothing_else(source: str) -> None:
    assert not list(knows_formats(ast.parse(source)))
