"""Elements of any number of bits: stored bits round-trip, the others are zero or the sign."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.packbits import PackBits

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, InvalidMetadataError, UnsupportedMetadataError

BITS = {
    np.dtype(bool): 1,
    np.dtype(ml_dtypes.int2): 2,
    np.dtype(ml_dtypes.uint2): 2,
    np.dtype(ml_dtypes.int4): 4,
    np.dtype(ml_dtypes.uint4): 4,
    np.dtype(ml_dtypes.float4_e2m1fn): 4,
    np.dtype(ml_dtypes.float6_e2m3fn): 6,
    np.dtype(ml_dtypes.float6_e3m2fn): 6,
    np.dtype("i1"): 8,
    np.dtype("u2"): 16,
    np.dtype(ml_dtypes.bfloat16): 16,
    np.dtype("i4"): 32,
    np.dtype("f4"): 32,
    np.dtype("c8"): 32,
    np.dtype("i8"): 64,
    np.dtype("f8"): 64,
}


def pipeline_of(dtype: Any, shape: tuple[int, ...], **configuration: Any) -> CodecPipeline:
    spec = ArraySpec(shape, np.dtype(dtype), np.zeros((), dtype))
    return CodecPipeline.resolve([{"name": "packbits", "configuration": configuration}], spec)


def model(array: np.ndarray[Any, Any], first: int, last: int) -> bytes:
    """Pack one bit after the other, as the registry's text has it."""
    parts = array.reshape(-1)
    width = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    raw = parts.tobytes()
    numbers = [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
    bits = [number >> bit & 1 for number in numbers for bit in range(first, last + 1)]
    bits += [0] * (-len(bits) % 8)
    return bytes(sum(bit << i for i, bit in enumerate(bits[start : start + 8])) for start in range(0, len(bits), 8))


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_stored_bits_round_trip(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(list(BITS)))
    bits = BITS[dtype]
    shape = tuple(data.draw(st.lists(st.integers(1, 5), max_size=2)))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), np.uint8)
    array = (raw & ((1 << bits) - 1) if bits < 8 else raw).tobytes()
    values = np.frombuffer(array, dtype).reshape(shape)
    first = data.draw(st.integers(0, bits - 1))
    last = data.draw(st.integers(first, bits - 1))
    place = data.draw(st.sampled_from(["none", "first_byte", "last_byte"]))
    pipeline = pipeline_of(dtype, shape, first_bit=first, last_bit=last, padding_encoding=place)
    encoded = bytes(pipeline.encode(values))
    packed = model(values, first, last)
    components = values.size * (2 if dtype.kind == "c" else 1)
    padding = bytes([8 * len(packed) - components * (last - first + 1)])
    assert encoded == padding * (place == "first_byte") + packed + padding * (place == "last_byte")
    assert len(encoded) == pipeline.encoded_size
    decoded = pipeline.decode(encoded)
    assert bytes(pipeline.encode(decoded)) == encoded
    if (first, last) == (0, bits - 1):
        assert decoded.tobytes() == values.tobytes()


def test_blocks_join_without_a_gap() -> None:
    array = np.random.default_rng(0).integers(0, 2**13, 100_001, np.uint16)
    pipeline = pipeline_of("u2", array.shape, last_bit=12)
    encoded = bytes(pipeline.encode(array))
    assert encoded == model(array, 0, 12)
    assert np.array_equal(pipeline.decode(encoded), array)


def test_signed_integers_extend_their_sign_and_others_zeros() -> None:
    array = np.array([-3, 3, -1], np.int16)
    pipeline = pipeline_of("i2", (3,), last_bit=3)
    assert pipeline.decode(pipeline.encode(array)).tolist() == [-3, 3, -1]
    small = np.array([-2, 1], ml_dtypes.int4)
    pipeline = pipeline_of(ml_dtypes.int4, (2,), last_bit=1)
    assert pipeline.decode(pipeline.encode(small)).tolist() == [-2, 1]
    assert pipeline_of("u2", (1,), last_bit=1).decode(b"\x03").tolist() == [3]


def test_the_first_bit_is_the_least_significant_as_zarrs_writes_it() -> None:
    array = np.array([False, True, False, True])
    assert bytes(pipeline_of(bool, (4,)).encode(array)) == b"\x0a"
    reverse = PackBits().encode(array)
    assert bytes(reverse[1:]) == b"\x50"


@pytest.mark.parametrize(("data", "place"), [(b"", "none"), (b"\0\0", "none"), (b"\x03\0", "first_byte")])
def test_other_sizes_and_a_wrong_number_of_padding_bits_are_refused(data: bytes, place: str) -> None:
    with pytest.raises(CodecError, match="packbits"):
        pipeline_of(bool, (4,), padding_encoding=place).decode(data)


@pytest.mark.parametrize(
    "configuration",
    [{"first_bit": 3, "last_bit": 2}, {"last_bit": 8}, {"first_bit": -1}, {"first_bit": True}, {"padding_encoding": 1}],
)
def test_bits_beyond_the_type_are_refused(configuration: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadataError):
        pipeline_of("u1", (1,), **configuration)


@pytest.mark.parametrize("dtype", ["S2", "U1", "V2", [("a", "u1")], object])
def test_other_types_than_numbers_are_refused(dtype: Any) -> None:
    with pytest.raises(UnsupportedMetadataError, match="encodes numbers"):
        pipeline_of(dtype, (1,))


def test_a_configuration_is_written_as_it_was_read() -> None:
    for configuration in ({}, {"padding_encoding": "last_byte", "first_bit": 1, "last_bit": 5}):
        (codec,) = pipeline_of("u1", (1,), **configuration).to_json()
        assert codec.get("configuration", {}) == configuration
    assert pipeline_of("u1", (1,), first_bit=None).to_json() == [{"name": "packbits"}]
