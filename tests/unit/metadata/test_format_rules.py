"""Differences of the formats: documents and their write order, groups, and consolidated metadata."""

from __future__ import annotations

import pytest

from aiozarr.metadata.format_rules import document_write_order, rules_of


def test_format_3_has_one_document_for_everything() -> None:
    rules = rules_of(3)
    assert rules.keys == rules.own_keys == rules.ancestor_keys == rules.consolidated_keys == ("zarr.json",)
    assert rules.has_groups
    assert not rules.consolidated_in_own_document
    assert rules.consolidated_member == "consolidated_metadata"


def test_format_2_has_documents_for_attributes_and_consolidated_metadata() -> None:
    rules = rules_of(2)
    assert rules.keys == (".zarray", ".zgroup", ".zattrs", ".zmetadata")
    assert rules.own_keys == (".zarray", ".zgroup", ".zattrs")
    assert rules.ancestor_keys == (".zarray", ".zgroup", ".zmetadata")
    assert rules.consolidated_keys == (".zmetadata",)
    assert rules.has_groups
    assert rules.consolidated_in_own_document


def test_format_1_has_no_groups_and_no_ancestors() -> None:
    rules = rules_of(1)
    assert rules.keys == rules.own_keys == ("meta", "attrs")
    assert rules.ancestor_keys == rules.consolidated_keys == ()
    assert not rules.has_groups
    assert not rules.consolidated_in_own_document


@pytest.mark.parametrize(
    "keys",
    [(".zattrs", ".zarray"), (".zattrs", ".zgroup", ".zmetadata"), ("attrs", "meta"), ("zarr.json",)],
)
def test_attributes_are_stored_before_the_node_and_consolidated_metadata_after_it(keys: tuple[str, ...]) -> None:
    turns = [document_write_order(f"a/{key}") for key in keys]
    assert turns == sorted(turns, key=lambda turn: -1 if turn is None else turn)
    assert len(set(turns)) == len(keys)
    assert None not in turns


@pytest.mark.parametrize("key", ["0.0", "c/0/0", "a/zarr.json.bak", "zarr.json/c/0"])
def test_chunks_have_no_write_order(key: str) -> None:
    assert document_write_order(key) is None
