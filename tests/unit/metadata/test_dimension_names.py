"""Dimension names as an attribute."""

from __future__ import annotations

from aiozarr.metadata import with_dimension_names
from aiozarr.metadata.dimension_names import dimension_names_of


def test_names_become_an_attribute_and_are_parsed_from_it() -> None:
    attributes = with_dimension_names({"a": 1}, ("y", "x"))
    assert attributes == {"a": 1, "_ARRAY_DIMENSIONS": ["y", "x"]}
    assert dimension_names_of(attributes, 2) == ("y", "x")
    assert dimension_names_of(attributes, 3) is None
    assert with_dimension_names({"a": 1}, None) == {"a": 1}
    assert dimension_names_of({"_ARRAY_DIMENSIONS": []}, 0) == ()
