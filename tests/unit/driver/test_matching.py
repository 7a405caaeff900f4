"""A stored array satisfies constraints, or does not, as TensorStore decides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiozarr.driver.document_format import FORMATS, parse_stored
from aiozarr.driver.metadata_constraints import ArrayFacts, MetadataConstraints
from aiozarr.driver.schema import Schema
from aiozarr.errors import InvalidMetadataError, InvalidSpecError, SpecMismatchError
from tests.support.tensorstore_pairs import label_of, pairs

# What only opening decides, and what aiozarr tolerates.
ELSEWHERE = {"create", "delete_existing", "assume_metadata", "assume_cached_metadata", "foo", "rank"}
ELSEWHERE |= {"recheck_cached_data", "recheck_cached_metadata"}
CASES = [
    pair
    for pair in pairs("open_cases")
    if pair["existing"] is not None
    and not ELSEWHERE & set(pair["spec"])
    and pair["label"] != "stored: dup dimension_names"
]


def open_pair(pair: dict[str, Any]) -> ArrayFacts:
    existing, spec = pair["existing"], pair["spec"]
    data = existing if isinstance(existing, str) else json.dumps(existing)
    metadata = MetadataConstraints.parse(spec.get("metadata", {}), "metadata")
    schema = Schema.parse(spec.get("schema", {}), "schema").with_dtype(spec.get("dtype"), "dtype")
    facts = parse_stored(data.encode(), node="memory://a")
    FORMATS["zarr3"].match(facts, metadata, schema, "memory://a")
    return facts


@pytest.mark.parametrize("pair", [each for each in CASES if "ok" in each["result"]], ids=label_of)
def test_arrays_that_satisfy_the_constraints_are_described_as_recorded(pair: Any) -> None:
    facts, result = open_pair(pair), pair["result"]
    assert facts.codec.to_json() == result["codec"]
    if "transform" not in pair["spec"]:
        assert facts.chunk_layout.to_json() == result["chunk_layout"]


@pytest.mark.parametrize("pair", [each for each in CASES if "error" in each["result"]], ids=label_of)
def test_what_does_not_match_is_an_error_of_its_kind(pair: Any) -> None:
    text = pair["result"]["error"]
    if "Error reading" in text:
        expected: type[Exception] = InvalidMetadataError
    elif "FAILED_PRECONDITION" in text or "Error setting" in text:
        expected = SpecMismatchError
    else:
        expected = InvalidSpecError
    with pytest.raises(expected):
        open_pair(pair)


def test_a_mismatch_names_member_constraint_and_what_is_stored() -> None:
    pair = next(each for each in CASES if each["label"] == "fill_value mismatch")
    with pytest.raises(SpecMismatchError) as caught:
        open_pair(pair)
    assert (caught.value.member, caught.value.expected, caught.value.found) == ("metadata.fill_value", 43, 42)


def test_names_that_are_not_unique_leave_all_dimensions_without_labels() -> None:
    pair = next(each for each in pairs("open_cases") if each["label"] == "stored: dup dimension_names")
    assert open_pair(pair).domain.labels == ("", "")


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"1" * 5000, b"\xff"])
def test_a_stored_document_is_read_within_the_bounds_of_all_documents(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError, match="document") as caught:
        parse_stored(data, node="memory://a")
    assert (caught.value.node, caught.value.key) == ("memory://a", "zarr.json")
