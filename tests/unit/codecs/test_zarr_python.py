"""zarr-python as an oracle: what it writes decodes here, and the reverse, byte for byte where nothing is compressed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, CodecPipeline

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
def test_chunks_pass_between_the_two(tmp_path: Path, number: int, dtype: str) -> None:
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
