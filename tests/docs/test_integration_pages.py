"""Pages name what the code has: each public name of an integration, and each logger."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.docs.test_snippets import REPOSITORY

MODULES = {
    "icechunk": "icechunk",
    "obspec": "obstore",
    "otel": "opentelemetry",
    "virtualizarr": "virtual-references",
    "xarray": "xarray",
    "zarr": "zarr-python",
}
"""The page of each module in `aiozarr.integrations`."""


def test_each_integration_has_a_page() -> None:
    folder = REPOSITORY / "src" / "aiozarr" / "integrations"
    assert {path.stem for path in folder.iterdir() if not path.name.startswith("_")} == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_the_page_of_an_integration_has_its_public_names(name: str) -> None:
    module = import_module(f"aiozarr.integrations.{name}")
    page = (REPOSITORY / "docs" / "integrations" / f"{MODULES[name]}.md").read_text("utf-8")
    public = module.__all__
    absent = [
        each for each in public if f"::: {module.__name__}.{each}\n" not in f"{page}\n" and f"`{each}`" not in page
    ]
    assert absent == [], f"give each of them a block ::: in docs/integrations/{MODULES[name]}.md"


def test_the_page_on_logging_has_each_logger() -> None:
    sources = (REPOSITORY / "src").rglob("*.py")
    loggers = {name for path in sources for name in re.findall(r'getLogger\("(.+?)"\)', path.read_text("utf-8"))}
    page = (REPOSITORY / "docs" / "how-to" / "logging.md").read_text("utf-8")
    assert loggers == set(re.findall(r"^\| `(aiozarr.*?)` \|", page, re.MULTILINE))
