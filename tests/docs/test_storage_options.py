"""The page of storage options says what the tables say."""

import make_option_docs
from aiozarr.stores.options.s3 import S3_TABLE


def test_the_page_is_what_its_script_writes() -> None:
    written = make_option_docs.PAGE.read_text("utf-8")
    assert written == make_option_docs.page(), "run scripts/make_option_docs.py"


def test_every_option_of_s3_is_explained() -> None:
    assert [option.name for option in S3_TABLE.options if not option.about] == []
