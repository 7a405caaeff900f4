"""The metadata model: equality, hashes, pickling, and changed copies."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from aiozarr.metadata import DataType
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata, NamedConfig, dimension_names_of, with_dimension_names


def array(fill: object = 0.5, data_type: str = "float32") -> ArrayMetadata:
    parsed = DataType.from_json(data_type)
    return ArrayMetadata(
        zarr_format=3,
        shape=(4, 5),
        data_type=parsed,
        chunk_grid=NamedConfig("regular", {"chunk_shape": [2, 5]}),
        chunk_key_encoding=NamedConfig("default"),
        fill_value=parsed.make_fill_value(fill),
        codecs=(NamedConfig("bytes", {"endian": "little"}),),
    )


def test_arrays_compare_by_value_and_fill_values_by_their_bits() -> None:
    assert array() == array()
    assert hash(array()) == hash(array())
    assert array(float("nan")) == array(float("nan"))
    assert array(0.0) != array(-0.0)
    assert array(float("nan")) != array(np.array(0x7FC01234, "u4").view("f4"))
    assert array() != replace(array(), codecs=(NamedConfig("bytes", {"endian": "big"}),))
    assert array() != array().with_attributes({"a": 1})
    assert array() != "array"


def test_metadata_can_be_pickled() -> None:
    for metadata in (array().with_attributes({"a": [1]}), GroupMetadata(3, {"a": 1})):
        assert pickle.loads(pickle.dumps(metadata)) == metadata
    assert hash(GroupMetadata(3, {"a": 1})) == hash(GroupMetadata(3, {"a": 1}))


def test_changes_are_copies() -> None:
    before, attributes = array(), {"a": 1}
    after = before.with_attributes(attributes)
    attributes["a"] = 2
    assert (before.attributes, after.attributes) == ({}, {"a": 1})
    assert before.with_shape((np.int64(9), 0)).shape == (9, 0)
    assert type(before.with_shape((np.int64(9), 0)).shape[0]) is int
    assert before.shape == (4, 5)
    assert GroupMetadata(3).with_attributes({"a": 1}).attributes == {"a": 1}


@pytest.mark.parametrize("shape", [(), (4,), (4, 5, 6), (4, -1), (4, 2**63)])
def test_an_invalid_shape_is_a_value_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        array().with_shape(shape)
    with pytest.raises(TypeError):
        array().with_shape((1.0, 2))  # type: ignore[arg-type]


def test_names_become_an_attribute_and_are_parsed_from_it() -> None:
    attributes = with_dimension_names({"a": 1}, ("y", "x"))
    assert attributes == {"a": 1, "_ARRAY_DIMENSIONS": ["y", "x"]}
    assert dimension_names_of(attributes, 2) == ("y", "x")
    assert dimension_names_of(attributes, 3) is None
    assert with_dimension_names({"a": 1}, None) == {"a": 1}
    assert dimension_names_of({"_ARRAY_DIMENSIONS": []}, 0) == ()
