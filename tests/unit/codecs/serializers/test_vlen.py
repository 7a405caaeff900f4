"""Elements of any length round-trip. Counts and lengths in the bytes are checked."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs.vlen import VLenBytes, VLenUTF8

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.chain import parse_chain, strict_copy
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, UnsupportedMetadataError

STRINGS: list[Any] = [np.dtype(object)]
if hasattr(np.dtypes, "StringDType"):
    STRINGS.append(np.dtype(np.dtypes.StringDType()))
TEXT = st.text(st.characters(codec="utf-8"), max_size=9)


def pipeline_of(name: str, dtype: Any, shape: tuple[int, ...], max_bytes: int = 1 << 20) -> CodecPipeline:
    fill: Any = "" if name == "vlen-utf8" else b""
    spec = ArraySpec(shape, dtype, np.array(fill, dtype), max_bytes)
    return CodecPipeline.resolve([name, {"name": "gzip", "configuration": {"level": 1}}], spec)


def bare(name: str, dtype: Any, size: int, max_bytes: int = 1 << 20) -> CodecPipeline:
    fill: Any = "" if name == "vlen-utf8" else b""
    return CodecPipeline.resolve([name], ArraySpec((size,), dtype, np.array(fill, dtype), max_bytes))


@pytest.mark.parametrize("dtype", STRINGS)
@given(items=st.lists(TEXT, min_size=1, max_size=12))
def test_strings_round_trip_including_trailing_zeros(dtype: Any, items: list[str]) -> None:
    for shape in ((len(items),), (1, len(items), 1)):
        pipeline = pipeline_of("vlen-utf8", dtype, shape)
        array = np.array(items, dtype).reshape(shape)
        decoded = pipeline.decode(pipeline.encode(array))
        assert decoded.dtype == dtype
        assert decoded.shape == shape
        assert decoded.reshape(-1).tolist() == items
        assert pipeline.decode(pipeline.encode(array), np.empty(shape, dtype)).reshape(-1).tolist() == items


@given(items=st.lists(st.binary(max_size=9), min_size=1, max_size=12))
def test_bytes_round_trip_and_equal_those_of_numcodecs(items: list[bytes]) -> None:
    array = np.empty(len(items), object)
    array[:] = items
    codec = bare("vlen-bytes", np.dtype(object), len(items))
    assert codec.decode(codec.encode(array)).tolist() == items
    assert bytes(codec.encode(array)) == bytes(VLenBytes().encode(array))


def test_elements_are_stored_in_c_order() -> None:
    array = np.array([["a", "b"], ["c", "d"]], object)
    codec = CodecPipeline.resolve(["vlen-utf8"], ArraySpec((2, 2), np.dtype(object), np.array("", object)))
    assert VLenUTF8().decode(bytes(codec.encode(array.T))).tolist() == ["a", "c", "b", "d"]


@pytest.mark.parametrize("dtype", STRINGS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\x00",
        struct.pack("<I", 2),
        struct.pack("<II", 2, 0),
        struct.pack("<III", 3, 0, 0),
        struct.pack("<III", 2**32 - 1, 0, 0),
        struct.pack("<III", 2, 0, 2**31),
        struct.pack("<III", 2, 0, 2**32 - 1),
        struct.pack("<III", 2, 2**32 - 4, 0),
        struct.pack("<III", 2, 4, 0),
        struct.pack("<II2sI1s", 2, 3, b"ab", 1, b"c"),
        struct.pack("<II2sI", 2, 2, b"\xff\xfe", 0),
        struct.pack("<II3sI", 2, 3, b"\xed\xa0\x80", 0),
    ],
)
def test_impossible_counts_lengths_and_text_are_refused(data: bytes, dtype: Any) -> None:
    with pytest.raises(CodecError, match="vlen-utf8"):
        bare("vlen-utf8", dtype, 2).decode(data)


@given(data=st.binary(max_size=40))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    for name in ("vlen-utf8", "vlen-bytes"):
        try:
            decoded = bare(name, np.dtype(object), 2).decode(struct.pack("<I", 2) + data)
        except CodecError:
            continue
        assert sum(map(len, decoded.tolist())) <= len(data)


def test_more_bytes_than_the_limit_are_neither_written_nor_read() -> None:
    array = np.array(["x" * 100], object)
    with pytest.raises(CodecError, match="at most 50"):
        bare("vlen-utf8", np.dtype(object), 1, 50).encode(array)
    encoded = pipeline_of("vlen-utf8", np.dtype(object), (1,)).encode(array)
    with pytest.raises(CodecError, match=r"more than 50|at most 50"):
        pipeline_of("vlen-utf8", np.dtype(object), (1,), 50).decode(encoded)
    assert pipeline_of("vlen-utf8", np.dtype(object), (1,)).max_encoded_size >= 1 << 20


def test_other_objects_than_strings_are_refused_and_none_is_empty() -> None:
    codec = bare("vlen-utf8", np.dtype(object), 2)
    for item in (1.5, b"x", "\ud800"):
        with pytest.raises(CodecError, match="cannot encode"):
            codec.encode(np.array(["a", item], object))
    assert codec.decode(codec.encode(np.array(["a", None], object))).tolist() == ["a", ""]
    with pytest.raises(CodecError, match="cannot encode"):
        bare("vlen-bytes", np.dtype(object), 1).encode(np.array(["text"], object))


def test_other_types_are_refused() -> None:
    for name, dtype in (("vlen-utf8", "U4"), ("vlen-bytes", "S4"), ("vlen-utf8", "f8")):
        with pytest.raises(UnsupportedMetadataError, match="variable length"):
            CodecPipeline.resolve([name], ArraySpec((1,), np.dtype(dtype), np.zeros((), dtype)))


@pytest.mark.parametrize("dtype", STRINGS)
def test_shards_hold_strings_and_leave_out_empty_chunks(dtype: Any) -> None:
    codecs = [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [2],
                "codecs": ["vlen-utf8", {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
                "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"],
            },
        }
    ]
    spec = ArraySpec((6,), dtype, np.array("none", dtype), 1 << 16)
    pipeline = CodecPipeline.resolve(codecs, spec)
    items = ["a", "none", "none", "none", "", "\u20ac" * 20]
    encoded = pipeline.encode(np.array(items, dtype))
    assert pipeline.decode(encoded).tolist() == items
    assert pipeline.max_encoded_size < 1 << 17
    layout = pipeline.shard
    assert layout is not None
    assert layout.parse_index(bytes(encoded)[-layout.index_nbytes :], len(bytes(encoded))).locate(1) is None


@pytest.mark.parametrize(("name", "items"), [("vlen-utf8", ["", "é", "text"]), ("vlen-bytes", [b"", b"\xff", b"text"])])
def test_bytes_after_the_last_element_are_ignored_unless_strict(name: str, items: list[Any]) -> None:
    pipeline = bare(name, np.dtype(object), 3)
    encoded = bytes(pipeline.encode(np.array(items, object)))
    assert pipeline.decode(encoded).tolist() == items
    assert pipeline.decode(encoded + bytes(7)).tolist() == items
    strict = CodecPipeline(strict_copy(parse_chain([name])), pipeline.spec)
    with pytest.raises(CodecError, match="7 bytes follow"):
        strict.decode(encoded + bytes(7))
