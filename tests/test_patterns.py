"""No pattern takes more than linear time on hostile text: while one runs, all threads of the process stand still."""

from __future__ import annotations

import ast
import itertools
import re
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import translate
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from aiozarr.metadata.document import _NUMBER_TEXT

SOURCE = Path(__file__).parents[1] / "src" / "aiozarr"

# Patterns that functions make: the function, with a pattern of the most complex kind and the method.
COORDINATE = r"(?:0|[1-9]\d{0,8})"
MADE = {
    "grid/key_encoding.py:decode": (("[0-9]+", "findall"),),
    "grid/key_extensions.py:decode": (
        ("[0-9]{1,19}", "fullmatch"),
        (r"t/([0-9]{1,19})/([0-9]{1,19})\.([0-9]{1,19})\.bin", "fullmatch"),
    ),
    "grid/key_extensions.py:_split": ((r"\{\{|\}\}|\{(\*|-?[0-9]{1,3})(?::0([1-9][0-9]?))?\}|[{}]", "finditer"),),
    "metadata/document.py:respelled_number": ((_NUMBER_TEXT, "fullmatch"),),
    # Words of the request that a server repeats, of at most 16 characters each, up to the next separator.
    "stores/http/object_client.py:hide_request": (
        ("[/;=]", "split"),
        ("[;=,] ?", "split"),
        (r"""(?i:secret|other)[^\s<>"'&;,)\]}]*""", "sub"),
    ),
    "stores/reference/columns.py:parse_coordinates": (
        (rf"{COORDINATE}/{COORDINATE}(?:\n{COORDINATE}/{COORDINATE})*+", "fullmatch"),
    ),
    # Patterns that a user gives to a copy. Python's `fnmatch` makes them without backtracking.
    "transfer/copy_rules.py:_compiled": ((translate("*a*b?c*[0-9]*"), "match"),),
}
SEARCHES = frozenset({"search", "findall", "finditer", "sub", "subn", "split"})
SCREENED_CHARACTERS, PROVEN_CHARACTERS = 4_000, 200_000
SUSPICIOUS_SECONDS = 0.004
"""Only decides which texts are tried at full length; a linear pattern takes a hundredth of it."""
CPU_SECONDS = 60
"""Linear patterns take a tenth for all texts. A quadratic one takes minutes for one text, a cubic one years."""


@cache
def modules() -> dict[str, ast.Module]:
    files = sorted(SOURCE.rglob("*.py"))
    return {file.relative_to(SOURCE).as_posix(): ast.parse(file.read_text("utf-8")) for file in files}


def is_pattern_call(node: ast.AST) -> bool:
    """Whether a node is a call of the module `re` that takes a pattern."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr != "escape"
    )


def named_patterns() -> Iterator[tuple[str, str]]:
    """Iterate over (module, name) of the patterns that are constants of modules and classes."""
    for path, tree in modules().items():
        bodies = [("", tree.body), *[(f"{n.name}.", n.body) for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]]
        for owner, body in bodies:
            for node in body:
                if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and is_pattern_call(node.value):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    assert isinstance(target, ast.Name)
                    yield path, owner + target.id


def made_patterns() -> Iterator[str]:
    """Iterate over the functions that make patterns."""
    for path, tree in modules().items():
        for function in ast.walk(tree):
            is_function = isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and any(is_pattern_call(node) for node in ast.walk(function)):
                yield f"{path}:{function.name}"


@cache
def methods() -> dict[str, set[str]]:
    """The methods that are used, by the name of a pattern. Private names are those of their module."""
    used: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                name = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                used[f"{path}:{name}" if name.startswith("_") else name].add(node.attr)
    return used


def all_patterns() -> Iterator[tuple[str, str | bytes, int, str]]:
    """Iterate over name, pattern, flags and method of everything that the package matches."""
    for path, name in named_patterns():
        found = import_module("aiozarr." + path.removesuffix(".py").replace("/", "."))
        for part in name.split("."):
            found = getattr(found, part)
        assert isinstance(found, re.Pattern)
        used = methods()[f"{path}:{name}" if name.startswith("_") else name.rpartition(".")[2]]
        used = used & {*SEARCHES, "match", "fullmatch"}
        assert used, f"{name} of {path} is not used"
        for method in {"search" if each in SEARCHES else each for each in used}:
            yield f"{path}:{name}", found.pattern, found.flags, method
    for function, patterns in MADE.items():
        for pattern, method in patterns:
            yield function, pattern, 0, "search" if method in SEARCHES else method


def pieces_of(pattern: str | bytes, flags: int) -> list[str]:
    """The texts of which a hostile text is made: the literals of a pattern, and members of its classes."""
    found: dict[str, None] = {}

    def members(items: list[tuple[object, object]]) -> Iterator[str]:
        for kind, value in items:
            match str(kind), value:
                case "LITERAL", int(code):
                    yield chr(code)
                case "RANGE", (int(low), int(_)):
                    yield chr(low)
                case "CATEGORY", category:
                    yield {"DIGIT": "1", "SPACE": " ", "WORD": "a"}.get(str(category).rpartition("_")[2], "!")
                case "NEGATE", _:
                    yield "z"

    def walk(tree: object) -> None:
        literal = ""
        for kind, value in tree:  # type: ignore[attr-defined]
            if str(kind) == "LITERAL":
                literal += chr(value)
                continue
            if literal:
                found.setdefault(literal)
                literal = ""
            if str(kind) == "IN":
                found.update(dict.fromkeys(members(value)))
            elif str(kind) in ("ANY", "NOT_LITERAL"):
                found.setdefault("z")
            else:
                for inner in value if isinstance(value, list | tuple) else (value,):
                    for each in inner if isinstance(inner, list) else (inner,):
                        if type(each).__name__ == "SubPattern":
                            walk(each)
        if literal:
            found.setdefault(literal)

    walk(re._parser.parse(pattern, flags & ~re.UNICODE if isinstance(pattern, bytes) else flags))  # type: ignore[attr-defined]
    return list(found)[:12]


def hostile_texts(pieces: list[str]) -> Iterator[tuple[str, str, str]]:
    """Iterate over (beginning, first repeated text, second one): at least one piece is repeated many times."""
    for piece in pieces:
        yield "", piece, ""
    for one, other in itertools.permutations(pieces, 2):
        yield one, other, ""
        yield "", one, other
        yield "", one + other, ""


def is_suspicious(pattern: str | bytes, flags: int, method: str, text: str) -> bool:
    """Match a text, and return whether that took longer than it takes a linear pattern."""
    compiled = re.compile(pattern, flags & ~re.UNICODE if isinstance(pattern, bytes) else flags)
    data = text.encode() if isinstance(pattern, bytes) else text
    begun = time.thread_time()
    if method == "search":
        for _ in compiled.finditer(data):  # type: ignore[arg-type]
            pass
    else:
        getattr(compiled, method)(data)
    return time.thread_time() - begun > SUSPICIOUS_SECONDS


def try_pattern(name: str, pattern: str | bytes, flags: int, method: str) -> None:
    """Match hostile texts. The process is killed by its bound of CPU time if one takes more than linear time."""
    sys.stdout.write(f"{name} ({method})\n")
    sys.stdout.flush()
    for head, first, second in hostile_texts(pieces_of(pattern, flags)):
        for end in ("\x01", ""):
            text, proven = [
                head + first * (size // len(first + second)) + second * (size // len(first + second)) + end
                for size in (SCREENED_CHARACTERS, PROVEN_CHARACTERS)
            ]
            if is_suspicious(pattern, flags, method, text):
                is_suspicious(pattern, flags, method, proven)


def run_bounded(program: str, seconds: int) -> subprocess.CompletedProcess[str]:
    """Run a program of this module in a process of its own, with a bound of CPU time."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    command = [sys.executable, "-c", f"from tests import test_patterns\n{program}"]
    root = SOURCE.parents[1]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, preexec_fn=bound, check=False)


def test_every_function_that_makes_a_pattern_is_listed_here() -> None:
    assert set(made_patterns()) == set(MADE)


def test_no_pattern_takes_more_than_linear_time_on_hostile_text() -> None:
    result = run_bounded("for each in test_patterns.all_patterns(): test_patterns.try_pattern(*each)", CPU_SECONDS)
    assert result.returncode == 0, f"too slow, or failed: {result.stdout.splitlines()[-1:]} {result.stderr[-2000:]}"
    assert len(set(result.stdout.splitlines())) > 60


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"://[^\s'\"]*\?[^\s'\"]*=", "search"),
        (r"((?:[^/]*/)*?)((?:0|[1-9]\d{0,8})(?:/(?:0|[1-9]\d{0,8}))*)", "fullmatch"),
        (r"(?:[+-]?\d+)?\s*:\s*(?:[+-]?\d+)?\s*", "fullmatch"),
        (r"(a+)+", "fullmatch"),
    ],
)
def test_a_pattern_with_overlapping_parts_is_found(pattern: str, method: str) -> None:
    result = run_bounded(f"test_patterns.try_pattern('bad', {pattern!r}, 0, {method!r})", 2)
    assert result.returncode < 0, "it was not killed"
