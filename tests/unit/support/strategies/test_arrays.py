"""The strategies draw what numpy and the formats allow, zero dimensions and zero lengths included."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from aiozarr.codecs import get_codec
from aiozarr.testing.fakes import FakeStore
from tests.support.strategies.arrays import (
    ArrayCase,
    NewArray,
    array_cases,
    arrays,
    basic_selections,
    new_arrays,
    shapes,
)
from tests.support.strategies.elements import same_elements


@given(st.data())
def test_selections_are_valid_for_their_shape(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    selection = data.draw(basic_selections(shape))
    assert np.zeros(shape, "u1")[selection] is not None


@given(array_cases())
def test_array_cases_are_consistent(case: ArrayCase) -> None:
    assert len(case.chunks) == len(case.shape)
    assert min(case.chunks, default=1) >= 1
    if case.shards is not None:
        assert all(shard % chunk == 0 for shard, chunk in zip(case.shards, case.chunks, strict=True))
    assert case.fill_value.dtype == case.dtype
    for codec in case.codecs:
        get_codec(codec["name"]).from_json(codec.get("configuration", {}))


@given(st.data())
def test_arrays_have_their_shape_and_type(data: st.DataObject) -> None:
    case = data.draw(array_cases(max_dims=2, max_side=4))
    values = data.draw(arrays(case.shape, case.dtype))
    assert (values.shape, values.dtype) == (case.shape, case.dtype)


@given(new_arrays())
async def test_new_arrays_of_all_formats_can_be_created(new: NewArray) -> None:
    array = await aiozarr.create_array(FakeStore(latency=0), **new.options)
    assert array.dtype == new.elements.dtype
    assert "fill_value" not in new.options or same_elements(array.metadata.fill_value, new.options["fill_value"])


@given(st.data())
def test_contents_have_their_shape_and_type_and_are_themselves(data: st.DataObject) -> None:
    new = data.draw(new_arrays())
    values = data.draw(new.contents(new.shape))
    assert (values.shape, values.dtype) == (new.shape, new.elements.dtype)
    assert same_elements(values, values.copy())


def test_elements_are_the_same_by_their_bits_and_objects_by_their_class() -> None:
    assert same_elements(np.array([np.nan, -0.0]), np.array([np.nan, -0.0]))
    assert not same_elements(np.array([0.0]), np.array([-0.0]))
    assert not same_elements(np.array([1]), np.array([[1]]))
    assert not same_elements(np.array([1, None], object), np.array([True, None], object))
    assert not same_elements(np.array(["a"], "T"), np.array(["b"], "T"))
