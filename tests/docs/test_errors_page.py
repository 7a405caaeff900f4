"""The page of errors has a row for each public class, under its public name."""

import builtins
import inspect
import re
from pathlib import Path

import pytest

import aiozarr
from aiozarr import driver, errors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
BASES = {"AiozarrError", "NodeError", "MetadataError"}
"""Classes that are never raised themselves."""


ROW = re.compile(r"^\| `([\w.]+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def public_errors() -> list[str]:
    """The names below `aiozarr` of all error and warning classes."""
    found = []
    for module, prefix in ((errors, ""), (driver, "driver.")):
        for name in dir(module):
            kind = getattr(module, name)
            if inspect.isclass(kind) and issubclass(kind, (errors.AiozarrError, Warning)) and name not in BASES:
                found.append(prefix + name)
    return found


@pytest.mark.parametrize("name", public_errors())
def test_each_class_has_a_row_that_names_its_builtin_bases(name: str) -> None:
    rows = [row for row in ROW.findall(PAGE.read_text("utf-8")) if row[0] == name]
    assert len(rows) == 1, f"give {name} one row of three cells in docs/reference/errors.md"
    kind = getattr(driver if name.startswith("driver.") else errors, name.removeprefix("driver."))
    bases = {base.__name__ for base in kind.__bases__ if base.__module__ == "builtins"} - {"UserWarning"}
    assert set(re.findall(r"also an? `(\w+)`", rows[0][1])) == bases, "say in its row which builtin errors it is"


def test_each_class_of_the_page_is_public() -> None:
    names = [name for name, _, _ in ROW.findall(PAGE.read_text("utf-8"))]
    missing = [
        name
        for name in names
        if not hasattr(driver if name.startswith("driver.") else aiozarr, name.removeprefix("driver."))
    ]
    assert [name for name in missing if not hasattr(builtins, name)] == [], "export it, or correct the page"
