"""The page of storage options is generated from the option tables."""

from aiozarr.stores.options.s3_options import S3_TABLE
from scripts import make_option_docs


def test_the_page_equals_the_output_of_its_script() -> None:
    written = make_option_docs.PAGE.read_text("utf-8")
    assert written == make_option_docs.page(), "run scripts/make_option_docs.py"


def test_every_option_of_s3_has_a_description() -> None:
    assert [option.name for option in S3_TABLE.options if not option.about] == []
