"""The page of storage options is generated from the option tables."""

import re

from aiozarr.stores import urls
from scripts import make_option_docs


def test_the_page_equals_the_output_of_its_script() -> None:
    written = make_option_docs.PAGE.read_text("utf-8")
    assert written == make_option_docs.page(), "run: .venv/bin/python -m scripts.make_option_docs"


def test_every_option_has_a_description() -> None:
    undescribed = re.findall(r"^\| (`\w+`) \| [^|]* \| *(?:;[^|]*)?\|$", make_option_docs.page(), re.MULTILINE)
    assert undescribed == [], "describe each in its table (`about`), or in the docstring of the record of options"


def test_the_options_of_archives_and_references_are_on_the_page() -> None:
    page = make_option_docs.page()
    assert [name for name in (*urls._ZIP, *urls._REFERENCE) if f"| `{name}` |" not in page] == []
