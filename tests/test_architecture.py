"""The layers hold: imports go downward, there are no cycles, and no package outgrows its budget of lines."""

from __future__ import annotations

import ast
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

import aiozarr
from aiozarr.metadata.formats import PROBE_KEYS

ROOT = Path(aiozarr.__file__).parent

# A package may import packages of a lower rank, and none of its own rank. `aiozarr` is the package's own __init__.
RANK = {
    "__main__": 15,
    "cli": 14,
    "integrations": 13,
    "aiozarr": 12,
    "sync": 11,
    "results": 11,
    "conversion": 10,
    "driver": 10,
    "transfer": 9,
    "hierarchy": 8,
    "engine": 7,
    "testing": 7,
    "schedule": 6,
    "codecs": 6,
    "grid": 6,
    "metadata": 6,
    "stores": 5,
    "http1": 4,
    "settings": 3,
    "plugins": 3,
    "memory": 3,
    "common": 2,
    "model": 1,
    "errors": 0,
}
# No I/O and no event loop: these see the shared records alone.
PURE = {"codecs", "grid", "metadata"}
SHARED = {"settings", "plugins", "memory", "common", "model", "errors"}
# Programs on top of the core, and all that they import of it. A maintainer of the core need not know them.
PROGRAMS = {"cli", "conversion", "driver", "integrations", "transfer"}
FACES = {
    "engine": {"aiozarr.engine", "aiozarr.engine.copy"},
    "hierarchy": {"aiozarr.hierarchy", "aiozarr.hierarchy.internal"},
}
# Imports for annotations that may point upward, each with its reason.
UPWARD_TYPES = {
    ("aiozarr.errors", "aiozarr.model"): "an error names the byte range it is about",
    ("aiozarr.settings", "aiozarr.schedule.events"): "`on_event` is called with the records of the schedule",
}
# Modules that need each other's types, each group with its reason.
MUTUAL_TYPES = {
    frozenset({"aiozarr.errors", "aiozarr.model"}): "an error names a byte range, and a range raises errors",
    frozenset(
        {"aiozarr.codecs.codec_pipeline", "aiozarr.codecs.chunk_layouts"}
    ): "the inner chunks of a shard have a pipeline, and the chunks of a pipeline may be shards",
    frozenset(
        {"aiozarr.hierarchy.array", "aiozarr.hierarchy.view"}
    ): "an array makes views, and a view names its array",
}
# Lines of code, without docstrings and comments, that each package may have: the modules at the top are `root`. Whoever
# raises a number says in the same commit what could not be left out.
BUDGET = {
    "stores": 11820,
    "engine": 8070,
    "hierarchy": 6150,
    "codecs": 4350,
    "driver": 3320,
    "metadata": 2975,
    "transfer": 1870,
    "cli": 2140,
    "grid": 2315,
    "integrations": 1515,
    "conversion": 1780,
    "http1": 1810,
    "testing": 1170,
    "root": 1015,
    "schedule": 920,
    "sync": 585,
    "common": 495,
}
LAYOUT_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
LOOPS = {"asyncio", "anyio", "trio", "uvloop", "aiohttp", "socket", "obstore", "httptools"}
# The conformance suite is for authors of stores, so it imports only what a store may import.
TESTING_MAY_USE = {"stores", *SHARED}


@dataclass(frozen=True)
class Import:
    """One import statement: importer, imported module, and whether only annotations need it."""

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


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax trees of all modules, by their names. Test processes that run none of these tests parse nothing."""
    return {name: ast.parse(path.read_text("utf-8")) for name, path in PATHS.items()}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "aiozarr"


def is_for_types(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imports_of(module: str) -> Iterator[Import]:
    """Every import of a module, wherever it stands: a lazy one, inside a function, counts like the others."""
    yield from _imports(module, trees()[module].body, for_types_only=False)


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


@cache
def inside() -> list[Import]:
    """The imports of modules of the package."""
    return [i for name in PATHS for i in imports_of(name) if i.imported.split(".")[0] == "aiozarr"]


def at_run_time() -> list[Import]:
    """Those that are not for annotations alone."""
    return [i for i in inside() if not i.for_types_only]


def allowed(importer: str, imported: str) -> bool:
    """Whether one room may import another."""
    if importer == imported:
        return True
    if importer in PURE:
        return imported in SHARED
    if importer == "testing":
        return imported in TESTING_MAY_USE
    if imported == "testing":
        return False
    return RANK[importer] > RANK[imported]


def test_every_room_has_a_rank() -> None:
    missing = {room(name) for name in PATHS} - set(RANK)
    assert not missing, f"add to RANK, and to the layers in pyproject.toml: {sorted(missing)}"


def test_imports_go_downward_lazy_ones_too() -> None:
    upward = [str(i) for i in at_run_time() if not allowed(room(i.importer), room(i.imported))]
    assert not upward, "move what is imported to a lower package, or pass it in:\n" + "\n".join(upward)


def test_imports_for_annotations_go_downward_too_but_for_the_listed_ones() -> None:
    upward = [i for i in inside() if i.for_types_only and not allowed(room(i.importer), room(i.imported))]
    others = [str(i) for i in upward if (i.importer, i.imported) not in UPWARD_TYPES]
    assert not others, "move the type down, or add it to UPWARD_TYPES with its reason:\n" + "\n".join(others)
    assert set(UPWARD_TYPES) <= {(i.importer, i.imported) for i in upward}, "remove from UPWARD_TYPES"


def test_programs_import_the_faces_of_the_core_and_nothing_behind_them() -> None:
    behind = [
        str(i)
        for i in inside()
        if room(i.importer) in PROGRAMS and i.imported not in FACES.get(room(i.imported), {i.imported})
    ]
    assert not behind, "import it from `engine` or `hierarchy.internal`, and add it there:\n" + "\n".join(behind)


def test_there_is_no_import_cycle_lazy_imports_counted() -> None:
    graph: dict[str, set[str]] = {name: set() for name in PATHS}
    for i in at_run_time():
        graph[i.importer].add(i.imported)
    cycle = find_cycle(graph)
    assert cycle is None, f"move what both sides need to a module of its own: {' -> '.join(cycle or [])}"


def test_modules_do_not_need_each_others_types_but_for_the_listed_ones() -> None:
    graph: dict[str, set[str]] = {name: set() for name in PATHS}
    for i in inside():
        graph[i.importer].add(i.imported)
    found = [group for group in mutual_groups(graph) if group not in MUTUAL_TYPES]
    groups = "\n".join(f"{len(group)} modules: {', '.join(sorted(group))}" for group in found)
    assert not found, f"pass values instead of the other's class, or add to MUTUAL_TYPES with the reason:\n{groups}"


def mutual_groups(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """The groups of two or more modules in which each reaches each other one."""
    reached = {name: reachable(graph, name) for name in graph}
    groups = {frozenset({name} | {each for each in reached[name] if name in reached.get(each, ())}) for name in graph}
    return sorted((group for group in groups if len(group) > 1), key=sorted)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """The modules that `start` imports, directly or through others."""
    found: set[str] = set()
    pending = list(graph.get(start, ()))
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += graph.get(name, ())
    return found


def test_the_search_for_mutual_imports_finds_the_groups() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d2"}, "d2": {"d"}}
    assert mutual_groups(graph) == [frozenset({"b", "c"}), frozenset({"d", "d2"})]


def test_no_class_of_the_way_of_a_read_has_more_than_three_levels() -> None:
    classes = [
        node
        for name, tree in trees().items()
        if room(name) in ("engine", "schedule")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    bases = {node.name: [ast.unparse(base).partition("[")[0] for base in node.bases] for node in classes}

    def levels(name: str) -> int:
        return 1 + max([levels(base) for base in bases[name] if base in bases], default=0)

    deep = {name: levels(name) for name in bases if levels(name) > 3}
    assert not deep, f"give a handler beside the record in place of a subclass: {deep}"


def test_no_package_outgrows_its_budget() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for name, path in PATHS.items():
        sizes["root" if path.parent == ROOT else room(name)] += code_lines(path.read_text("utf-8"))
    larger = {
        name: f"{size} lines, not {BUDGET.get(name, 0)}" for name, size in sizes.items() if size > BUDGET.get(name, 0)
    }
    assert not larger, f"take something out, or raise the budget and say why in the same commit: {larger}"
    assert BUDGET.keys() == sizes.keys(), "remove from BUDGET the packages that are gone"


def code_lines(source: str) -> int:
    """The number of lines with code: without blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type not in LAYOUT_TOKENS:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def test_lines_of_code_are_counted_without_docstrings_and_comments() -> None:
    assert (
        code_lines('"""Doc.\n\nMore."""\n\nA = (\n    1\n)  # why\n\ndef f():\n    "Doc."\n    return """\n"""\n') == 6
    )


def find_cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """Return the modules of one cycle, with the first repeated at the end, or None if there is no cycle."""
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
    monkeypatch.setitem(trees(), "aiozarr.model", ast.parse(source))
    assert [(i.imported, i.for_types_only) for i in imports_of("aiozarr.model")] == [
        ("typing", False),
        ("aiozarr.model", True),
        ("anyio", False),
        ("aiozarr.errors", False),
    ]


# Private attributes of another package that are used, each with its reason.
PRIVATE_USES = {
    ("sync", "_read_directly_blocking"): "a small blocking read is done in the caller's thread",
    ("sync", "_scalar"): "a blocking write casts in the caller's thread, as the view would",
    ("sync", "_refuse_iteration"): "a slot of the base class that type checkers see as None",
}
# Their private methods are the protocol between stores and the engine, which users of stores do not call.
STORE_PROTOCOL = {"aiozarr.stores.capabilities", "aiozarr.stores.blocking", "aiozarr.stores.local.store"}


def private_names(tree: ast.AST) -> set[str]:
    """The private attributes, functions and classes that a module defines."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                found |= {each.value for each in ast.walk(value) if isinstance(each, ast.Constant)}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def private_methods(tree: ast.Module) -> set[str]:
    """The private methods of the public classes of a module."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return {name for each in classes for name in private_names(ast.Module(each.body, []))}


def test_private_attributes_are_used_in_their_own_package() -> None:
    defined: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees().items():
        defined[room(name)] |= private_names(tree)
    protocol = {name for module in STORE_PROTOCOL for name in private_methods(trees()[module])}
    everywhere = set().union(*defined.values()) - protocol
    used = {
        (room(name), node.attr): f"{name}:{node.lineno}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in everywhere - defined[room(name)]
        # A subclass uses what its base class has for it.
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    new = [
        f"{place} uses {attribute}"
        for (package, attribute), place in used.items()
        if (package, attribute) not in PRIVATE_USES
    ]
    assert not new, "add a function to the package that has it, such as `hierarchy.internal`:\n" + "\n".join(new)
    assert set(PRIVATE_USES) <= set(used), "remove from PRIVATE_USES what is not used any more"


def test_metadata_grid_and_codecs_know_no_event_loop_and_no_network() -> None:
    pure = [name for name in PATHS if room(name) in PURE]
    found = [str(i) for name in pure for i in imports_of(name) if i.imported.split(".")[0] in LOOPS]
    coroutines = [name for name in pure for node in ast.walk(trees()[name]) if isinstance(node, ast.AsyncFunctionDef)]
    assert not found, "read and wait in `engine`, and pass bytes:\n" + "\n".join(found)
    assert not coroutines, f"make these plain functions that `engine` calls: {coroutines}"


def test_the_docstring_of_each_module_begins_with_a_sentence() -> None:
    docstrings = {name: ast.get_docstring(tree) or "" for name, tree in trees().items()}
    wrong = [name for name, text in docstrings.items() if not text.split("\n\n")[0].rstrip().endswith((".", "..."))]
    assert not wrong, f"begin the docstring with a sentence that says what the module is: {', '.join(wrong)}"


@pytest.mark.parametrize("name", [name for name, path in PATHS.items() if path.name == "__init__.py"])
def test_a_package_re_exports_and_nothing_more(name: str) -> None:
    for node in trees()[name].body:
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
            # A package that needs an optional one says what to install.
            case ast.Try(body=body) if all(isinstance(each, ast.Import | ast.ImportFrom) for each in body):
                pass
            # pytest must know the modules whose asserts it explains before they are imported.
            case ast.Expr(value=ast.Call() as call) if ast.unparse(call.func) == "pytest.register_assert_rewrite":
                pass
            case _:
                pytest.fail(f"move it into a module of {name} (line {node.lineno}): {ast.unparse(node)[:80]}")


def test_stored_data_are_never_unpickled_or_evaluated() -> None:
    unsafe = {"eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads"}
    rooms = [name for name in PATHS if room(name) != "testing"]  # there, stores are pickled to see that they can be
    calls = [(name, node) for name in rooms for node in ast.walk(trees()[name]) if isinstance(node, ast.Call)]
    found = [
        f"{name}:{call.lineno}: {ast.unparse(call)[:60]}"
        for name, call in calls
        if ast.unparse(call.func) in unsafe or "allow_pickle=True" in [ast.unparse(word) for word in call.keywords]
    ]
    assert not found, "parse the data, for example by json:\n" + "\n".join(found)


# Modules outside `metadata` that compare a format's number or spell a document's key, each with its reason.
MAY_KNOW_FORMATS = {
    "aiozarr.grid.key_extensions": "geometry sees no metadata, and no chunk key may equal the key of a document",
    "aiozarr.stores.reference.manifest_table": "documents are made from objects of zarr-python, all of format 3",
    "aiozarr.stores.reference.parquet_table": "rows are numbered by the grids in the documents that the table holds",
    "aiozarr.integrations.xarray.data_store": "conventions of xarray differ between formats: masks, attributes, codecs",
}


def test_only_metadata_knows_which_format_it_is() -> None:
    # Reading the number and passing it on is free, and so is asking whether two nodes are of one format. What is
    # shipped for tests holds keys and documents as data.
    names = [name for name in PATHS if room(name) not in ("metadata", "testing") and name not in MAY_KNOW_FORMATS]
    found = [f"{name}:{line}" for name in names for line in knows_formats(trees()[name])]
    assert not found, "ask the rules in metadata/format_rules.py, or add to MAY_KNOW_FORMATS:\n" + "\n".join(found)


def test_the_exceptions_for_format_numbers_are_all_needed() -> None:
    needless = [name for name in MAY_KNOW_FORMATS if not list(knows_formats(trees()[name]))]
    assert needless == [], "remove from MAY_KNOW_FORMATS"


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
