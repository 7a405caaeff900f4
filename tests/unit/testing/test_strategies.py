"""The strategies draw what numpy and the formats allow, zero dimensions and zero lengths included."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.codecs import get_codec
from aiozarr.testing.strategies import ArrayCase, array_cases, arrays, basic_selections, shapes


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
