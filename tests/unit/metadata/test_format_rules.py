"""What the formats differ in: documents and their order, groups, and where copies of metadata lie."""

from __future__ import annotations

import pytest

from aiozarr.metadata import document_turn, rules_of


def test_format_3_has_one_document_for_everything() -> None:
    rules = rules_of(3)
    assert rules.keys == rules.own_keys == rules.keys_above == rules.copies_keys == ("zarr.json",)
    assert rules.has_groups
    assert rules.has_implicit_groups
    assert not rules.copies_lie_apart
    assert rules.copies_member == "consolidated_metadata"


def test_format_2_keeps_attributes_and_copies_apart() -> None:
    rules = rules_of(2)
    assert rules.keys == (".zarray", ".zgroup", ".zattrs", ".zmetadata")
    assert rules.own_keys == (".zarray", ".zgroup", ".zattrs")
    assert rules.keys_above == (".zarray", ".zgroup", ".zmetadata")
    assert rules.copies_keys == (".zmetadata",)
    assert rules.has_groups
    assert not rules.has_implicit_groups
    assert rules.copies_lie_apart


def test_format_1_has_no_groups_and_nothing_above_a_node() -> None:
    rules = rules_of(1)
    assert rules.keys == rules.own_keys == ("meta", "attrs")
    assert rules.keys_above == rules.copies_keys == ()
    assert not rules.has_groups
    assert not rules.has_implicit_groups
    assert not rules.copies_lie_apart


@pytest.mark.parametrize(
    "keys",
    [(".zattrs", ".zarray"), (".zattrs", ".zgroup", ".zmetadata"), ("attrs", "meta"), ("zarr.json",)],
)
def test_attributes_are_stored_before_the_node_and_copies_after_it(keys: tuple[str, ...]) -> None:
    turns = [document_turn(f"a/{key}") for key in keys]
    assert turns == sorted(turns, key=lambda turn: -1 if turn is None else turn)
    assert len(set(turns)) == len(keys)
    assert None not in turns


@pytest.mark.parametrize("key", ["0.0", "c/0/0", "a/zarr.json.bak", "zarr.json/c/0"])
def test_data_have_no_turn_among_documents(key: str) -> None:
    assert document_turn(key) is None
