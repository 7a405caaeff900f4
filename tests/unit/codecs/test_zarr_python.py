"""zarr-python as an oracle: each library decodes the chunks of the other, byte for byte if uncompressed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline

zarr = pytest.importorskip("zarr", reason="zarr-python is the oracle of these tests", minversion="3.1")

DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float64", "complex64"]


def codec_lists() -> list[list[Any]]:
    from zarr import codecs as zc

    little, big = zc.BytesCodec(endian="little"), zc.BytesCodec(endian="big")
    sharding = zc.ShardingCodec(chunk_shape=(2, 3), codecs=[big, zc.ZstdCodec(level=3)], index_location="start")
    nested = zc.ShardingCodec(chunk_shape=(4, 3), codecs=[zc.ShardingCodec(chunk_shape=(2, 1), codecs=[little])])
    return [
        [little],
        [big, zc.Crc32cCodec()],
        [zc.TransposeCodec(order=(1, 0)), little, zc.ZstdCodec(level=0, checksum=True)],
        [little, zc.GzipCodec(level=6)],
        [little, zc.BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=4)],
        [sharding],
        [nested],
    ]


@pytest.mark.filterwarnings("ignore")  # zarr-python warns of its own configuration
@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("dtype", DTYPES)
def test_chunks_round_trip_through_zarr_python(tmp_path: Path, number: int, dtype: str) -> None:
    values = np.random.default_rng(number).integers(0, 2, (4, 6)).astype(dtype)
    values[2:] = 0
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": [0, 0] if dtype.startswith("complex") else False if dtype == "bool" else 0,
        "codecs": [codec.to_dict() for codec in codec_lists()[number]],
        "attributes": {},
    }
    (tmp_path / "zarr.json").write_text(json.dumps(metadata))
    theirs = zarr.open_array(tmp_path, mode="r+")
    theirs[:] = values
    spec = ArraySpec((4, 6), np.dtype(dtype), np.zeros((), dtype))
    ours = CodecPipeline.resolve(metadata["codecs"], spec)

    stored = tmp_path / "c" / "0" / "0"
    assert ours.decode(stored.read_bytes()).tobytes() == values.tobytes()

    stored.write_bytes(ours.encode(values))
    assert zarr.open_array(tmp_path, mode="r")[:].tobytes() == values.tobytes()


EXTENSIONS: list[tuple[Any, Any, Any, Any]] = [
    ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}}, "U3", ["ab", "\u20ac"], ""),
    ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}, "S3", [b"ab", b"\xff"], ""),
    ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "V3", [b"ab\0", b"\xff\0\1"], "AAAA"),
    ({"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 10}}, "M8[10ms]", [5, 2**40], 0),
    ({"name": "numpy.timedelta64", "configuration": {"unit": "D", "scale_factor": 1}}, "m8[D]", [-5, 2**40], 0),
]


@pytest.mark.filterwarnings("ignore")  # zarr-python warns that these types are young
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize(("data_type", "dtype", "items", "fill"), EXTENSIONS)
def test_extension_types_round_trip_through_zarr_python(
    tmp_path: Path, data_type: Any, dtype: str, items: list[Any], fill: Any, endian: str
) -> None:
    values = np.array(items, dtype)
    chain = [{"name": "bytes", "configuration": {"endian": endian}}]
    _exchange(tmp_path, data_type, fill, chain, values)


@pytest.mark.filterwarnings("ignore")  # zarr-python warns that these types are young
@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no StringDType")
@pytest.mark.parametrize(
    ("data_type", "codec", "items"),
    [
        ("string", "vlen-utf8", ["", "a\u20ac\0", "x" * 1000]),
        ("variable_length_bytes", "vlen-bytes", [b"", b"\0\xff", b"x" * 1000]),
    ],
)
def test_elements_of_any_length_round_trip_through_zarr_python(
    tmp_path: Path, data_type: str, codec: str, items: list[Any]
) -> None:
    values = np.array(items, np.dtypes.StringDType() if data_type == "string" else object)
    _exchange(tmp_path, data_type, "", [{"name": codec}], values)


def _exchange(path: Path, data_type: Any, fill: Any, chain: list[Any], values: np.ndarray[Any, Any]) -> None:
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [len(values)],
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [len(values)]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": fill,
        "codecs": chain,
        "attributes": {},
    }
    (path / "zarr.json").write_text(json.dumps(metadata))
    theirs = zarr.open_array(path, mode="r+")
    theirs[:] = values
    spec = ArraySpec(values.shape, values.dtype, np.zeros((), values.dtype))
    ours = CodecPipeline.resolve(chain, spec)
    stored = path / "c" / "0"
    assert ours.decode(stored.read_bytes()).tolist() == values.tolist()
    assert stored.read_bytes() == bytes(ours.encode(values))
    stored.write_bytes(ours.encode(values[::-1]))
    assert np.asarray(zarr.open_array(path, mode="r")[:]).tolist() == values[::-1].tolist()
