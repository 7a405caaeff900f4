"""Objects of Zarr v2: a type without name in v3, with any JSON value as fill value."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from aiozarr.errors import UnsupportedMetadataError
from aiozarr.metadata import DataType
from aiozarr.metadata.text import ObjectType


def test_objects_cannot_be_represented_in_v3() -> None:
    with pytest.raises(UnsupportedMetadataError):
        ObjectType().to_json()
    with pytest.raises(UnsupportedMetadataError):
        DataType.from_json("object")
    with pytest.raises(UnsupportedMetadataError, match="say what the objects are"):
        DataType.from_numpy(object)
    assert ObjectType().is_variable
    assert pickle.loads(pickle.dumps(ObjectType())) == ObjectType()


@pytest.mark.parametrize("value", [None, 0, "a", [1, [2]], {"a": None}])
def test_a_fill_value_is_any_json_value(value: object) -> None:
    data_type = ObjectType()
    for array in (data_type.parse_fill_value(value), data_type.make_fill_value(value)):
        assert (array.shape, array.dtype, array.flags.writeable) == ((), np.dtype(object), False)
        assert data_type.render_fill_value(array) == value
        assert data_type.fill_key(array) == data_type.fill_key(data_type.parse_fill_value(value))
    assert data_type.fill_key(data_type.parse_fill_value(value)) != data_type.fill_key(data_type.make_fill_value("b"))


def test_other_values_than_json_are_rejected() -> None:
    with pytest.raises(TypeError):
        ObjectType().make_fill_value(object())
    assert ObjectType().default_fill_value.item() is None
