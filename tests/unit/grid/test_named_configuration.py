"""Members of the configurations of grids and key encodings."""

from __future__ import annotations

import pytest

from aiozarr.errors import UnsupportedMetadataError
from aiozarr.grid.named_configuration import check_members


def test_known_members_and_members_that_may_be_ignored_are_accepted() -> None:
    check_members({"a": 1, "b": {"must_understand": False}}, ("a",), point="chunk_grid", name="regular")


def test_an_unknown_member_is_rejected_with_its_path() -> None:
    for value in (1, {}, {"must_understand": True}):
        with pytest.raises(UnsupportedMetadataError) as caught:
            check_members({"a": 1, "b": value}, ("a",), point="chunk_grid", name="regular")
        assert (caught.value.member, caught.value.name) == ("chunk_grid.configuration.b", "regular")
