"""Each deviation on the page about formats has examples: read, refused in strict mode, and written correctly."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numcodecs
import numpy as np
import pytest
import zstandard

import aiozarr
from aiozarr.errors import CodecError, InvalidMetadataError
from aiozarr.stores import MemoryStore
from tests.support.array_documents import LITTLE, V2, V3, codec

PAGE = (Path(__file__).parents[2] / "docs/how-to/formats.md").read_text("utf-8")
TABLES = re.findall(r"^### (All formats|Format \d)\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
ROWS = [
    f"{format_}: {row}"
    for format_, text in TABLES
    for row in re.findall(r"^\| (.*?) \| .* \| ?.* ?\|$", text, re.MULTILINE)
    if row != "stored"
]
RAW = np.arange(4, dtype="<i4")


class Example(NamedTuple):
    """Stored values, the values or attributes that are read from them, and whether documents are at fault."""

    files: dict[str, bytes]
    expected: Any = RAW
    has_document: bool = True
    name: str = ""


def v2(chunk: bytes | None = RAW.tobytes(), expected: Any = RAW, *, absent: str = "", **members: Any) -> Example:
    document = {**V2, "chunks": [4], **members}
    document = {name: value for name, value in document.items() if name not in absent.split()}
    return Example({".zarray": json.dumps(document).encode()} | ({} if chunk is None else {"0": chunk}), expected)


def v3(chunk: bytes | None = RAW.tobytes(), expected: Any = RAW, **members: Any) -> Example:
    document = {**V3, "chunk_grid": grid([4]), **members}
    return Example({"zarr.json": json.dumps(document).encode()} | ({} if chunk is None else {"c/0": chunk}), expected)


def v1(chunk: bytes | None = RAW.tobytes(), expected: Any = RAW, **members: Any) -> Example:
    document = {
        "zarr_format": 1,
        "shape": [4],
        "chunks": [4],
        "dtype": "<i4",
        "compression": "none",
        "compression_opts": None,
        "fill_value": 0,
        "order": "C",
        **members,
    }
    return Example(
        {"meta": json.dumps(document).encode(), "attrs": b"{}"} | ({} if chunk is None else {"0": chunk}), expected
    )


def grid(shape: Any) -> dict[str, Any]:
    return codec("regular", chunk_shape=shape)


def filled(make: Any, value: Any, expected: Any, **members: Any) -> Example:
    """Return an array without chunks, whose elements are `expected`."""
    return make(None, np.array([expected] * 4), fill_value=value, **members)


def encoded(example: Example, encoding: str) -> Example:
    return example._replace(
        files={
            name: data.decode().encode(encoding) if name[0] in ".zm" else data for name, data in example.files.items()
        }
    )


def behind(chunk: bytes, **members: Any) -> list[Example]:
    return [v2(chunk + excess, **members)._replace(has_document=False) for excess in (bytes(1), bytes(16), b"junk")]


def words(items: str) -> bytes:
    return struct.pack("<I", len(items)) + b"".join([struct.pack("<I", 1) + item.encode() for item in items])


def shuffled(data: bytes, size: int) -> bytes:
    return np.frombuffer(data, np.uint8).reshape(-1, size).T.tobytes()


def sharded(inner: Any, *, shape: int = 4, chunk: Any = 4, **members: Any) -> Example:
    shards = codec("sharding_indexed", chunk_shape=inner, codecs=[LITTLE], index_codecs=[LITTLE])
    index = struct.pack("<4Q", 0, 8, 8, 8)
    stored = None if chunk == 0 else RAW.tobytes() + index
    return v3(
        stored, RAW if stored else np.zeros(shape, "i4"), codecs=[shards], shape=[shape], chunk_grid=grid([chunk])
    )


NAN, INFINITY = float("nan"), float("inf")
ZLIB = zlib.compress(RAW.tobytes())
GZIP = gzip.compress(RAW.tobytes())
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
BLOSC_CHUNK = bytes(numcodecs.Blosc("lz4", 5, 1).encode(RAW))
FORTRAN = RAW.reshape(2, 2)
TWO = {"shape": [2, 2], "chunk_grid": grid([2, 2])}
GROUP2 = {".zgroup": b'{"zarr_format": 2}'}
TEXT = np.array(list("abcd"), object)
OVERLAP = codec("sharding_indexed", chunk_shape=[2], codecs=[LITTLE], index_codecs=[LITTLE])
PAIR = np.array([(1, 2)] * 4, [("a", "<i2"), ("b", "<i2")])
STRUCT = {"data_type": codec("struct", fields=[["a", "int16"], ["b", "int16"]])}


def at_end(chunk: bytes) -> Example:
    return v3(chunk, RAW[:3], shape=[3])._replace(has_document=False)


EXAMPLES: Mapping[str, list[Example]] = {
    "All formats: a byte order mark": [
        *[encoded(make(), encoding) for make in (v1, v2, v3) for encoding in ("utf-8-sig", "utf-16", "utf-16-le")],
        *[encoded(make(), "utf-32") for make in (v2, v3)],
    ],
    "All formats: numbers as text": [
        v2(ZLIB, compressor={"id": "zlib", "level": "3"}),
        v2(shuffled(RAW.tobytes(), 4), filters=[{"id": "shuffle", "elementsize": "0"}]),
        v2(shuffled(RAW.tobytes(), 4), filters=[{"id": "shuffle", "elementsize": "4"}]),
        v2(shape=["4"], chunks=["4"]),
        Example(
            GROUP2
            | {
                ".zmetadata": json.dumps(
                    {"zarr_consolidated_format": "1", "metadata": {".zgroup": {"zarr_format": 2}}}
                ).encode()
            },
            {},
        ),
        v1(ZLIB, compression="zlib", compression_opts="3"),
        v3(GZIP, codecs=[LITTLE, codec("gzip", level="5")]),
        v3(zlib.compress(RAW.tobytes()), codecs=[LITTLE, codec("numcodecs.zlib", level="5")]),
        v3(shape=["4"], chunk_grid=grid(["4"])),
        v3(RAW.tobytes(), FORTRAN.T, **TWO, codecs=[codec("transpose", order=["1", "0"]), LITTLE])._replace(
            files=v3(None, **TWO, codecs=[codec("transpose", order=["1", "0"]), LITTLE]).files
            | {"c/0/0": RAW.tobytes()}
        ),
        sharded(["2"]),
    ],
    "All formats: `4.0` and `true`": [
        v2(shape=[4.0], chunks=[4.0]),
        v2(zarr_format=2.0),
        v2(shape=[4], chunks=[True])._replace(
            files=v2(None, chunks=[True]).files | {str(i): RAW[i].tobytes() for i in range(4)}
        ),
        v3(shape=[4.0], chunk_grid=grid([4.0])),
        v3(chunk_grid=codec("rectilinear", kind="inline", chunk_shapes=[[4.0]])),
        v3(chunk_grid=codec("rectilinear", kind="inline", chunk_shapes=[[[4.0, 1]]])),
        v3(None, chunk_grid=codec("rectilinear", kind="inline", chunk_shapes=[[True, 3]]))._replace(
            files=v3(None, chunk_grid=codec("rectilinear", kind="inline", chunk_shapes=[[True, 3]])).files
            | {"c/0": RAW[:1].tobytes(), "c/1": RAW[1:].tobytes()}
        ),
        sharded([2.0]),
        v1(shape=[4.0]),
        v2(zstandard.compress(RAW.tobytes()), compressor={"id": "zstd", "level": 3, "checksum": "false"}),
    ],
    "All formats: `null` or `{}`": [
        *[v3(**{member: None}) for member in ("storage_transformers", "attributes")],
        v3(storage_transformers={}),
        v3(codecs=[{"name": "bytes", "configuration": {"endian": "little"}, "must_understand": None}]),
        v3(chunk_key_encoding={"name": "default", "configuration": {"separator": None}}),
        v3(chunk_key_encoding={"name": "default", "configuration": None}),
        v2(dimension_separator=None),
        v2(filters={}),
        v2(ZLIB, compressor={"id": "zlib", "level": None}),
    ],
    "All formats: one number": [
        v1(shape=4, chunks=4),
        v2(shape=4, chunks=4),
        v3(shape=4, chunk_grid=grid(4)),
        sharded(2),
    ],
    "All formats: a chunk length of 0": [
        *[make(None, np.zeros(4, "i4"), chunks=[0]) for make in (v1, v2)],
        v3(None, np.zeros(4, "i4"), chunk_grid=grid([0])),
        v3(None, np.zeros(0, "i4"), shape=[0], chunk_grid=grid([0])),
        sharded([2], chunk=0),
    ],
    "All formats: options": [
        v2(ZLIB, compressor={"id": "zlib", "level": 10}),
        v2(bz2.compress(RAW.tobytes()), compressor={"id": "bz2", "level": 0}),
        v2(BLOSC_CHUNK, compressor={**BLOSC, "clevel": 12, "cname": "LZ4", "blocksize": -1}),
        v1(ZLIB, compression="zlib", compression_opts={"level": "high"}),
        v3(GZIP, codecs=[LITTLE, codec("gzip", level=10)]),
    ],
    "All formats: `NaN`": [
        *[filled(v2, value, value, dtype="<f8") for value in (NAN, INFINITY, -INFINITY)],
        *[filled(v3, value, value, data_type="float64") for value in (NAN, INFINITY, -INFINITY)],
        filled(v1, NAN, NAN, dtype="<f8"),
        filled(v2, [NAN, 0.0], complex(NAN, 0), dtype="<c16"),
        filled(v3, [1.0, INFINITY], complex(1, INFINITY), data_type="complex128"),
    ],
    "All formats: fill values": [
        *[filled(v2, text, float(text), dtype="<f8") for text in ("1.5", "nan", "+Infinity", "-inf", " 1")],
        *[filled(v3, text, float(text), data_type="float32") for text in ("1.5", "nan", "+Infinity", "-inf", "1e3")],
        *[filled(make, value, int(value)) for make in (v2, v3) for value in ("7", True, "-1")],
        filled(v3, 7.0, 7),
    ],
    "All formats: bytes after": [
        *behind(ZLIB, compressor={"id": "zlib", "level": 1}),
        *behind(GZIP, compressor={"id": "gzip", "level": 1}),
        *behind(bz2.compress(RAW.tobytes()), compressor={"id": "bz2", "level": 1}),
        *behind(lzma.compress(RAW.tobytes()), compressor={"id": "lzma", "format": 1}),
        *behind(zstandard.compress(RAW.tobytes()), compressor={"id": "zstd", "level": 1}),
        *behind(BLOSC_CHUNK, compressor=BLOSC),
        *behind(base64.b64encode(RAW.tobytes()), filters=[{"id": "base64"}]),
        *behind(words("abcd"), expected=TEXT, dtype="|O", fill_value="", filters=[{"id": "vlen-utf8"}]),
        v3(GZIP + bytes(16), codecs=[LITTLE, codec("gzip", level=1)])._replace(has_document=False),
        v3(words("abcd") + b"junk", TEXT, data_type="string", fill_value="", codecs=["vlen-utf8"])._replace(
            has_document=False
        ),
    ],
    "Format 3: `fill_value: null`": [v3(fill_value=None)],
    "Format 3: `dimension_names: null`": [v3(dimension_names=None)],
    "Format 3: `0` and `1`": [
        filled(v3, 0, False, data_type="bool"),
        filled(v3, 1, True, data_type="bool"),
        filled(v3, 0, "0", data_type="string", codecs=["vlen-utf8"]),
    ],
    'Format 3: `"order"': [
        Example(
            v3(None, **TWO, codecs=[codec("transpose", order=order), LITTLE]).files | {"c/0/0": RAW.tobytes()}, expected
        )
        for order, expected in (("F", FORTRAN.T), ("C", FORTRAN))
    ],
    "Format 3: options of `gzip`": [
        v3(GZIP, codecs=[LITTLE, "gzip"]),
        v3(GZIP, codecs=[LITTLE, codec("gzip", level=None)]),
        v3(zstandard.compress(RAW.tobytes()), codecs=[LITTLE, codec("zstd")]),
        v3(BLOSC_CHUNK, codecs=[LITTLE, codec("blosc", cname="lz4", clevel=5, shuffle="shuffle", blocksize=0)]),
        v3(BLOSC_CHUNK, codecs=[LITTLE, codec("blosc")]),
    ],
    "Format 3: lists of lengths": [
        v3(None, FORTRAN.T.T, shape=[2, 2], chunk_grid=grid([2, [1, 1.0]]))._replace(
            files=v3(None, shape=[2, 2], chunk_grid=grid([2, [1, 1.0]])).files
            | {"c/0/0": FORTRAN[:, :1].tobytes(), "c/0/1": FORTRAN[:, 1:].tobytes()}
        )
    ],
    "Format 3: NaN": [
        Example({"zarr.json": text.encode()}, {"a": NAN})
        for text in (
            '{"zarr_format": 3, "node_type": "group", "attributes": {"a": NaN}}',
            '{"zarr_format": 3, "node_type": "group", "attributes": {"a": 1, "a": NaN}}',
        )
    ],
    "Format 3: a `struct`": [
        v3(PAIR.tobytes(), PAIR, **STRUCT, fill_value={"a": 0, "b": 0}),
        v3(None, PAIR, **STRUCT, fill_value=base64.b64encode(PAIR[:1].tobytes()).decode()),
    ],
    "Format 3: a chunk at": [at_end(RAW[:3].tobytes())],
    "Format 3: `0.0`": [filled(v3, 0.0, 2.0**-127, data_type="float8_e8m0fnu", codecs=["bytes"])],
    "Format 3: inner chunks": [
        v3(RAW[:2].tobytes() + struct.pack("<4Q", 0, 8, 0, 8), RAW[[0, 1, 0, 1]], codecs=[OVERLAP])._replace(
            has_document=False
        )
    ],
    "Format 2: `filters: []`": [v2(filters=[])],
    "Format 2: no `filters`": [v2(absent=name) for name in ("filters", "compressor", "fill_value")],
    "Format 2: the encoding of objects": [
        v2(words("abcd"), TEXT, dtype="|O", fill_value="", compressor={"id": "vlen-utf8"})
    ],
    "Format 2: `null` for the attributes": [
        Example(
            GROUP2
            | {
                ".zmetadata": json.dumps(
                    {
                        "zarr_consolidated_format": 1,
                        "metadata": {
                            ".zgroup": {"zarr_format": 2},
                            ".zattrs": None,
                            "g/.zgroup": {"zarr_format": 2},
                            "g/.zattrs": None,
                        },
                    }
                ).encode()
            },
            {},
        )
    ],
    "Format 2: members that": [v2(_nczarr_array={}), v2(node_type="array")],
    "Format 2: a `shuffle` filter": [v2(shuffled(RAW.tobytes(), 4), filters=[{"id": "shuffle", "elementsize": 0}])],
    "Format 2: an `lzma`": [
        v2(lzma.compress(RAW.tobytes()), compressor={"id": "lzma", "format": 1, "preset": 3, "delta": None})
    ],
    "Format 2: a `blosc`": [v2(BLOSC_CHUNK, compressor={**BLOSC, "shuffle": "BYTE"})],
    "Format 2: numbers as fill values": [
        filled(v2, 7.0, 7),
        filled(v2, 0, False, dtype="|b1"),
        filled(v2, 1, 1 + 0j, dtype="<c16"),
    ],
    "Format 2: floating point": [filled(v2, "0x7fc00000", NAN, dtype="<f4")],
    "Format 2: a number as": [filled(v2, 0, "0", dtype="<U4")],
    "Format 2: `0` as": [
        filled(v2, 0, b"0", dtype="|S2"),
        filled(v2, 0, np.void(bytes(2)), dtype="|V2"),
        filled(v2, 0, b"", dtype="|O", filters=[{"id": "vlen-bytes"}]),
    ],
    "Format 2: fill values of bytes": [filled(v2, "ab", b"ab", dtype="|S2")],
    'Format 2: `"NaT"`': [filled(v2, "NaT", np.datetime64("NaT", "s"), dtype="<M8[s]")],
    "Format 2: NaN": [
        Example({**GROUP2, ".zattrs": b'{"a": NaN}'}, {"a": NAN}),
        Example({**GROUP2, ".zattrs": b'{"a": 1, "a": NaN}'}, {"a": NAN}),
    ],
    "Format 1: `compression: null`": [v1(compression=None)],
    "Format 1: no `attrs`": [Example({name: data for name, data in v1().files.items() if name != "attrs"})],
}
CASES = [
    pytest.param(example, id=f"{row}-{number}")
    for row, examples in EXAMPLES.items()
    for number, example in enumerate(examples)
]


def test_each_row_of_the_page_has_an_example() -> None:
    assert [row for row in ROWS if not row.startswith(tuple(EXAMPLES))] == [], "add an example to EXAMPLES"
    assert [start for start in EXAMPLES if not any(row.startswith(start) for row in ROWS)] == [], "there is no such row"
    assert len(ROWS) == len(EXAMPLES)


@pytest.mark.parametrize("example", CASES)
async def test_what_a_row_says_is_read_and_refused_by_the_strict_mode(example: Example) -> None:
    store = await stored(example)
    assert is_equal(await content(store), example.expected)
    with pytest.raises((InvalidMetadataError, CodecError)):
        await content(store, strict=True)


@pytest.mark.parametrize("example", [case for case in CASES if case.values[0].has_document])
async def test_a_change_stores_what_the_strict_mode_reads(example: Example) -> None:
    store = await stored(example)
    node = await aiozarr.open(store, mode="r+")
    await node.update_attributes({"new": 1})
    if isinstance(node, aiozarr.Group):
        assert (await aiozarr.open_group(store)).attrs["new"] == 1
        return
    shape = node.shape
    await node.resize([length + 1 for length in shape])
    await node.resize(shape, delete_chunks=False)
    assert is_equal(await content(store), example.expected)
    if node.zarr_format == 3:
        assert is_equal(await content(store, strict=True), example.expected)
    assert (await aiozarr.open_array(store)).attrs["new"] == 1


async def stored(example: Example) -> MemoryStore:
    store = MemoryStore()
    for key, data in example.files.items():
        await store.set(key, data)
    return store


async def content(store: MemoryStore, *, strict: bool = False) -> Any:
    node = await aiozarr.open(store, settings=aiozarr.Settings(strict=strict))
    return dict(node.attrs) if isinstance(node, aiozarr.Group) else await node[...]


def is_equal(one: Any, other: Any) -> bool:
    if isinstance(other, dict):
        return repr(one) == repr(other)
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind in "OSUT" or one.dtype.names:
        return bool(one.shape == other.shape and (one == other.astype(one.dtype)).all())
    if one.dtype.kind == "V":
        return bool(
            one.shape == other.shape and (one.tobytes() == other.tobytes() or (one.astype(float) == other).all())
        )
    return np.array_equal(one, other, equal_nan=True)


async def test_consolidated_copies_have_the_spelling_of_the_specification() -> None:
    store = MemoryStore()
    await aiozarr.create_group(store)
    documents = [case.values[0].files for case in CASES if isinstance(case.values[0].expected, np.ndarray)]
    arrays = {str(number): files for number, files in enumerate(documents) if "zarr.json" in files}
    for name, files in arrays.items():
        await store.set(f"{name}/zarr.json", files["zarr.json"])
    await aiozarr.consolidate_metadata(store)
    strict = await aiozarr.open_group(store, settings=aiozarr.Settings(strict=True))
    assert {name async for name, _ in strict.members()} == set(arrays)
    assert [each for each in (await aiozarr.validate(store)).findings if each.rule == "consolidated"] == []
