"""Types of fixed size, in both byte orders: text, times, raw bytes, structures, and the small numbers of ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.bytes import BytesCodec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, InvalidMetadataError, UnsupportedMetadataError

RECORD = np.dtype(
    [
        ("a", "<i4"),
        ("b", "S3"),
        ("c", [("d", "<f8"), ("e", ml_dtypes.bfloat16), ("f", "<U2"), ("g", ml_dtypes.int4, (2,))]),
        ("h", "<M8[ms]", (2, 2)),
    ]
)
SMALL = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
DTYPES = [
    *map(np.dtype, ("S1", "S5", "U1", "U4", "M8[ns]", "m8[25s]", "M8", "m8", "V3", "V8", "c16")),
    *(np.dtype(getattr(ml_dtypes, name)) for name in (*SMALL, "bfloat16", "float8_e5m2", "float8_e8m0fnu")),
    RECORD,
    np.dtype([("x", "i1"), ("y", "<f8")], align=True),
]


def pipeline_of(dtype: np.dtype[Any], shape: tuple[int, ...], endian: str | None = "little") -> CodecPipeline:
    configuration = {} if endian is None else {"endian": endian}
    spec = ArraySpec(shape, dtype, np.zeros((), dtype))
    return CodecPipeline.resolve([{"name": "bytes", "configuration": configuration}], spec)


def random_array(seed: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    array = np.zeros(shape, dtype)
    for name in dtype.names or ():
        array[name] = random_array(seed, dtype[name].base, array[name].shape)
    if dtype.names is not None:
        return array
    if dtype.kind == "U":
        letters = generator.integers(0, 0x3000, (array.size, dtype.itemsize // 4), np.uint32)
        return np.frombuffer(letters.tobytes(), dtype).reshape(shape)
    small = next((bits for bits in (2, 4, 6) if dtype.name.endswith(str(bits)) or f"float{bits}" in dtype.name), 8)
    most = 1 << small if dtype.name in SMALL else 256
    raw = generator.integers(0, most, array.size * dtype.itemsize, np.uint8)
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_every_type_round_trips_bit_for_bit(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3)))
    pipeline = pipeline_of(dtype, shape, data.draw(st.sampled_from(["little", "big"])))
    values = random_array(data.draw(st.integers(0, 99)), dtype, shape)
    encoded = bytes(pipeline.encode(values))
    assert len(encoded) == pipeline.encoded_size
    out = np.zeros(shape, dtype)
    for decoded in (pipeline.decode(encoded), pipeline.decode(encoded, out)):
        assert decoded.dtype == dtype
        assert decoded.shape == shape
        assert bytes(pipeline.encode(decoded)) == encoded
        assert decoded.tobytes() == values.tobytes() or dtype.isalignedstruct


@pytest.mark.parametrize(
    ("value", "dtype", "big"),
    [
        ("a\u20ac", "U2", "00000061000020ac"),
        (1, "M8[s]", "0000000000000001"),
        (1.0, ml_dtypes.bfloat16, "3f80"),
        (b"ab", "S3", "616200"),
        (-1, ml_dtypes.int4, "0f"),
    ],
)
def test_the_byte_order_is_that_of_each_code_unit_or_number(value: Any, dtype: Any, big: str) -> None:
    array = np.array(value, dtype)
    assert bytes(pipeline_of(array.dtype, (), "big").encode(array)).hex() == big


def test_the_byte_order_applies_to_all_fields_and_no_padding_is_stored() -> None:
    array = np.array((1, 2), np.dtype([("x", "i1"), ("y", "<u2")], align=True))
    assert bytes(pipeline_of(array.dtype, (), "big").encode(array)).hex() == "010002"
    assert bytes(pipeline_of(array.dtype, (), "little").encode(array)).hex() == "010200"


@pytest.mark.parametrize("name", SMALL)
def test_unused_bits_are_ignored_and_written_as_zeros(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    pipeline = pipeline_of(dtype, (2,), None)
    noisy = pipeline.decode(b"\xff\x01")
    clean = noisy.astype(np.float32).astype(dtype)
    assert noisy.tobytes() == clean.tobytes()
    loose = np.frombuffer(b"\xff\x01", dtype)
    assert bytes(pipeline.encode(loose)) == clean.tobytes()
    assert pipeline_of(dtype, (1,), None).is_fill(np.frombuffer(b"\xc0", dtype))


def test_code_units_beyond_unicode_are_refused_by_decoding() -> None:
    for dtype in (np.dtype("U1"), np.dtype([("t", "<U1")])):
        assert pipeline_of(dtype, (1,)).decode(b"\xff\xff\x10\x00").size == 1
        with pytest.raises(CodecError, match="code points"):
            pipeline_of(dtype, (1,)).decode(b"\x00\x00\x11\x00")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_chunk_of_another_size_is_refused(dtype: np.dtype[Any]) -> None:
    pipeline = pipeline_of(dtype, (3,))
    for size in (0, (pipeline.encoded_size or 0) - 1, (pipeline.encoded_size or 0) + 1):
        with pytest.raises(CodecError, match="bytes, expected"):
            pipeline.decode(bytes(size))


@pytest.mark.parametrize("dtype", ["U2", "M8[s]", ml_dtypes.bfloat16])
def test_types_with_a_byte_order_need_one(dtype: Any) -> None:
    with pytest.raises(InvalidMetadataError, match="endianness"):
        pipeline_of(np.dtype(dtype), (1,), None)


@pytest.mark.parametrize("dtype", ["S4", "V4", ml_dtypes.float8_e5m2, ml_dtypes.int4])
def test_types_without_a_byte_order_need_none(dtype: Any) -> None:
    assert pipeline_of(np.dtype(dtype), (2,), None).encoded_size == 2 * np.dtype(dtype).itemsize


def test_structures_without_a_byte_order_are_little_endian_as_zarr_python_wrote_them() -> None:
    dtype = np.dtype([("a", "<u2")])
    assert pipeline_of(dtype, (1,), None).decode(b"\x01\x00")["a"] == 1


def test_objects_are_refused() -> None:
    spec = ArraySpec((1,), np.dtype(object), np.array(b"", object))
    with pytest.raises(UnsupportedMetadataError, match="fixed size"):
        BytesCodec("little").resolve(spec)
