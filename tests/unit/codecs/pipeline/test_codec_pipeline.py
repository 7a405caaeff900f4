"""Whole chains round-trip bit for bit, with and without an array to decode into."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline, equals_everywhere, value_test
from aiozarr.errors import ChecksumError, CodecError, UnsupportedMetadataError

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "V1", "V3", "V16"]
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
CRC = {"name": "crc32c"}


def spec_of(shape: tuple[int, ...], dtype: str = "<f4") -> ArraySpec:
    return ArraySpec(shape, np.dtype(dtype), np.zeros((), dtype))


def random_array(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    # Few distinct bytes, so that there is something to compress and elements repeat; 0 and 1 are the booleans.
    raw = generator.integers(0, 2 if dtype == "?" else 4, size, np.uint8)
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)


@st.composite
def outer_codecs(draw: st.DrawFn, itemsize: int) -> list[dict[str, Any]]:
    level = {"level": draw(st.integers(0, 9))}
    shuffle = draw(st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]))
    cname = draw(st.sampled_from(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]))
    blosc = {"cname": cname, "clevel": level["level"], "shuffle": shuffle, "typesize": itemsize, "blocksize": 0}
    checksum = draw(st.booleans())
    known = [
        {"name": "zstd", "configuration": {"level": level["level"] - 3, "checksum": checksum}},
        {"name": "gzip", "configuration": level},
        {"name": "blosc", "configuration": blosc},
        CRC,
    ]
    return draw(st.lists(st.sampled_from(known), max_size=3))


@st.composite
def chains(draw: st.DrawFn, shape: tuple[int, ...], dtype: str, depth: int = 2) -> list[dict[str, Any]]:
    codecs: list[dict[str, Any]] = []
    if draw(st.booleans()):
        order = draw(st.permutations(range(len(shape))))
        codecs.append({"name": "transpose", "configuration": {"order": list(order)}})
        shape = tuple(shape[dim] for dim in order)
    if depth and draw(st.booleans()):
        inner = tuple(draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0])) for length in shape)
        configuration = {
            "chunk_shape": list(inner),
            "codecs": draw(chains(inner, dtype, depth - 1)),
            "index_codecs": draw(st.sampled_from([[BYTES, CRC], [BIG], [BIG, CRC, CRC]])),
            "index_location": draw(st.sampled_from(["start", "end"])),
        }
        codecs.append({"name": "sharding_indexed", "configuration": configuration})
    else:
        codecs.append({"name": "bytes", "configuration": {"endian": draw(st.sampled_from(["little", "big"]))}})
    return codecs + draw(outer_codecs(np.dtype(dtype).itemsize))


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_every_chain_round_trips_bit_for_bit(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), max_size=3)))
    pipeline = CodecPipeline.resolve(data.draw(chains(shape, dtype)), spec_of(shape, dtype))
    values = random_array(data.draw(st.integers(0, 99)), shape, dtype)
    assert not values.flags.writeable

    encoded = bytes(pipeline.encode(values))

    assert len(encoded) <= pipeline.max_encoded_size
    assert pipeline.encoded_size in (None, len(encoded))
    out = np.empty(shape, dtype)
    for result in (pipeline.decode(encoded), pipeline.decode(memoryview(b"x" + encoded)[1:], out)):
        assert result.shape == shape
        assert result.dtype == np.dtype(dtype)
        assert result.tobytes() == values.tobytes()


@pytest.mark.parametrize("codecs", [[BYTES], [BYTES, ZSTD], [BYTES, CRC]])
def test_strided_and_reversed_arrays_encode_as_their_contiguous_copies(codecs: list[Any]) -> None:
    pipeline = CodecPipeline.resolve(codecs, spec_of((4, 6)))
    base = np.arange(96, dtype="<f4")
    for view in (base.reshape(8, 12)[::2, ::2], base[:24].reshape(6, 4).T, base[:24].reshape(4, 6)[::-1, ::-1]):
        assert bytes(pipeline.encode(view)) == bytes(pipeline.encode(view.copy()))


def test_without_a_compressor_nothing_is_copied_in_either_direction() -> None:
    values = np.arange(24, dtype="<f4").reshape(4, 6)
    for codecs in ([BYTES], [BYTES, CRC]):
        pipeline = CodecPipeline.resolve(codecs, spec_of((4, 6)))
        encoded = bytes(pipeline.encode(values))
        out = np.zeros((4, 6), "<f4")
        result = pipeline.decode(encoded, out)
        assert result is not out
        assert np.shares_memory(result, np.frombuffer(encoded, np.uint8))
        assert not result.flags.writeable
        assert not out.any()
    assert np.shares_memory(np.asarray(CodecPipeline.resolve([BYTES], spec_of((4, 6))).encode(values)), values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["zstd", "blosc"])
def test_a_compressor_next_to_the_array_fills_the_memory_it_is_given(name: str, dtype: str) -> None:
    blosc = {"cname": "lz4", "clevel": 1, "shuffle": "noshuffle", "blocksize": 0}
    compressor = {"name": name, "configuration": blosc if name == "blosc" else {"level": 1}}
    # Small zstd frames are decoded faster into memory of their own.
    for shape in ((), (5, 7)) if name == "blosc" else ((400, 400),):
        pipeline = CodecPipeline.resolve([BYTES, compressor, CRC], spec_of(shape, dtype))
        values = random_array(3, shape, dtype)
        out = np.zeros(shape, dtype)
        assert pipeline.decode(pipeline.encode(values), out) is out
        assert out.tobytes() == values.tobytes()


def test_big_endian_bytes_decode_to_native_arrays() -> None:
    pipeline = CodecPipeline.resolve([{"name": "bytes", "configuration": {"endian": "big"}}], spec_of((2,), "=c8"))
    encoded = np.array([1 + 2j, 3 - 4j], ">c8").tobytes()
    out = np.empty(2, "=c8")
    for result in (pipeline.decode(encoded), pipeline.decode(encoded, out)):
        assert result.dtype.isnative
        assert result.tolist() == [1 + 2j, 3 - 4j]
    assert pipeline.decode(encoded, out) is out
    assert bytes(pipeline.encode(out)) == encoded


def test_out_arrays_of_the_wrong_size_are_refused_unchanged() -> None:
    pipeline = CodecPipeline.resolve([BYTES, ZSTD], spec_of((4, 6)))
    encoded = pipeline.encode(np.ones((4, 6), "<f4"))
    frozen = np.zeros((4, 6), "<f4")
    frozen.flags.writeable = False
    for out in (frozen, np.zeros((4, 7), "<f4")):
        with pytest.raises(ValueError, match="out"):
            pipeline.decode(encoded, out)
        assert not out.any()


@pytest.mark.parametrize("dtype", ["<f4", "c8", "V3"])
def test_memory_that_is_not_contiguous_is_refused(dtype: str) -> None:
    pipeline = CodecPipeline.resolve([BYTES, ZSTD], spec_of((4, 6), dtype))
    encoded = pipeline.encode(np.zeros((4, 6), dtype))
    with pytest.raises((ValueError, TypeError), match="contiguous"):
        pipeline.decode(encoded, np.zeros((6, 4), dtype).T)


def test_arrays_of_another_shape_or_type_are_a_mistake_of_the_caller() -> None:
    pipeline = CodecPipeline.resolve([BYTES], spec_of((4, 6)))
    for array in (np.zeros((6, 4), "<f4"), np.zeros((4, 6), "<f8"), np.zeros((4, 6), ">f4")):
        with pytest.raises(ValueError, match="the codecs encode"):
            pipeline.encode(array)


@pytest.mark.parametrize("cut", [-1, 1, None])
@pytest.mark.parametrize("codecs", [[BYTES], [BYTES, CRC], [BYTES, ZSTD], [BYTES, GZIP]])
def test_a_chunk_of_another_size_is_refused(codecs: list[Any], cut: int | None) -> None:
    """H41: too short, too long, empty; as stored, and behind every kind of codec."""
    pipeline = CodecPipeline.resolve(codecs, spec_of((24,)))
    length = 0 if cut is None else 24 * 4 + cut
    stored = CodecPipeline.resolve([{"name": "bytes"}, *codecs[1:]], spec_of((length,), "u1"))
    encoded = bytes(stored.encode(np.ones(length, "u1")))
    for out in (None, np.empty(24, "<f4")):
        with pytest.raises(CodecError) as caught:
            pipeline.decode(encoded, out)
        assert caught.value.codec in ("bytes", "zstd", "gzip", "crc32c")
        with pytest.raises(CodecError):
            pipeline.decode(b"", out)


def test_the_message_for_a_wrong_size_names_both_sizes() -> None:
    with pytest.raises(CodecError, match="chunk has 3 bytes, expected 96"):
        CodecPipeline.resolve([BYTES], spec_of((24,))).decode(b"abc")


def test_one_flipped_bit_is_found_by_the_checksum() -> None:
    pipeline = CodecPipeline.resolve([BYTES, CRC], spec_of((24,)))
    encoded = bytearray(pipeline.encode(np.ones(24, "<f4")))
    encoded[17] ^= 4
    with pytest.raises(ChecksumError) as caught:
        pipeline.decode(encoded)
    assert caught.value.codec == "crc32c"


def test_the_fill_value_is_compared_bit_for_bit() -> None:
    payload = np.array(0x7FF8000000000001, "u8").view("f8")
    cases: list[tuple[Any, Any, bool]] = [
        (np.array(0.0), np.zeros((3, 2)), True),
        (np.array(0.0), -np.zeros((3, 2)), False),
        (np.array(np.nan), np.full((3, 2), np.nan), True),
        (payload, np.full((3, 2), np.nan), False),
        (payload, np.full((3, 2), payload), True),
        (np.array(1 - 2j), np.full((3, 2), 1 - 2j), True),
        (np.array(b"abc", "V3"), np.full((3, 2), np.array(b"abc", "V3")), True),
        (np.array(b"abc", "V3"), np.full((3, 2), np.array(b"abd", "V3")), False),
        (np.array(7, "u1"), np.full((), 7, "u1"), True),
        (np.array(7, "u1"), np.full((0, 4), 1, "u1"), True),
        (np.array(0, "i4"), np.zeros((400, 600), "i4")[::2, ::-3], True),
    ]
    for fill_value, array, expected in cases:
        pipeline = CodecPipeline.resolve([BYTES], ArraySpec(array.shape, array.dtype, fill_value))
        assert pipeline.is_fill(array) is expected
    large = np.zeros((300, 1000), "i4")
    pipeline = CodecPipeline.resolve([BYTES], spec_of(large.shape, "i4"))
    for position in ((0, 0), (150, 500), (299, 999)):
        large[position] = 1
        assert not pipeline.is_fill(large)
        assert not pipeline.is_fill(large.T[:, ::-1])
        large[position] = 0
    assert pipeline.is_fill(large)


def test_one_pipeline_serves_many_threads() -> None:
    inner = {"chunk_shape": [8, 8], "codecs": [BYTES, ZSTD], "index_codecs": [BYTES, CRC]}
    spec = spec_of((32, 32))
    pipeline = CodecPipeline.resolve([{"name": "sharding_indexed", "configuration": inner}, CRC], spec)

    def round_trip(seed: int) -> bool:
        values = random_array(seed, spec.shape, "<f4")
        return pipeline.decode(pipeline.encode(values)).tobytes() == values.tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(round_trip, range(40)))


def test_many_codecs_together_do_not_allow_for_any_growth() -> None:
    spec = ArraySpec((16,), np.dtype("u1"), np.zeros((), "u1"))
    chain: list[dict[str, Any]] = [{"name": "bytes"}, *([{"name": "gzip", "configuration": {"level": 1}}] * 31)]
    pipeline = CodecPipeline.resolve(chain, spec)
    assert pipeline.max_encoded_size < 1 << 25
    values = np.arange(16, dtype="u1")
    assert pipeline.decode(pipeline.encode(values)).tolist() == values.tolist()
    spec = ArraySpec((1 << 20,), np.dtype("u1"), np.zeros((), "u1"))
    with pytest.raises(UnsupportedMetadataError, match="encode 1048576 bytes") as caught:
        CodecPipeline.resolve([chain[0], *([{"name": "numcodecs.base64"}] * 31)], spec)
    assert str(caught.value.member).startswith("codecs[")


def test_none_and_objects_are_compared_by_type_and_value() -> None:
    fill = np.array("", object)
    assert equals_everywhere(np.array(["", ""], object), fill)
    assert not equals_everywhere(np.array(["", None], object), fill)
    assert not equals_everywhere(np.array(["", b""], object), fill)
    assert equals_everywhere(np.array([None, None], object), np.array(None, object))
    assert not equals_everywhere(np.array([0, False], object), np.array(0, object))


def test_objects_may_be_arrays() -> None:
    fill, array = np.empty((), object), np.empty(2, object)
    fill[()] = np.array([1, 2])
    array[0], array[1] = np.array([1, 2]), np.array([1, 2])
    assert equals_everywhere(array, fill)
    array[1] = np.array([1, 2, 3])
    assert not equals_everywhere(array, fill)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no StringDType")
def test_strings_are_compared_by_value() -> None:
    dtype = np.dtypes.StringDType()
    long = "x" * 100
    assert equals_everywhere(np.array([[long, long]], dtype), np.array(long, dtype))
    assert not equals_everywhere(np.array([long, long + "\0"], dtype), np.array(long, dtype))
    assert equals_everywhere(np.array("a", dtype), np.array("a", dtype))


def test_padding_of_aligned_structures_is_ignored() -> None:
    dtype = np.dtype([("x", "i1"), ("y", "<f8")], align=True)
    array = np.frombuffer(b"\x01" + b"\xaa" * 7 + bytes(8), dtype)
    fill = np.array((1, 0.0), dtype)
    assert equals_everywhere(array, fill)
    assert not equals_everywhere(array, np.array((1, -0.0), dtype))


@pytest.mark.parametrize(("dtype", "value"), [("U3", "ab"), ("S3", b"ab"), ("V3", b"abc"), (ml_dtypes.bfloat16, 1.5)])
def test_a_0d_array_is_compared_whole(dtype: Any, value: Any) -> None:
    fill = np.array(value, dtype)
    assert equals_everywhere(fill.copy(), fill)
    assert equals_everywhere(np.full((2, 2), fill), fill)
    assert not equals_everywhere(np.zeros((), dtype), fill)


def test_small_floats_are_compared_bit_for_bit() -> None:
    zero = np.zeros((), ml_dtypes.float8_e5m2)
    assert not equals_everywhere(np.array([0.0, -0.0], ml_dtypes.float8_e5m2), zero)
    nans = np.array([np.nan, np.nan], ml_dtypes.bfloat16)
    assert equals_everywhere(nans, np.array(np.nan, ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("f4", 0.0), ("f4", -0.0), ("f4", np.nan), ("u1", 7), ("c16", 1j), ("?", True), ("U2", "ab"), ("M8[s]", 5)),
        *((ml_dtypes.bfloat16, 1.5), (object, "a"), ([("x", "i1"), ("y", "<f8")], (1, 2.0))),
    ],
)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 4)])
def test_a_prepared_test_finds_the_same(dtype: Any, value: Any, shape: tuple[int, ...]) -> None:
    fill = np.array(value, dtype)
    is_fill = value_test(fill)
    arrays = [np.full(shape, fill), np.zeros(shape, fill.dtype)]
    if arrays[0].size:
        arrays += [np.full(shape, fill), np.full(shape, fill)]
        arrays[2][(-1,) * len(shape)] = np.zeros((), fill.dtype)
        arrays[3][(0,) * len(shape)] = np.zeros((), fill.dtype)
    for array in arrays:
        assert is_fill(array) == equals_everywhere(array, fill)
    assert is_fill(arrays[0])
