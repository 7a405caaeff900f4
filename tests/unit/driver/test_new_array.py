"""Constraints give the metadata that TensorStore writes, and the errors that it raises, as typed errors."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.driver.json_members import SpecConflictError
from aiozarr.driver.metadata_constraints import ArrayFacts, MetadataConstraints
from aiozarr.driver.new_array import new_array
from aiozarr.driver.schema import Schema
from aiozarr.errors import InvalidSpecError
from tests.support.tensorstore_pairs import label_of, pairs

# Names that are not unique are stored, and give no labels.
TOLERATED = {"labels metadata duplicate"}


def create(spec: dict[str, Any], *, exact: bool = False) -> ArrayFacts:
    metadata = MetadataConstraints.parse(spec.get("metadata", {}), "metadata")
    schema = Schema.parse(spec.get("schema", {}), "schema").with_rank(metadata.rank, "schema")
    data_type = metadata.data_type
    schema = schema.with_dtype(None if data_type is None else data_type.name, "metadata.data_type")
    return new_array(metadata, schema, exact=exact)


LAYOUTS = [pair for pair in pairs("layout_cases") if pair["label"] not in TOLERATED]


@pytest.mark.parametrize("pair", [each for each in LAYOUTS if "error" not in each["result"]], ids=label_of)
def test_constraints_give_the_recorded_metadata(pair: Any) -> None:
    facts, result = create(pair["spec"], exact=True), pair["result"]
    assert facts.document() == result["metadata"]
    assert facts.to_json() == result["spec_metadata"]
    if "transform" not in pair["spec"]:
        assert facts.chunk_layout.to_json() == result["chunk_layout"]
        assert facts.domain.to_json() == result["domain"]


@pytest.mark.parametrize("pair", [each for each in LAYOUTS if "error" in each["result"]], ids=label_of)
def test_constraints_that_no_array_satisfies_are_refused(pair: Any) -> None:
    with pytest.raises(InvalidSpecError):
        create(pair["spec"], exact=True)


@pytest.mark.parametrize("pair", pairs("codec_cases"), ids=label_of)
def test_codecs_are_completed_as_recorded(pair: Any) -> None:
    result = pair["result"]
    if "error" in result:
        with pytest.raises(SpecConflictError):
            create(pair["spec"])
        return
    facts = create(pair["spec"])
    assert facts.document()["codecs"] == result["codecs"]
    assert list(facts.chunk_layout.read_chunk_shape or ()) == result["read"]
    assert list(facts.chunk_layout.write_chunk_shape or ()) == result["write"]


BASE = {"dtype": "uint16", "domain": {"shape": [100, 100]}}
SHARDED = {"read_chunk": {"shape": [10, 10]}, "write_chunk": {"shape": [50, 50]}}


def test_codecs_given_as_metadata_go_into_shards_unless_exactness_is_asked_for() -> None:
    spec = {"schema": {**BASE, "chunk_layout": SHARDED}, "metadata": {"codecs": ["gzip"]}}
    (codec,) = create(spec).document()["codecs"]
    assert codec["name"] == "sharding_indexed"
    assert [each["name"] for each in codec["configuration"]["codecs"]] == ["bytes", "gzip"]
    with pytest.raises(SpecConflictError):
        create(spec, exact=True)


def test_the_shape_of_inner_chunks_always_constrains_the_shards() -> None:
    sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": [30, 30]}}
    assert create({"schema": BASE, "metadata": {"codecs": [sharding]}}).chunk_shape == (90, 90)


def test_names_that_are_not_unique_are_stored_and_give_no_labels() -> None:
    facts = create({"metadata": {"shape": [4, 5], "data_type": "int8", "dimension_names": ["x", "x"]}})
    assert facts.document()["dimension_names"] == ["x", "x"]
    assert facts.domain.labels == ("", "")
