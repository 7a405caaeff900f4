"""Back-quoted names in docstrings and design notes exist: a renamed thing is renamed in every sentence, too."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("src", "tests", "scripts", "benchmarks", "examples")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# One name, or names joined by dots, perhaps called: `Store.get`, `takes_long(maps)`.
QUOTED = re.compile(r"(?<!`)`(?P<name>[A-Za-z_][\w.]*)(?:\([^`\n]*\))?`(?!`)")
BLOCK = re.compile(r"```.*?```", re.DOTALL)

# Names of other projects and of specifications, which the code itself does not spell.
FOREIGN = {
    "ListResult": "obspec",
    "ObjectMeta": "obspec",
    "PutResult": "obspec",
    "__index__": "Python's protocol of integers",
    "cached_property": "functools",
    "compute_encoded_representation_type": "the specification of format 3",
    "copy_file_range": "Linux",
    "ds": "a data set of xarray in an example",
    "multi_decompress_to_buffer": "zstandard",
    "newaxis": "numpy",
    "racwdxltmeop": "the permissions of an Azure token, one letter each",
    "s5cmd": "a program that copies",
}


def is_prose(node: ast.AST) -> bool:
    """Whether a statement is a docstring, of a definition or of the assignment above it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def code_names() -> frozenset[str]:
    """Every name that the code of the repository defines, uses, or has in a string."""
    names = {*dir(builtins), *keyword.kwlist, *sys.stdlib_module_names}
    for path in [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]:
        names.update(IDENTIFIER.findall(path.relative_to(ROOT).with_suffix("").as_posix()))
        pending: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
        while pending:
            node = pending.pop()
            if not is_prose(node):
                names.update(names_in(node))
                pending += ast.iter_child_nodes(node)
    return frozenset(names)


def names_in(node: ast.AST) -> Iterator[str]:
    """The names that one node spells, without those of its children."""
    for field in ("id", "attr", "arg", "name", "asname", "module"):
        if isinstance(text := getattr(node, field, None), str):
            yield from IDENTIFIER.findall(text)
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        yield from IDENTIFIER.findall(text)


def unknown_names(text: str) -> list[str]:
    """The back-quoted names of a text of which a part is not known."""
    known = code_names() | FOREIGN.keys()
    names = [match["name"] for match in QUOTED.finditer(text)]
    return [name for name in names if not known.issuperset(filter(None, name.split(".")))]


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of the package, each with its place."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value.value


def test_names_in_docstrings_exist() -> None:
    found = [f"{place}: {name}" for place, text in docstrings() for name in unknown_names(text)]
    assert not found, "correct the name, or add a foreign one to FOREIGN:\n" + "\n".join(found)


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs/design").glob("*.md")))
def test_names_in_design_notes_exist(page: str) -> None:
    text = BLOCK.sub("", (ROOT / "docs/design" / page).read_text("utf-8"))
    assert unknown_names(text) == [], "correct the name: a design note describes code that exists"


def test_classes_in_the_glossary_exist() -> None:
    text = (ROOT / "docs/design/glossary.md").read_text("utf-8")
    terms = re.findall(r"^- \*\*([A-Z]\w+)\*\*:", text, re.MULTILINE)
    assert terms
    assert set(terms) <= code_names(), "correct the glossary: a term that is written like a class is one"


def test_the_search_finds_names_that_are_gone() -> None:
    gone = f"{'gone'}_{'name'}"
    assert unknown_names(f"`Store.get` and `{gone}(maps)`, but not `a sentence` or `s3://bucket`") == [gone]
