"""Offsets and scales, in the arithmetic of the type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, InvalidMetadataError, UnsupportedMetadataError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def pipeline_of(dtype: Any, fill: Any = 0, *, size: int = 1, **configuration: Any) -> CodecPipeline:
    spec = ArraySpec((size,), np.dtype(dtype), np.array(fill).astype(dtype))
    return CodecPipeline.resolve([{"name": "scale_offset", "configuration": configuration}, BYTES], spec)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ml_dtypes.bfloat16])
def test_floats_are_computed_in_their_own_type(dtype: Any) -> None:
    array = np.array([1.25, -3.5, 1000.0], dtype)
    pipeline = pipeline_of(dtype, size=3, offset=5, scale=0.1)
    five, tenth = np.array(5, dtype), np.array(0.1).astype(dtype)
    stored = np.frombuffer(bytes(pipeline.encode(array)), dtype)
    assert stored.tobytes() == ((array - five) * tenth).astype(dtype).tobytes()
    assert pipeline.decode(stored.tobytes()).tobytes() == (stored / tenth + five).astype(dtype).tobytes()


@given(data=st.data(), dtype=st.sampled_from(["i1", "i4", "i8", "u1", "u8"]))
def test_integers_round_trip_or_are_refused(data: st.DataObject, dtype: str) -> None:
    limits = np.iinfo(dtype)
    numbers = st.integers(int(limits.min), int(limits.max))
    value, offset, scale = data.draw(numbers), data.draw(numbers), data.draw(numbers.filter(bool))
    encoded = (value - offset) * scale
    pipeline = pipeline_of(dtype, offset, offset=offset, scale=scale)
    array = np.array([value], dtype)
    if limits.min <= encoded <= limits.max:
        assert np.frombuffer(bytes(pipeline.encode(array)), dtype).tolist() == [encoded]
        assert pipeline.decode(pipeline.encode(array)).tolist() == [value]
    else:
        with pytest.raises(CodecError, match="outside the range of dtype"):
            pipeline.encode(array)


def test_stored_integers_that_are_not_multiples_or_overflow_are_refused() -> None:
    with pytest.raises(CodecError, match="not multiples of 3"):
        pipeline_of("u1", 0, scale=3).decode(b"\x04")
    with pytest.raises(CodecError, match="outside the range of dtype"):
        pipeline_of("u1", 10, offset=10).decode(b"\xff")


def test_the_fill_value_is_encoded_like_an_element() -> None:
    pipeline = pipeline_of("f8", 10.0, offset=5, scale=2)
    assert float(pipeline._specs[-1].fill_value) == 10.0
    assert float(pipeline_of("f8", 11.0, offset=5, scale=2)._specs[-1].fill_value) == 12.0
    with pytest.raises(InvalidMetadataError, match="fill value"):
        pipeline_of("u1", 0, offset=1)


def test_inner_chunks_that_are_missing_read_as_the_fill_value_of_the_array() -> None:
    inner = [{"name": "scale_offset", "configuration": {"offset": 5, "scale": 2}}, BYTES]
    sharding = {"chunk_shape": [1], "codecs": inner, "index_codecs": [BYTES]}
    spec = ArraySpec((2,), np.dtype("f8"), np.array(11.0))
    outer = {"name": "scale_offset", "configuration": {"offset": 1, "scale": 1}}
    pipeline = CodecPipeline.resolve([outer, {"name": "sharding_indexed", "configuration": sharding}], spec)
    encoded = pipeline.encode(np.array([11.0, 3.0]))
    assert len(bytes(encoded)) == 8 + 2 * 16
    assert pipeline.decode(encoded).tolist() == [11.0, 3.0]


@pytest.mark.parametrize(
    "configuration",
    [{"scale": 0}, {"scale": "0x0000"}, {"offset": 1.5}, {"offset": True}, {"scale": [1]}, {"offset": 1e999}],
)
def test_parameters_that_the_type_cannot_represent_are_refused(configuration: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadataError, match="not a valid codec configuration"):
        pipeline_of("i2", **configuration)


def test_other_types_and_members_are_refused() -> None:
    with pytest.raises(UnsupportedMetadataError, match="real numbers"):
        pipeline_of("c8")
    with pytest.raises(UnsupportedMetadataError, match="no member 'astype'"):
        pipeline_of("f4", astype="u1")
