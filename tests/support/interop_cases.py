"""Arrays of every data type × codec × format as the documents of their metadata, with the elements they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.interop_values import AnyArray

SHAPE, CHUNKS, WRITTEN = (5, 4), (2, 3), 4
"""Rows from `WRITTEN` on are never written: whole chunks of them are missing, others are stored with fill values."""

JSON = Any


@dataclass(frozen=True)
class Kind:
    """One data type: its JSON in a document, the numpy type of the sample, and a fill value as JSON and as a value."""

    name: str
    json: JSON
    dtype: Any
    fill_json: JSON
    fill: Any


@dataclass(frozen=True, eq=False)
class Case:
    """One array."""

    zarr_format: int
    kind: Kind
    codec: str
    document: dict[str, JSON]

    @property
    def name(self) -> str:
        return f"v{self.zarr_format}-{self.kind.name}-{self.codec}"

    @property
    def key(self) -> str:
        return "zarr.json" if self.zarr_format == 3 else ".zarray"


def contents(kind: Kind) -> AnyArray:
    """The elements of an array of this type, rows that are not written holding the fill value."""
    values = sample(kind)
    if values.dtype.kind == "O":
        for row in range(WRITTEN, SHAPE[0]):
            values[row] = kind.fill
    else:
        values[WRITTEN:] = kind.fill
    return values


def sample(kind: Kind) -> AnyArray:
    rng = np.random.default_rng(7)
    dtype = np.dtype(kind.dtype)
    if kind.name in ("string", "vlen-utf8"):
        return _objects(["", "a", "é", "日本語", "x" * 300, "🦆 duck"])
    if kind.name in ("bytes", "variable_length_bytes", "vlen-bytes"):
        return _objects([b"", b"a", b"\x00\xff", bytes(300)])
    if kind.name == "json2":
        return _objects([None, 1, "a", [1, 2.5], {"k": None}])
    if dtype.kind == "U":
        return np.resize(np.array(["", "é", "ab", "日本"], dtype), SHAPE)
    if dtype.kind == "S":
        return np.resize(np.array([b"", b"a", b"xyz"], dtype), SHAPE)
    if dtype.names is not None:
        records = np.zeros(SHAPE, dtype)
        for name in dtype.names:
            records[name] = rng.integers(0, 100, SHAPE)
        return records
    if dtype.type.__module__.startswith("ml_dtypes"):
        few = rng.integers(0, 2, SHAPE) if "int" in dtype.name else 2.0 ** rng.integers(0, 2, SHAPE)
        return np.asarray(few).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, SHAPE).astype(dtype)
    if dtype.kind in "Mm":
        return rng.integers(-(10**6), 10**6, SHAPE).astype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=SHAPE) + 1j * rng.normal(size=SHAPE)).astype(dtype)
    if dtype.kind == "f":
        values = rng.normal(size=SHAPE).astype(dtype)
        values[0, :3] = [np.nan, np.inf, -0.0]
        return values
    return np.frombuffer(rng.bytes(20 * dtype.itemsize), dtype).reshape(SHAPE).copy()


def _objects(items: list[Any]) -> AnyArray:
    values = np.empty(SHAPE, object)
    for i in range(values.size):
        values.flat[i] = items[i % len(items)]
    return values


# --- v3 -----------------------------------------------------------------------------------------------------------

NUMBERS = {
    **{f"int{bits}": -7 for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": 7 for bits in (8, 16, 32, 64)},
    **{f"float{bits}": 1.5 for bits in (16, 32, 64)},
}
SMALL = {
    "bfloat16": 1.5,
    **dict.fromkeys(
        (
            *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
            *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
            *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
        ),
        1.0,
    ),
    "int2": 1,
    "int4": -3,
    "uint2": 3,
    "uint4": 9,
}
RECORD = np.dtype([("a", "i4"), ("b", "f8")])


def _named(name: str, **configuration: JSON) -> dict[str, JSON]:
    return {"name": name, "configuration": configuration}


def kinds_v3() -> Iterator[Kind]:
    yield Kind("bool", "bool", "?", True, True)
    for name, fill in NUMBERS.items():
        yield Kind(name, name, name, fill, fill)
    yield Kind("float64-nan", "float64", "float64", "NaN", np.nan)
    yield Kind("complex64", "complex64", "complex64", [1.5, "NaN"], complex(1.5, np.nan))
    yield Kind("complex128", "complex128", "complex128", [1.5, -2.5], 1.5 - 2.5j)
    for name, fill in SMALL.items():
        yield Kind(name, name, getattr(ml_dtypes, name), fill, fill)
    yield Kind("r16", "r16", "V2", [1, 2], np.void(b"\x01\x02"))
    yield Kind("string", "string", object, "f", "f")
    yield Kind("bytes", "bytes", object, "AQI=", b"\x01\x02")
    yield Kind("variable_length_bytes", "variable_length_bytes", object, "AQI=", b"\x01\x02")
    yield Kind("fixed_length_utf32", _named("fixed_length_utf32", length_bytes=12), "U3", "ab", "ab")
    yield Kind("null_terminated_bytes", _named("null_terminated_bytes", length_bytes=3), "S3", "YWI=", b"ab")
    yield Kind("raw_bytes", _named("raw_bytes", length_bytes=3), "V3", "AQID", np.void(b"\x01\x02\x03"))
    time = {"unit": "s", "scale_factor": 10}
    yield Kind("datetime64", _named("numpy.datetime64", **time), "M8[10s]", 5, np.datetime64(5, "10s"))
    yield Kind("timedelta64", _named("numpy.timedelta64", **time), "m8[10s]", "NaT", np.timedelta64("NaT", "s"))
    fields = [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float64"}]
    yield Kind("struct", _named("struct", fields=fields), RECORD, {"a": 1, "b": 2.5}, np.array((1, 2.5), RECORD)[()])
    legacy = _named("structured", fields=[["a", "int32"], ["b", "float64"]])
    yield Kind("structured", legacy, RECORD, "AQAAAAAAAAAAAARA", np.array((1, 2.5), RECORD)[()])


BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
ZSTD = _named("zstd", level=3, checksum=False)
INDEX = [_named("bytes", endian="little"), {"name": "crc32c"}]


def elements(kind: Kind, endian: str = "little") -> dict[str, JSON]:
    """The array → bytes codec that a type is stored with."""
    if kind.name == "string":
        return {"name": "vlen-utf8"}
    if kind.name in ("bytes", "variable_length_bytes"):
        return {"name": "vlen-bytes"}
    if np.dtype(kind.dtype).itemsize == 1 or (np.dtype(kind.dtype).kind == "V" and "struct" not in kind.name):
        return {"name": "bytes"} if kind.name != "bfloat16" else _named("bytes", endian=endian)
    return _named("bytes", endian=endian)


def generic_chains(kind: Kind) -> dict[str, list[JSON]]:
    """The chains that any type can have."""
    plain = elements(kind)
    inner = [plain, ZSTD]
    chains = {
        "bytes": [plain],
        "gzip": [plain, _named("gzip", level=5)],
        "zstd": [plain, ZSTD],
        "blosc": [plain, _named("blosc", **BLOSC)],
        "crc32c": [plain, {"name": "crc32c"}],
        "transpose": [_named("transpose", order=[1, 0]), plain],
        "sharding": [_sharding([1, 3], inner, "end")],
        "numcodecs.zlib": [plain, _named("numcodecs.zlib", level=1)],
        "numcodecs.bz2": [plain, _named("numcodecs.bz2", level=1)],
        "numcodecs.lzma": [plain, _named("numcodecs.lzma", format=1, check=-1, preset=None, filters=None)],
        "numcodecs.lz4": [plain, _named("numcodecs.lz4", acceleration=1)],
        "numcodecs.zstd": [plain, _named("numcodecs.zstd", level=1)],
        "numcodecs.adler32": [plain, _named("numcodecs.adler32")],
    }
    if "endian" in plain.get("configuration", {}):
        chains["big-endian"] = [elements(kind, "big")]
    return chains


def _sharding(chunk: list[int], codecs: list[JSON], location: str) -> JSON:
    return _named("sharding_indexed", chunk_shape=chunk, codecs=codecs, index_codecs=INDEX, index_location=location)


def special_chains() -> Iterator[tuple[str, str, list[JSON]]]:
    """Codec, type and chain of those that only some types can have."""
    little = _named("bytes", endian="little")
    for name in ("int16", "float64"):
        yield name, "sharding-start", [_sharding([2, 1], [little], "start")]
        yield name, "sharding-nested", [_sharding([2, 3], [_sharding([1, 1], [little, ZSTD], "end")], "end")]
    yield "int32", "numcodecs.delta", [_named("numcodecs.delta", dtype="<i4"), little]
    yield "int32", "numcodecs.shuffle", [little, _named("numcodecs.shuffle", elementsize=4)]
    yield "float64", "numcodecs.bitround", [_named("numcodecs.bitround", keepbits=52), little]
    yield "float64", "numcodecs.astype", [_named("numcodecs.astype", encode_dtype="<f8", decode_dtype="<f8"), little]
    yield "bool", "numcodecs.packbits", [_named("numcodecs.packbits"), {"name": "bytes"}]
    yield "bool", "packbits", [_named("packbits", padding_encoding="first_byte")]
    for name in ("uint4", "int4", "int2", "float4_e2m1fn", "float6_e2m3fn"):
        yield name, "packbits", [_named("packbits", padding_encoding="none")]
    yield "float64", "bitround", [_named("bitround", keepbits=52), little]
    yield "float32", "numcodecs.zfpy", [_named("numcodecs.zfpy", mode=4, tolerance=-1, rate=-1, precision=-1)]
    yield "float64", "zfp", [_named("zfp", mode="reversible")]
    yield "int32", "pcodec", [_named("numcodecs.pcodec", level=8, mode_spec="auto", delta_spec="auto")]
    yield "int32", "reshape", [_named("reshape", shape=[[0, 1]]), little]
    inner = [_named("transpose", order=[1, 0]), _named("bytes", endian="big"), _named("gzip", level=1)]
    yield "uint16", "n5_default", [_named("n5_default", codecs=inner)]


def document_v3(kind: Kind, codecs: list[JSON], grid: JSON | None = None) -> dict[str, JSON]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(SHAPE),
        "data_type": kind.json,
        "chunk_grid": grid or _named("regular", chunk_shape=list(CHUNKS)),
        "chunk_key_encoding": _named("default", separator="/"),
        "fill_value": kind.fill_json,
        "codecs": codecs,
        "attributes": {"made": "for exchange"},
    }


def cases_v3() -> Iterator[Case]:
    kinds = {kind.name: kind for kind in kinds_v3()}
    for kind in kinds.values():
        for codec, chain in generic_chains(kind).items():
            yield Case(3, kind, codec, document_v3(kind, chain))
    for name, codec, chain in special_chains():
        yield Case(3, kinds[name], codec, document_v3(kinds[name], chain))
    grid = _named("rectilinear", kind="inline", chunk_shapes=[[[2, 2], 1], [3, 1]])
    for name in ("int16", "float32"):
        yield Case(3, kinds[name], "grid-rectilinear", document_v3(kinds[name], [elements(kinds[name])], grid))


# --- v2 -----------------------------------------------------------------------------------------------------------


def kinds_v2() -> Iterator[Kind]:
    yield Kind("b1", "|b1", "?", True, True)
    for order in "<>":
        for code, fill in (
            ("i2", -7),
            ("i4", -7),
            ("i8", -7),
            ("u2", 7),
            ("u4", 7),
            ("u8", 7),
            ("f2", 1.5),
            ("f4", 1.5),
        ):
            yield Kind(order + code, order + code, code, fill, fill)
        yield Kind(f"{order}f8", f"{order}f8", "f8", "NaN", np.nan)
        yield Kind(f"{order}c8", f"{order}c8", "c8", [1.5, -2.5], 1.5 - 2.5j)
        yield Kind(f"{order}U3", f"{order}U3", "U3", "ab", "ab")
        yield Kind(f"{order}M8[ns]", f"{order}M8[ns]", "M8[ns]", 5, np.datetime64(5, "ns"))
        yield Kind(f"{order}m8[s]", f"{order}m8[s]", "m8[s]", 5, np.timedelta64(5, "s"))
    yield Kind("i1", "|i1", "i1", -7, -7)
    yield Kind("u1", "|u1", "u1", 7, 7)
    yield Kind("S3", "|S3", "S3", "YWIA", b"ab")
    yield Kind("V3", "|V3", "V3", "AQID", np.void(b"\x01\x02\x03"))
    yield Kind("record", [["a", "<i4"], ["b", ">f8"]], RECORD, "AQAAAEAEAAAAAAAA", np.array((1, 2.5), RECORD)[()])
    yield Kind("vlen-utf8", "|O", object, "f", "f")
    yield Kind("vlen-bytes", "|O", object, "", b"")
    yield Kind("json2", "|O", object, None, None)
    yield Kind("bfloat16", "bfloat16", ml_dtypes.bfloat16, 1.5, 1.5)


COMPRESSORS: dict[str, JSON] = {
    "none": None,
    "zlib": {"id": "zlib", "level": 1},
    "gzip": {"id": "gzip", "level": 1},
    "bz2": {"id": "bz2", "level": 1},
    "lzma": {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    "lz4": {"id": "lz4", "acceleration": 1},
    "zstd": {"id": "zstd", "level": 1},
    "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "blosc-bits": {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": 0},
}
FILTERS: list[tuple[str, str, JSON]] = [
    ("<i4", "delta", {"id": "delta", "dtype": "<i4", "astype": "<i4"}),
    (">i4", "shuffle", {"id": "shuffle", "elementsize": 4}),
    ("<i4", "scale", {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<i4", "astype": "<i4"}),
    ("<i8", "astype", {"id": "astype", "encode_dtype": "<i8", "decode_dtype": "<i8"}),
    ("b1", "packbits", {"id": "packbits"}),
    ("<i4", "crc32", {"id": "crc32"}),
    ("<i4", "adler32", {"id": "adler32"}),
    ("<f4", "bitround", {"id": "bitround", "keepbits": 23}),
]
OBJECT_FILTERS: dict[str, JSON] = {
    "vlen-utf8": {"id": "vlen-utf8"},
    "vlen-bytes": {"id": "vlen-bytes"},
    "json2": {
        "id": "json2",
        "encoding": "utf-8",
        "strict": True,
        "skipkeys": False,
        "ensure_ascii": True,
        "check_circular": True,
        "allow_nan": True,
        "indent": None,
        "separators": [",", ":"],
        "sort_keys": True,
    },
}


def document_v2(kind: Kind, compressor: JSON, filters: list[JSON] | None = None, **members: JSON) -> dict[str, JSON]:
    if kind.name in OBJECT_FILTERS:
        filters = [OBJECT_FILTERS[kind.name], *(filters or [])]
    return {
        "zarr_format": 2,
        "shape": list(SHAPE),
        "chunks": list(CHUNKS),
        "dtype": kind.json,
        "compressor": compressor,
        "fill_value": kind.fill_json,
        "order": "C",
        "filters": filters,
        **members,
    }


def cases_v2() -> Iterator[Case]:
    kinds = {kind.name: kind for kind in kinds_v2()}
    for kind in kinds.values():
        for codec, compressor in COMPRESSORS.items():
            yield Case(2, kind, codec, document_v2(kind, compressor))
        if kind.name != "json2":  # its own shape is that of the elements as they lie, which implementations differ in
            yield Case(2, kind, "order-F", document_v2(kind, None, order="F"))
        yield Case(2, kind, "nested", document_v2(kind, None, dimension_separator="/"))
    for name, codec, config in FILTERS:
        yield Case(2, kinds[name], f"filter-{codec}", document_v2(kinds[name], COMPRESSORS["zlib"], [config]))


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, in a fixed order."""
    return (*cases_v2(), *cases_v3())
