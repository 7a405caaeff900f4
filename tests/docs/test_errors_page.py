"""The page of errors has a row for each class."""

import inspect
import re
from pathlib import Path

import pytest

import aiozarr
from aiozarr import errors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
BASES = {"AiozarrError", "NodeError", "MetadataError"}
"""Classes that are never raised themselves."""


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, (errors.AiozarrError, Warning)) and name not in BASES
    ],
)
def test_each_class_has_a_row_with_three_cells(name: str) -> None:
    rows = re.findall(rf"^\| `{name}` \| (.+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 1, f"give {name} one row of three cells in docs/reference/errors.md"
    assert name in aiozarr.__all__, f"export {name} from aiozarr, because programs catch it"
