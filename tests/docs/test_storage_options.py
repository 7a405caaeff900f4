"""The page of storage options is generated from the option tables."""

from aiozarr.stores import urls
from aiozarr.stores.s3 import address
from aiozarr.stores.s3.address import S3_TABLE
from scripts import make_option_docs


def test_the_page_equals_the_output_of_its_script() -> None:
    written = make_option_docs.PAGE.read_text("utf-8")
    assert written == make_option_docs.page(), "run: .venv/bin/python -m scripts.make_option_docs"


def test_every_option_of_s3_has_a_description() -> None:
    attributes = make_option_docs.attributes_of(address)
    undescribed = [option.name for option in S3_TABLE.options if not option.about and option.name not in attributes]
    assert undescribed == [], "describe each in S3_TABLE (`about`), or in the docstring of S3Options"


def test_the_options_of_archives_and_references_are_on_the_page() -> None:
    page = make_option_docs.page()
    assert [name for name in (*urls._ZIP, *urls._REFERENCE) if f"| `{name}` |" not in page] == []
