"""TensorStore as an oracle for the small numbers of ml_dtypes, in both byte orders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline

ts = pytest.importorskip("tensorstore", reason="TensorStore is the oracle of these tests")

NAMES = ["int2", "int4", "bfloat16", "float4_e2m1fn", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("name", NAMES)
def test_small_numbers_round_trip_through_tensorstore(tmp_path: Path, name: str, endian: str) -> None:
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    values = np.array([0, 1, -1, 1, -2], np.int8).astype(dtype)
    chain = [{"name": "bytes", "configuration": {"endian": endian}}]
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5],
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": chain,
        "attributes": {},
    }
    (tmp_path / "zarr.json").write_text(json.dumps(metadata))

    def opened() -> Any:
        return ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}, open=True).result()

    opened().write(values).result()
    ours = CodecPipeline.resolve(chain, ArraySpec((5,), dtype, np.zeros((), dtype)))
    stored = tmp_path / "c" / "0"
    assert ours.decode(stored.read_bytes()).tobytes() == values.tobytes()
    stored.write_bytes(ours.encode(values[::-1]))
    assert opened().read().result().astype(np.float32).tolist() == values[::-1].astype(np.float32).tolist()
