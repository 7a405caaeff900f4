"""Numbers with fewer significant bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs.bitround import BitRound

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def rounded(array: np.ndarray[Any, Any], keepbits: int, name: str = "bitround") -> np.ndarray[Any, Any]:
    spec = ArraySpec(array.shape, array.dtype, np.zeros((), array.dtype))
    pipeline = CodecPipeline.resolve([{"name": name, "configuration": {"keepbits": keepbits}}, BYTES], spec)
    before = array.copy()
    result = pipeline.decode(pipeline.encode(array))
    assert before.tobytes() == array.tobytes()
    return result


@given(
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1), keepbits=st.integers(1, 23)
)
def test_floats_round_as_in_numcodecs(values: list[float], keepbits: int) -> None:
    array = np.array(values, np.float32)
    expected = np.asarray(BitRound(keepbits).encode(array.copy())).view(np.float32)
    assert rounded(array, keepbits).tobytes() == expected.tobytes()
    parts = array.astype(np.complex64)
    assert rounded(parts, keepbits).real.tobytes() == expected.tobytes()


def test_nan_and_infinity_do_not_change() -> None:
    bits = np.array([0x7FFFFFFF, 0xFFC00001, 0x7F800000, 0xFF800000], np.uint32)
    assert rounded(bits.view(np.float32), 2).view(np.uint32).tolist() == bits.tolist()


@given(value=st.integers(0, 2**64 - 1), keepbits=st.integers(1, 64))
def test_integers_keep_bits_from_the_highest_that_is_set(value: int, keepbits: int) -> None:
    dropped = max(0, value.bit_length() - keepbits)
    unit = 1 << dropped
    up = (value + unit // 2) // unit * unit
    expected = up if up < 2**64 else value // unit * unit
    assert rounded(np.array([value], np.uint64), keepbits).tolist() == [expected]


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_signed_integers_do_not_change_their_sign(dtype: str) -> None:
    limits = np.iinfo(dtype)
    array = np.array([limits.min, -1, 0, 1, limits.max], dtype)
    for keepbits in (1, 2, 3, 64):
        result = rounded(array, keepbits)
        assert np.array_equal(np.sign(result), np.sign(array))


def test_times_round_as_integers_and_nat_does_not_change() -> None:
    array = np.array([1023, "NaT"], "M8[s]")
    assert np.array_equal(rounded(array, 2), np.array([1024, "NaT"], "M8[s]"), equal_nan=True)


def test_bfloat16_is_rounded_too() -> None:
    assert rounded(np.array([1.625, 1.0], ml_dtypes.bfloat16), 1).tolist() == [1.5, 1.0]


@pytest.mark.parametrize("name", ["zarrs.bitround", "https://codec.zarrs.dev/array_to_array/bitround"])
def test_older_names_are_read_and_not_written(name: str) -> None:
    spec = ArraySpec((1,), np.dtype("u1"), np.zeros((), "u1"))
    pipeline = CodecPipeline.resolve([{"name": name, "configuration": {"keepbits": 3}}, BYTES], spec)
    assert pipeline.to_json()[0] == {"name": "bitround", "configuration": {"keepbits": 3}}


def test_types_and_numbers_of_bits_are_checked() -> None:
    with pytest.raises(InvalidMetadataError, match="mantissa"):
        rounded(np.zeros(1, np.float32), 24)
    with pytest.raises(InvalidMetadataError, match="keepbits"):
        rounded(np.zeros(1, np.float32), 0)
    for dtype in (bool, "S1", ml_dtypes.float8_e5m2):
        with pytest.raises(UnsupportedMetadataError, match="bitround"):
            rounded(np.zeros(1, dtype), 1)
