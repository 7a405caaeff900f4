"""Elements of format 2 through filters: the same bytes as zarr-python 2, and typed errors for hostile input."""

from __future__ import annotations

import json
import struct
import sys
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numcodecs.abc import Codec as NumcodecsCodec
from numcodecs.registry import codec_registry

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.v2_elements import BYTES_CODEC_IDS, parse_v2_dtype
from aiozarr.errors import CodecError, InvalidMetadataError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata.v2_encoding import BYTES_CODECS

Values = np.ndarray[Any, Any]
OBJECT = np.dtype(object)


def elements(dtype: Any, *filters: Any, **rest: Any) -> dict[str, Any]:
    return {"name": "v2_elements", "configuration": {"dtype": dtype, "filters": list(filters), **rest}}


def resolve(dtype: Any, shape: tuple[int, ...], *filters: Any, **rest: Any) -> CodecPipeline:
    stored = parse_v2_dtype(dtype)
    memory = stored if stored.hasobject else stored.newbyteorder("=")
    return CodecPipeline.resolve([elements(dtype, *filters, **rest)], spec_of(memory, shape))


def spec_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> ArraySpec:
    return ArraySpec(shape, dtype, np.zeros((), dtype), 1 << 20)


def objects(values: list[Any], shape: tuple[int, ...] | None = None) -> Values:
    array: Values = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array if shape is None else array.reshape(shape)


def zarr_2_encode(array: Values, configs: list[dict[str, Any]]) -> bytes:
    """What zarr-python 2 does with a chunk."""
    value: Any = array
    for config in configs:
        value = numcodecs.get_codec(config).encode(value)
    return value.tobytes() if isinstance(value, np.ndarray) else bytes(value)


NUMBERS: list[tuple[str, list[dict[str, Any]]]] = [
    ("<i4", []),
    (">i4", []),
    (">i4", [{"id": "delta", "dtype": ">i4", "astype": ">i8"}]),
    ("<i4", [{"id": "delta", "dtype": "<i4"}, {"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}]),
    ("<i4", [{"id": "fletcher32"}, {"id": "shuffle", "elementsize": 4}]),
    ("<i4", [{"id": "astype", "encode_dtype": ">i2", "decode_dtype": "<i4"}, {"id": "crc32"}]),
    ("<f8", [{"id": "fixedscaleoffset", "offset": 1, "scale": 10, "dtype": "<f8", "astype": "<i2"}]),
    ("<f8", [{"id": "quantize", "digits": 1, "dtype": "<f8"}, {"id": "base64"}]),
    ("<f4", [{"id": "bitround", "keepbits": 5}, {"id": "delta", "dtype": "<i4"}]),
    ("|b1", [{"id": "packbits"}, {"id": "lz4"}]),
    ("<U3", [{"id": "categorize", "labels": ["foo", "bar"], "dtype": "<U3"}]),
    ("<i4", [{"id": "json2"}]),
]


@pytest.mark.parametrize(("dtype", "configs"), NUMBERS, ids=str)
@given(data=st.data())
def test_filters_make_the_bytes_that_zarr_python_2_makes(dtype: str, configs: Any, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=5))
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "i": st.integers(-99, 99),
        "f": st.floats(-99, 99, width=16),
        "b": st.booleans(),
        "U": st.sampled_from(["foo", "bar"]),
    }
    array = data.draw(hnp.arrays(np.dtype(dtype), shape, elements=kinds[np.dtype(dtype).kind]))
    pipeline = resolve(dtype, shape, *configs)
    encoded = bytes(pipeline.encode(array.astype(pipeline.spec.dtype)))
    assert encoded == zarr_2_encode(array, configs)
    assert pipeline.encoded_size in (None, len(encoded))
    assert len(encoded) <= pipeline.max_encoded_size
    decoded = pipeline.decode(encoded)
    assert decoded.dtype == pipeline.spec.dtype
    if all(config["id"] not in ("quantize", "bitround", "fixedscaleoffset") for config in configs):
        np.testing.assert_array_equal(decoded, array)
    # What comes back once comes back the same again.
    assert bytes(pipeline.encode(pipeline.decode(encoded))) == bytes(pipeline.encode(decoded))


def test_fields_of_mixed_byte_orders_and_with_shapes_decode_to_native_order() -> None:
    dtype = [["a", ">i4"], ["b", [["c", "<f8", [2, 2]], ["d", "|S3"]]]]
    pipeline = resolve(dtype, (3,))
    array: Values = np.zeros(3, pipeline.spec.dtype)
    array["a"], array["b"]["c"], array["b"]["d"] = [1, 2, 3], 0.5, b"xyz"
    encoded = bytes(pipeline.encode(array))
    assert encoded[:4] == b"\0\0\0\x01"
    decoded = pipeline.decode(encoded)
    assert decoded.dtype == pipeline.spec.dtype
    np.testing.assert_array_equal(decoded, array)
    out: Values = np.zeros(3, pipeline.spec.dtype)
    np.testing.assert_array_equal(pipeline.decode(encoded, out), array)
    assert pipeline.encoded_size == len(encoded)


OBJECT_FILTERS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"id": "vlen-utf8"}, ["", "ä", "x\0y", "long" * 50]),
    ({"id": "vlen-bytes"}, [b"", b"\0", b"abc", b"x" * 99]),
    ({"id": "json2"}, ["a", 1, None, {"k": [1.5, True]}]),
    ({"id": "json2"}, [[1], [2, 3], [], "x"]),
    ({"id": "msgpack2"}, ["a", 1, None, b"bytes"]),
    ({"id": "categorize", "labels": ["x", "y"], "dtype": "|O"}, ["x", "y", "", "x"]),
]


@pytest.mark.parametrize(("config", "values"), OBJECT_FILTERS, ids=str)
def test_objects_round_trip_and_numcodecs_reads_them(config: Any, values: list[Any]) -> None:
    array = objects(values, (2, 2))
    pipeline = resolve("|O", (2, 2), config)
    encoded = bytes(pipeline.encode(array))
    assert encoded == zarr_2_encode(array, [config])
    assert pipeline.decode(encoded).tolist() == array.tolist()


def test_arrays_as_elements_round_trip() -> None:
    array = objects([np.arange(n, dtype="<i2") for n in (0, 1, 5)])
    pipeline = resolve("|O", (3,), {"id": "vlen-array", "dtype": "<i2"})
    encoded = bytes(pipeline.encode(array))
    assert encoded == zarr_2_encode(array, [{"id": "vlen-array", "dtype": "<i2"}])
    assert [part.tolist() for part in pipeline.decode(encoded)] == [[], [0], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize(("name", "empty"), [("vlen-utf8", ""), ("vlen-bytes", b"")])
def test_missing_elements_are_stored_as_empty_ones(name: str, empty: Any) -> None:
    pipeline = resolve("|O", (3,), {"id": name})
    array = objects([None, 0, empty])
    assert pipeline.decode(pipeline.encode(array)).tolist() == [empty] * 3


@pytest.mark.parametrize(("name", "wrong"), [("vlen-utf8", b"x"), ("vlen-utf8", 1), ("vlen-bytes", "x")])
def test_elements_of_another_kind_are_not_written(name: str, wrong: Any) -> None:
    with pytest.raises(CodecError):
        resolve("|O", (1,), {"id": name}).encode(objects([wrong]))


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="this numpy has no strings of any length")
def test_strings_of_numpy_are_encoded() -> None:
    dtype = np.dtypes.StringDType()
    array: Values = np.array([["a", "ü" * 40], ["", "d"]], dtype)
    pipeline = CodecPipeline.resolve([elements("|O", {"id": "vlen-utf8"})], spec_of(array.dtype, (2, 2)))
    encoded = bytes(pipeline.encode(array))
    assert encoded == zarr_2_encode(array.astype(object), [{"id": "vlen-utf8"}])
    decoded = pipeline.decode(encoded)
    assert decoded.dtype == array.dtype
    assert decoded.tolist() == array.tolist()


def deep(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


HOSTILE = [
    ("vlen-utf8", b""),
    ("vlen-utf8", struct.pack("<I", 2**32 - 1)),
    ("vlen-utf8", struct.pack("<I", 2**32 - 1) + bytes(100)),
    ("vlen-utf8", struct.pack("<II", 1, 2**32 - 1) + b"abcd"),
    ("vlen-utf8", struct.pack("<III", 2, 0, 9) + b"abcd"),
    ("vlen-utf8", struct.pack("<III", 2, 1, 1) + b"\xff"),
    ("vlen-utf8", struct.pack("<I", 2) + struct.pack("<I", 1) + b"\xff" + struct.pack("<I", 0)),
    ("vlen-bytes", struct.pack("<III", 1, 0, 0)),
    ("json2", b""),
    ("json2", deep(100_000)),
    ("json2", b"[" + deep(5000) + b',1,"|O",[2]]'),
    ("json2", b'["a","b","|O",[3]]'),
    ("json2", b'["a","b","|O",[-2]]'),
    ("json2", b'["a","b","|O",[2,true]]'),
    ("json2", b'["a","b","|O"]'),
    ("json2", b'["a","b",{"a":1},[2]]'),
    ("json2", b'["a","b","<U1000000000",[2]]'),
    ("json2", b'{"a":1}'),
    ("json2", b"[" + b"9" * 5000 + b',1,"|O",[2]]'),
    ("json2", b'\xff["a","b","|O",[2]]'),
    ("json", b'[[["a"]],"|O"]'),
    ("msgpack2", b""),
    ("msgpack2", b"\x91" * 100_000),
    ("msgpack2", b"\xdd\xff\xff\xff\xff"),
    ("msgpack2", b"\xc1"),
]


@pytest.mark.parametrize(("name", "data"), HOSTILE, ids=lambda part: str(part)[:40])
def test_hostile_objects_raise_codec_error(name: str, data: bytes) -> None:
    with pytest.raises(CodecError):
        resolve("|O", (2,), {"id": name}).decode(data)


DENSE = [
    ("json2", b"[" + b"[]," * 300_000 + b'1,"|O",[2]]'),
    ("json2", b"[" + b'{"a":0},' * 100_000 + b'1,"|O",[2]]'),
    ("msgpack2", b"\xdd" + struct.pack(">I", 300_000) + b"\x90" * 300_000),
]


@pytest.mark.parametrize(("name", "data"), DENSE, ids=lambda part: str(part)[:20])
def test_small_bytes_of_huge_objects_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(CodecError, match="bytes of memory"):
        resolve("|O", (2,), {"id": name}).decode(data)


@pytest.mark.parametrize("name", ["vlen-utf8", "vlen-bytes", "json2", "msgpack2"])
@given(damage=st.data())
def test_damaged_objects_are_refused_or_keep_their_number(name: str, damage: st.DataObject) -> None:
    pipeline = resolve("|O", (4,), {"id": name})
    values = [b"a", b"", b"ccc", b"d"] if name == "vlen-bytes" else ["a", "", "ccc", "d"]
    good = bytearray(pipeline.encode(objects(values)))
    for _ in range(damage.draw(st.integers(1, 4))):
        good[damage.draw(st.integers(0, len(good) - 1))] = damage.draw(st.integers(0, 255))
    try:
        decoded = pipeline.decode(bytes(good[: damage.draw(st.integers(0, len(good)))]))
    except CodecError:
        return
    assert decoded.shape == (4,)


@pytest.mark.parametrize("size", [0, 15, 17, 32])
@pytest.mark.parametrize("filters", [[], [{"id": "delta", "dtype": "<i4"}], [{"id": "shuffle"}]], ids=str)
def test_a_chunk_of_another_size_is_refused(size: int, filters: list[Any]) -> None:
    with pytest.raises(CodecError):
        resolve("<i4", (4,), *filters).decode(bytes(size))


def test_every_stage_of_a_chain_of_bombs_is_bounded() -> None:
    bomb = numcodecs.Zlib().encode(numcodecs.Zlib().encode(bytes(1 << 24)))
    with pytest.raises(CodecError):
        resolve("|u1", (64,), {"id": "zlib"}, {"id": "zlib"}).decode(bomb)


@pytest.mark.parametrize("name", ["pickle", "PICKLE", "Pickle", "numcodecs.pickle"])
@pytest.mark.parametrize("place", ["first", "second", "compressor", "nested"])
def test_pickle_is_refused_from_the_metadata(name: str, place: str) -> None:
    bad: dict[str, Any] = {"id": name}
    places: dict[str, dict[str, Any]] = {
        "first": {"filters": [bad]},
        "second": {"filters": [{"id": "vlen-utf8"}, bad]},
        "compressor": {"filters": [{"id": "vlen-utf8"}], "compressor": bad},
        "nested": {"filters": [{"id": "vlen-utf8", "inner": [bad]}]},
    }
    configuration = places[place]
    with pytest.raises(UnsupportedMetadataError) as refused:
        CodecPipeline.resolve(
            [{"name": "v2_elements", "configuration": {"dtype": "|O", **configuration}}], spec_of(OBJECT, (1,))
        )
    assert refused.value.name == name


def test_objects_need_an_object_codec_first() -> None:
    for filters in ([], [{"id": "zlib"}, {"id": "vlen-utf8"}]):
        with pytest.raises(InvalidMetadataError):
            resolve("|O", (1,), *filters)


@pytest.mark.parametrize("before", [{"id": "vlen-utf8"}, {"id": "json2"}, {"id": "zlib"}, {"id": "pcodec"}])
@pytest.mark.parametrize("as_compressor", [False, True])
def test_an_object_codec_after_a_bytes_filter_is_refused(before: Any, as_compressor: bool) -> None:
    dtype = "|O" if before["id"] in ("vlen-utf8", "json2") else "<i4"
    after: dict[str, Any] = {"id": "vlen-utf8"}
    filters, rest = ([before], {"compressor": after}) if as_compressor else ([before, after], {})
    with pytest.raises(InvalidMetadataError, match="yields bytes") as caught:
        resolve(dtype, (1,), *filters, **rest)
    place = "compressor" if as_compressor else "filters[1]"
    assert str(caught.value.member).endswith(f"configuration.{place}")


@pytest.mark.parametrize(
    "dtype",
    [
        "",
        "<i3",
        "i4,i4",
        "(2,)i4",
        7,
        [],
        [["a"]],
        [["a", "<i4"], ["a", "<i4"]],
        [["a", "<i4", [-1]]],
        [[1, "<i4"]],
        "|S0",
    ],
    ids=str,
)
def test_invalid_data_types_are_refused(dtype: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        parse_v2_dtype(dtype)


def test_deeply_nested_fields_are_refused() -> None:
    dtype: Any = "<i4"
    for _ in range(500):
        dtype = [["a", dtype]]
    with pytest.raises(MetadataError):
        parse_v2_dtype(dtype)
    with pytest.raises(MetadataError):
        parse_v2_dtype([[f"f{i}", "<i4"] for i in range(10_000)])


def test_json_stores_the_shape_so_that_the_order_has_no_effect() -> None:
    array = objects(list("abcdef"), (2, 3))
    pipeline = resolve("|O", (2, 3), {"id": "json2"}, order="F")
    encoded = bytes(pipeline.encode(array))
    assert json.loads(encoded) == [["a", "b", "c"], ["d", "e", "f"], "|O", [2, 3]]
    assert pipeline.decode(encoded).tolist() == array.tolist()
    with pytest.raises(InvalidMetadataError):
        resolve("|O", (2, 3), {"id": "vlen-utf8"}, order="F")


@pytest.mark.parametrize(
    ("dtype", "config"), [("|O", {"id": "json2"}), ("|O", {"id": "vlen-utf8"}), ("<U1", {"id": "zlib"})]
)
def test_arrays_without_dimensions_have_one_element(dtype: str, config: Any) -> None:
    pipeline = resolve(dtype, (), config)
    array: Values = np.array("x", pipeline.spec.dtype)
    encoded = bytes(pipeline.encode(array))
    assert encoded == zarr_2_encode(array, [config])
    assert pipeline.decode(encoded).shape == ()
    assert pipeline.decode(encoded)[()] == "x"


def test_compressors_of_documents_are_codecs_here() -> None:
    assert set(BYTES_CODECS) <= set(BYTES_CODEC_IDS)


def test_the_configuration_round_trips() -> None:
    configuration = {"dtype": ">f4", "filters": [{"id": "delta", "dtype": ">f4"}], "compressor": {"id": "zlib"}}
    chain = [{"name": "v2_elements", "configuration": configuration}]
    assert CodecPipeline.resolve(chain, spec_of(np.dtype("=f4"), (2,))).to_json() == chain


def test_a_missing_msgpack_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(UnsupportedMetadataError, match="pip install"):
        resolve("|O", (1,), {"id": "msgpack2"})


class Negate(NumcodecsCodec):  # type: ignore[misc]  # numcodecs has no types
    """A codec that somebody else registers with numcodecs."""

    codec_id = "aiozarr-test-negate"

    def __init__(self, grow: int = 1) -> None:
        self.grow = grow

    def encode(self, buf: Any) -> Any:
        return ~np.frombuffer(np.ascontiguousarray(buf), "u1")

    def decode(self, buf: Any, out: Any = None) -> Any:
        return np.tile(~np.frombuffer(buf, "u1"), self.grow)


@pytest.fixture
def negate() -> Any:
    numcodecs.register_codec(Negate)
    yield {"id": Negate.codec_id}
    del codec_registry[Negate.codec_id]


def test_a_codec_of_another_package_works_as_filter_and_compressor(negate: Any) -> None:
    array = np.arange(4, dtype="<i4")
    ways: list[tuple[list[Any], dict[str, Any]]] = [([negate], {}), ([], {"compressor": negate})]
    for filters, rest in [*ways, ([{"id": "zlib"}], {"compressor": negate})]:
        pipeline = resolve("<i4", (4,), *filters, **rest)
        np.testing.assert_array_equal(pipeline.decode(bytes(pipeline.encode(array))), array)


def test_output_of_another_package_is_bounded_and_its_errors_are_typed(negate: Any) -> None:
    with pytest.raises(CodecError):
        resolve("<i4", (4,), {**negate, "grow": 3}).decode(bytes(16))
    with pytest.raises(CodecError):
        resolve("<i4", (4,), {**negate, "grow": "many"}).decode(bytes(16))
    with pytest.raises(InvalidMetadataError):
        resolve("<i4", (4,), {**negate, "surprise": 1})


def test_objects_of_another_package_are_refused_where_bytes_are_expected(
    negate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = resolve("<i4", (1,), {"id": "zlib"}, negate)
    monkeypatch.setattr(Negate, "decode", lambda self, buf, out=None: np.array(["x"], object))
    with pytest.raises(CodecError, match="yields objects"):
        pipeline.decode(b"1234")


def test_an_unregistered_id_is_named() -> None:
    with pytest.raises(UnsupportedMetadataError, match="register_codec") as refused:
        resolve("<i4", (4,), {"id": "surprise"})
    assert refused.value.name == "surprise"
    assert refused.value.member == "codecs[0].configuration.filters[0].id"


def test_without_filters_nothing_is_copied() -> None:
    native = "<i4" if sys.byteorder == "little" else ">i4"
    pipeline = resolve(native, (4,))
    array = np.arange(4, dtype="i4")
    assert np.shares_memory(np.asarray(memoryview(pipeline.encode(array))), array)


def test_many_filters_together_do_not_allow_for_any_growth() -> None:
    assert resolve("<i4", (16,), *([{"id": "zlib"}] * 32)).max_encoded_size < 1 << 25
    for grows in ({"id": "delta", "dtype": "|u1", "astype": "<u8"}, {"id": "base64"}):
        with pytest.raises(UnsupportedMetadataError, match="encode 65536 bytes"):
            resolve("<i4", (16384,), *([grows] * 31), {"id": "zlib"})
