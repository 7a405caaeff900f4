"""Members of documents are misspelled in many ways. What zarr-python still reads, aiozarr reads, or it is decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import zarr

import aiozarr
from aiozarr.codecs.codec import AnyArray
from aiozarr.stores import MemoryStore
from tests.support.array_documents import LITTLE, V2, V3, codec

pytestmark = pytest.mark.filterwarnings("ignore")

VALUES = np.arange(1, 9, dtype="<i4")


def v2(**members: Any) -> dict[str, Any]:
    return {**V2, "shape": [8], "chunks": [4], "dimension_separator": ".", **members}


def v3(*codecs: Any, **members: Any) -> dict[str, Any]:
    return {
        **V3,
        "shape": [8],
        "chunk_grid": codec("regular", chunk_shape=[4]),
        "chunk_key_encoding": codec("default", separator="/"),
        "codecs": [*codecs] if codecs else [LITTLE],
        "attributes": {"a": 1},
        "storage_transformers": [],
        **members,
    }


DOCUMENTS: dict[str, tuple[dict[str, Any], AnyArray]] = {
    **{
        f"v2 {compressor['id']}": (v2(compressor=compressor), VALUES)
        for compressor in (
            {"id": "zlib", "level": 3},
            {"id": "bz2", "level": 3},
            {"id": "zstd", "level": 3, "checksum": False},
            {"id": "lz4", "acceleration": 1},
            {"id": "lzma", "format": 1, "check": -1, "preset": 3, "filters": None},
            {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        )
    },
    "v2 shuffle": (v2(filters=[{"id": "shuffle", "elementsize": 4}]), VALUES),
    "v2 quantize": (
        v2(dtype="<f4", filters=[{"id": "quantize", "digits": 3, "dtype": "<f4", "astype": "<f4"}]),
        VALUES.astype("f4"),
    ),
    "v2 bitround": (v2(dtype="<f4", filters=[{"id": "bitround", "keepbits": 10}]), VALUES.astype("f4")),
    "v2 float": (v2(dtype="<f8", fill_value=0.5), VALUES.astype("f8")),
    "v2 order": (v2(shape=[4, 2], chunks=[2, 2], order="F"), VALUES.reshape(4, 2)),
    "v3 gzip": (v3(LITTLE, codec("gzip", level=3)), VALUES),
    "v3 zstd": (v3(LITTLE, codec("zstd", level=3, checksum=False)), VALUES),
    "v3 blosc": (
        v3(LITTLE, codec("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=4, blocksize=0)),
        VALUES,
    ),
    "v3 transpose": (
        v3(codec("transpose", order=[1, 0]), LITTLE, shape=[4, 2], chunk_grid=codec("regular", chunk_shape=[2, 2])),
        VALUES.reshape(4, 2),
    ),
    "v3 shard": (
        v3(codec("sharding_indexed", chunk_shape=[2], codecs=[LITTLE], index_codecs=[LITTLE, {"name": "crc32c"}])),
        VALUES,
    ),
    "v3 float": (v3(data_type="float64", fill_value=0.5), VALUES.astype("f8")),
    "v3 bool": (v3(data_type="bool", fill_value=True), VALUES % 2 == 0),
}


def is_decided(document: str, path: str, spelling: str) -> bool:
    """Return whether aiozarr refuses what zarr-python reads, as `docs/how-to/formats.md` says."""
    if path == "fill_value" and document == "v3 bool":
        return True  # zarr-python takes any text and any other number than 0 for true
    if spelling == "an unknown member" or (path, spelling) == ("attributes", "a list"):
        return True
    # No default decides how a shard is read, and these filters have no other numbers.
    return path.endswith((".codecs", ".index_codecs", ".digits", ".keepbits"))


def spellings(value: Any) -> Iterator[tuple[str, Any]]:
    yield "null", None
    match value:
        case bool():
            yield from [("a number", int(value)), ("text", str(value).lower())]
        case int():
            yield from [("text", str(value)), ("a float", float(value)), ("a bool", bool(value)), ("a list", [value])]
            yield from [("another number", value + 100), ("another number", -value - 50), ("another number", 0)]
        case float():
            yield from [("text", str(value)), ("NaN", float("nan")), ("infinity", float("inf"))]
        case str():
            yield from [("upper case", value.upper()), ("a list", [value]), ("white space", f"{value} ")]
        case list():
            yield from [("nested", [value]), ("empty", []), ("an object", {})]
            yield from [("text", [str(each) for each in value]), ("one item", value[0] if len(value) == 1 else value)]
        case dict():
            yield from [("empty", {}), ("a list", [value]), ("an unknown member", {**value, "unknown": 1})]


def misspelled(document: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each path, the kind of another spelling, and a function that changes a copy of the document."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        below = f"{path}.{key}" if isinstance(document, dict) else f"{path}[{key}]"
        if isinstance(document, dict):
            yield below, "absent", [key]
        for kind, new in spellings(value):
            yield below, kind, [key, new]
        if isinstance(value, dict | list):
            for inner, kind, (*keys, last) in misspelled(value, below):
                yield inner, kind, [key, *keys, last]


def changed(document: dict[str, Any], kind: str, steps: list[Any]) -> dict[str, Any]:
    copy: Any = deepcopy(document)
    *keys, last = steps if kind == "absent" else steps[:-1]
    at = copy
    for key in keys:
        at = at[key]
    if kind == "absent":
        del at[last]
    else:
        at[last] = steps[-1]
    return dict(copy)


def read_by_zarr_python(files: dict[str, bytes]) -> Any:
    from zarr.core.buffer import cpu

    store = zarr.storage.MemoryStore({key: cpu.Buffer.from_bytes(data) for key, data in files.items()})
    try:
        return zarr.open_array(store, mode="r")[...]
    except Exception:  # of any kind
        return None


async def read(files: dict[str, bytes]) -> Any:
    store = MemoryStore()
    for key, data in files.items():
        await store.set(key, data)
    try:
        return await (await aiozarr.open_array(store))[...]
    except aiozarr.AiozarrError as error:
        return str(error)


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_what_zarr_python_reads_is_read(name: str) -> None:
    document, values = DOCUMENTS[name]
    key = "zarr.json" if document["zarr_format"] == 3 else ".zarray"
    store = MemoryStore()
    await store.set(key, json.dumps(document).encode())
    await (await aiozarr.open_array(store, mode="r+"))[...].write(values)
    files = {entry.key: bytes(await store.get(entry.key) or b"") async for entry in store.scan()}
    assert np.array_equal(read_by_zarr_python(files), values)
    refused = []
    for path, kind, steps in misspelled(document):
        path = path.removeprefix(".")
        if is_decided(name, path, kind):
            continue
        files[key] = json.dumps(changed(document, kind, steps)).encode()
        theirs = read_by_zarr_python(files)
        if theirs is None or theirs.shape != values.shape or not np.array_equal(theirs, values):
            continue
        ours = await read(files)
        if isinstance(ours, str) or not np.array_equal(ours, values):
            # Only zarr-python before 3.2 takes the machine's byte order for one that is missing.
            refused += [] if "needs an endianness" in ours else [f"{path}, {kind}: {ours}"]
    assert refused == [], "read it, or decide it here and in docs/how-to/formats.md"
