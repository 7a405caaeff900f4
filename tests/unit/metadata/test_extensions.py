"""Extensions in documents: both forms, limits, and rejected members."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.extensions import (
    MAX_EXTENSIONS,
    MAX_NAME_LENGTH,
    may_be_ignored,
    parse_extension,
    parse_extensions,
    render_extension,
)
from aiozarr.metadata.records import NamedConfig


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gzip", NamedConfig("gzip")),
        ({"name": "gzip"}, NamedConfig("gzip")),
        ({"name": "gzip", "configuration": {"level": 1}}, NamedConfig("gzip", {"level": 1})),
        ({"name": "a", "must_understand": False}, NamedConfig("a", must_understand=False)),
    ],
)
def test_an_extension_is_parsed_and_rendered_as_an_object(value: Any, expected: NamedConfig) -> None:
    assert parse_extension(value, "codecs[0]") == expected
    assert parse_extension(render_extension(expected), "codecs[0]") == expected


def test_codecs_of_numcodecs_always_have_a_configuration() -> None:
    assert render_extension(NamedConfig("numcodecs.zlib")) == {"name": "numcodecs.zlib", "configuration": {}}
    assert render_extension(NamedConfig("gzip")) == {"name": "gzip"}


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (1, "codecs[1]"),
        ({}, "codecs[1].name"),
        ({"name": 1}, "codecs[1].name"),
        ({"name": "a", "configuration": []}, "codecs[1].configuration"),
        ({"name": "a", "must_understand": 1}, "codecs[1].must_understand"),
        ({"name": "a", "level": 1}, "codecs[1].level"),
    ],
)
def test_an_invalid_extension_is_rejected_with_its_path(value: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse_extensions(["gzip", value], "codecs")
    assert caught.value.member == member


def test_names_and_lists_have_limits() -> None:
    assert len(parse_extensions(["gzip"] * MAX_EXTENSIONS, "codecs")) == MAX_EXTENSIONS
    assert parse_extension("a" * MAX_NAME_LENGTH, "codecs").name
    for value in (["gzip"] * (MAX_EXTENSIONS + 1), ["a" * (MAX_NAME_LENGTH + 1)]):
        with pytest.raises(UnsupportedMetadataError):
            parse_extensions(value, "codecs")


def test_only_objects_with_false_must_understand_may_be_ignored() -> None:
    assert may_be_ignored({"must_understand": False})
    assert [may_be_ignored(value) for value in ({}, {"must_understand": True}, {"must_understand": 0}, None, "a")] == [
        False
    ] * 5
