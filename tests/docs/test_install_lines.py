"""Every line that installs something works: a checkout with extras that exist, or packages of others.

aiozarr is on no index, so `pip install aiozarr` would fail, or install a package of somebody else.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ALL = set(re.findall(r"\w+", EXTRAS["all"][0])) - {"aiozarr"}
TEXTS = [
    *sorted(REPOSITORY.glob("*.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted(path for path in (REPOSITORY / "examples").rglob("*") if path.name in ("Dockerfile", "README.md")),
]
INSTALL = re.compile(r"\bpip install ([^`\n&|#;]+)")
ARGUMENT = re.compile(r"(?P<quote>[\"']?)(?P<what>[^\s\"']+)(?P=quote)")
CHECKOUT = re.compile(r"(?:\.|/[\w/.-]+)(?:\[(?P<extras>[\w,]+)\])?")
EXTRAS_OF = re.compile(r"(?:aiozarr|\.)\[([a-z][a-z\d,]*)\]")
NAMED = re.compile(r"\bextras? `(\w+)`")


def faults_of(arguments: str) -> list[str]:
    """What is wrong with the arguments of `pip install`, as far as they are written one after the other."""
    faults = []
    for match in ARGUMENT.finditer(arguments):
        what = match["what"].rstrip(".,:)") if match["what"] != "." else "."
        if (checkout := CHECKOUT.fullmatch(what)) is not None:
            unknown = set(filter(None, (checkout["extras"] or "").split(","))) - EXTRAS.keys()
            faults += [f"{what}: no extra {extra}" for extra in sorted(unknown)]
        elif re.split(r"[\[<>=!~]", what)[0] == "aiozarr":
            faults.append(f"{what}: not on an index")
        elif not re.fullmatch(r"--?[a-z-]+|[A-Za-z][\w.-]*(\[[\w,]+\])?([<>=!~].*)?", what):
            break  # a sentence goes on
    return faults


def strings_of(path: Path) -> Iterator[str]:
    """The texts of a module: messages and docstrings."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def sentences() -> dict[str, str]:
    """Every text that users read, by its file."""
    modules = sorted(path for folder in ("src", "examples") for path in (REPOSITORY / folder).rglob("*.py"))
    texts = {path: path.read_text("utf-8") for path in TEXTS}
    texts |= {path: "\n".join(strings_of(path)) for path in modules}
    return {str(path.relative_to(REPOSITORY)): text for path, text in texts.items()}


SENTENCES = sentences()
WITH_EXTRAS = [name for name, text in SENTENCES.items() if EXTRAS_OF.search(text) or NAMED.search(text)]


@pytest.mark.parametrize("name", [name for name, text in SENTENCES.items() if INSTALL.search(text)])
def test_an_install_line_works(name: str) -> None:
    faults = [fault for match in INSTALL.finditer(SENTENCES[name]) for fault in faults_of(match[1])]
    assert not faults, f"write pip install '.[extra]', or name the packages: {faults}"


@pytest.mark.parametrize("name", WITH_EXTRAS)
def test_the_extras_of_a_text_exist(name: str) -> None:
    text = SENTENCES[name]
    extras = {extra for match in EXTRAS_OF.finditer(text) for extra in match[1].split(",")}
    extras |= {match[1] for match in NAMED.finditer(text)}
    assert extras <= EXTRAS.keys(), f"pyproject.toml has no such extra: {sorted(extras - EXTRAS.keys())}"


def test_a_sentence_about_all_extras_names_those_that_are_left_out() -> None:
    left_out = EXTRAS.keys() - ALL - {"all"}
    lines = [line for text in SENTENCES.values() for line in text.splitlines()]
    lines = [line for line in lines if "[all]" in line and re.search(r"\b(all|every) extras?\b", line)]
    wrong = [line for line in lines if not all(f"`{extra}`" in line or f" {extra}" in line for extra in left_out)]
    assert not wrong, f"say that `all` does not contain {', '.join(sorted(left_out))}"


@pytest.mark.parametrize(
    ("line", "is_right"),
    [
        ("pip install .", True),
        ("pip install '.[cli,s3]'", True),
        ("pip install -U fastapi 'uvicorn[standard]' zarr>=3", True),
        ("`pip install click rich` installs them", True),
        ("pip install aiozarr", False),
        ("pip install 'aiozarr[cli]'", False),
        ("pip install '.[everything]'", False),
    ],
)
def test_what_counts_as_an_install_line_that_works(line: str, *, is_right: bool) -> None:
    faults = [fault for match in INSTALL.finditer(line) for fault in faults_of(match[1])]
    assert (not faults) is is_right
