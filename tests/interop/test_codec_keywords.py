"""`compressors=`, `filters=` and `serializer=` describe the same documents in aiozarr and in zarr-python."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as zc

from aiozarr import sync
from aiozarr.codecs.gzip import GzipCodec

with warnings.catch_warnings(action="ignore"):  # zarr-python warns of codecs that are not in the specification
    import zarr.codecs.numcodecs as zn

    DELTA = zn.Delta(dtype="<i4", astype="<i4")
    ZLIB = zn.Zlib(level=2)

pytestmark = pytest.mark.filterwarnings("ignore")

BIG = {"name": "bytes", "configuration": {"endian": "big"}}
TRANSPOSE = {"name": "transpose", "configuration": {"order": (1, 0)}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}

# Keywords that both accept.
FORMAT_3: dict[str, dict[str, Any]] = {
    "none": {"compressors": None},
    "no filters": {"filters": None, "compressors": ()},
    "auto": {"filters": "auto", "serializer": "auto", "compressors": []},
    "one object": {"compressors": zc.ZstdCodec(level=5)},
    "several": {"compressors": [zc.GzipCodec(level=1), zc.Crc32cCodec()]},
    "all three": {
        "filters": [zc.TransposeCodec(order=(1, 0))],
        "serializer": zc.BytesCodec(endian="big"),
        "compressors": zc.GzipCodec(),
    },
    "mappings": {"filters": TRANSPOSE, "serializer": BIG, "compressors": [ZSTD]},
    "blosc with parameters left open": {"compressors": zc.BloscCodec(cname="lz4")},
    "blosc": {"compressors": zc.BloscCodec(typesize=2, shuffle="noshuffle", clevel=1)},
    "shards": {"serializer": zc.ShardingCodec(chunk_shape=(1, 2)), "compressors": None},
    "numcodecs": {"compressors": (ZLIB,)},
    "chunks in shards": {"shards": (4, 4), "compressors": zc.ZstdCodec(), "filters": ()},
}
FORMAT_2: dict[str, dict[str, Any]] = {
    "none": {"compressors": None},
    "empty": {"compressors": (), "filters": ()},
    "one object": {"compressors": numcodecs.Zlib(3)},
    "a list of one": {"compressors": [numcodecs.Blosc(clevel=3)]},
    "a mapping": {"compressors": {"id": "bz2", "level": 2}},
    "filters": {"filters": [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)], "compressors": None},
    "one filter": {"filters": numcodecs.Delta("<i4"), "compressors": numcodecs.GZip(1)},
}
CASES = [(3, name) for name in FORMAT_3] + [(2, name) for name in FORMAT_2]


def codecs_of(folder: Path) -> object:
    """Return the codecs in the document of an array, without empty configurations."""
    if (folder / ".zarray").exists():
        document = json.loads((folder / ".zarray").read_text())
        return document["filters"] or None, document["compressor"]
    codecs = json.loads((folder / "zarr.json").read_text())["codecs"]
    return [{key: value for key, value in codec.items() if value != {}} for codec in codecs]


@pytest.mark.parametrize("dtype", ["i4", "u1"])
@pytest.mark.parametrize(("zarr_format", "name"), CASES)
def test_the_documents_are_those_of_zarr_python(tmp_path: Path, zarr_format: int, name: str, dtype: str) -> None:
    given = {**(FORMAT_3 if zarr_format == 3 else FORMAT_2)[name], "shape": (4, 4), "chunks": (2, 2), "dtype": dtype}
    zarr.create_array(tmp_path / "theirs", **given, zarr_format=zarr_format)  # type: ignore[arg-type]
    ours = sync.create_array(tmp_path / "ours", **given, zarr_format=zarr_format)
    assert codecs_of(tmp_path / "ours") == codecs_of(tmp_path / "theirs")
    ours[...] = values = np.arange(16, dtype=dtype).reshape(4, 4)
    assert np.array_equal(zarr.open_array(tmp_path / "ours", mode="r")[...], values)


@pytest.mark.parametrize(
    ("zarr_format", "given", "same_as"),
    [
        (3, {"compressors": "gzip"}, {"compressors": zc.GzipCodec()}),
        (3, {"compressors": ["gzip", {"name": "crc32c"}]}, {"compressors": [zc.GzipCodec(), zc.Crc32cCodec()]}),
        (3, {"compressors": numcodecs.Zstd(9)}, {"compressors": zc.ZstdCodec(level=9)}),
        (3, {"compressors": {"name": "zstd", "level": 9}}, {"compressors": zc.ZstdCodec(level=9)}),
        (3, {"filters": numcodecs.Delta("<i4")}, {"filters": DELTA}),
        (2, {"compressors": "zlib"}, {"compressors": numcodecs.Zlib()}),
        (2, {"compressors": zc.ZstdCodec(level=9)}, {"compressors": numcodecs.Zstd(9)}),
        (2, {"compressors": [zc.GzipCodec(level=2)]}, {"compressors": numcodecs.GZip(2)}),
        (2, {"compressors": GzipCodec(2)}, {"compressors": numcodecs.GZip(2)}),
        (2, {"filters": DELTA}, {"filters": numcodecs.Delta("<i4")}),
    ],
)
def test_names_and_the_codecs_of_the_other_format_are_accepted_too(
    tmp_path: Path, zarr_format: int, given: dict[str, Any], same_as: dict[str, Any]
) -> None:
    common: dict[str, Any] = {"shape": (4, 4), "chunks": (2, 2), "dtype": "i4", "zarr_format": zarr_format}
    if "compressors" not in given:
        common["compressors"] = None
    zarr.create_array(tmp_path / "theirs", **common, **same_as)
    sync.create_group(tmp_path / "ours", zarr_format=zarr_format).create_array("a", **_without_format(common), **given)
    assert codecs_of(tmp_path / "ours" / "a") == codecs_of(tmp_path / "theirs")


def _without_format(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "zarr_format"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_function_that_creates_an_array_takes_the_keywords(tmp_path: Path, zarr_format: int) -> None:
    given: dict[str, Any] = {"shape": (4, 4), "dtype": "i4", "filters": None, "compressors": numcodecs.GZip(4)}
    group = sync.create_group(tmp_path / "g", zarr_format=zarr_format)
    group.create_array("a", **given)
    group.require_array("b", **given)
    group.create_hierarchy({"c": given})
    sync.require_array(tmp_path / "d", zarr_format=zarr_format, **given)
    sync.open_array(tmp_path / "e", mode="a", zarr_format=zarr_format, **given)
    folders = [tmp_path / "g" / name for name in "abc"] + [tmp_path / "d", tmp_path / "e"]
    first, *others = [codecs_of(folder) for folder in folders]
    assert "gzip" in str(first)
    assert others == [first] * 4
