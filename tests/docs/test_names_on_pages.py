"""Every name that a page gives to users exists: `aiozarr.X` in sentences, links, API blocks and programs."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiozarr.settings import Settings

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "SECURITY.md",
    *sorted(page for page in (REPOSITORY / "docs").rglob("*.md") if "design" not in page.parts),
]
NAME = re.compile(r"(?<![\w./~-])aiozarr((?:\.[A-Za-z_]\w*)+)(?![\w/-]|\.\w)")


def names_of_other_kinds() -> set[str]:
    """Names below `aiozarr.` that are not Python's: of spans, metrics, entry points and zarr-python's configuration."""
    sources = "\n".join(path.read_text("utf-8") for path in (REPOSITORY / "src").rglob("*.py"))
    literals = set(re.findall(r"\"aiozarr\.([\w.]+)\"", sources))
    composed = {"read", "bytes_fetched"}  # a span and a metric, whose names the code composes
    return literals | composed | {field.name for field in fields(Settings)}


OTHERS = names_of_other_kinds()


def resolve(root: str, parts: list[str]) -> bool:
    """Whether the names, each of them in the one before it, begin at the module `root` and exist."""
    found: Any = import_module(root)
    for number, part in enumerate(parts):
        if isinstance(found, ModuleType) and not hasattr(found, part):
            try:
                found = import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError:
                return False
        elif hasattr(found, part):
            found = getattr(found, part)
        else:  # a field without a default
            declared = [get_annotations(base) for base in getattr(found, "__mro__", ())]
            return number == len(parts) - 1 and any(part in names for names in declared)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_names_of_a_page_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    roots = ["aiozarr", *(["aiozarr.sync"] if "sync as aiozarr" in text else [])]
    names = {match[1].removeprefix(".") for match in NAME.finditer(text)} - OTHERS
    unknown = [name for name in sorted(names) if not any(resolve(root, name.split(".")) for root in roots)]
    assert not unknown, f"correct these names of the page: {', '.join(unknown)}"


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("open", True),
        ("stores.Store.fetch", True),
        ("Settings.timeout", True),
        ("Plan.requests", True),
        ("integrations.zarr.enable", True),
        ("open_everything", False),
        ("stores.nothing.at_all", False),
        ("Settings.gap", False),
    ],
)
def test_a_name_is_found_in_modules_and_classes(name: str, *, exists: bool) -> None:
    assert resolve("aiozarr", name.split(".")) is exists
