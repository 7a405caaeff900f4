"""zarr-python as an oracle: the types and fill values of its documents mean the same here, and the reverse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiozarr.metadata import DataType

zarr = pytest.importorskip("zarr", reason="zarr-python is the oracle of these tests", minversion="3.1")

RECORD = np.dtype([("a", "i4"), ("s", "S3"), ("n", [("p", "f4"), ("t", "M8[ms]")])])
CASES: list[tuple[Any, Any]] = [
    *[(name, 3) for name in ("int8", "uint16", "int64", "float16", "float64")],
    *[("float32", value) for value in (np.nan, np.inf, -0.0, 0.1)],
    *[("complex64", value) for value in (1 + 2j, complex(np.nan, -np.inf))],
    ("bool", True),
    *[("S5", value) for value in (b"", b"ab", b"abcde")],
    *[("U4", value) for value in ("", "aü", "abcd")],
    ("V3", np.void(b"\0\1\xff")),
    *[("M8[s]", value) for value in (np.datetime64("NaT", "s"), np.datetime64(7, "s"))],
    *[("m8[10us]", value) for value in (np.timedelta64("NaT", "us"), np.array(-3).view("m8[10us]")[()])],
    *[("string", value) for value in ("", "naïve")],
    *[("variable_length_bytes", value) for value in (b"", b"a\0")],
    (RECORD, np.array((7, b"ab", (0.5, 9)), RECORD)[()]),
]


def same(ours: np.ndarray[Any, Any], theirs: Any) -> bool:
    if ours.dtype.kind in "TO":
        return bool(ours.item() == (theirs if isinstance(theirs, str | bytes) else theirs.item()))
    return ours.tobytes() == np.asarray(theirs, ours.dtype).tobytes()


@pytest.mark.filterwarnings("ignore")  # zarr-python warns of types that were not in the registry
@pytest.mark.parametrize(("dtype", "fill"), CASES, ids=str)
def test_their_documents_are_read_here(tmp_path: Path, dtype: Any, fill: Any) -> None:
    theirs = zarr.create_array(tmp_path, shape=(2,), chunks=(2,), dtype=dtype, fill_value=fill)
    document = json.loads((tmp_path / "zarr.json").read_text("utf-8"))
    data_type = DataType.from_json(document["data_type"])
    if data_type.name not in ("string", "variable_length_bytes"):
        assert data_type.dtype == theirs.dtype
    assert same(data_type.parse_fill_value(document["fill_value"]), theirs.fill_value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "fill"), [case for case in CASES if case[0] is not RECORD], ids=str)
def test_our_documents_are_read_there(tmp_path: Path, dtype: Any, fill: Any) -> None:
    zarr.create_array(tmp_path, shape=(2,), chunks=(2,), dtype=dtype, fill_value=fill)
    path = tmp_path / "zarr.json"
    document = json.loads(path.read_text("utf-8"))
    data_type = DataType.from_json(document["data_type"])
    array = data_type.make_fill_value(fill)
    path.write_text(
        json.dumps(document | {"data_type": data_type.to_json(), "fill_value": data_type.render_fill_value(array)})
    )
    assert same(array, zarr.open_array(tmp_path, mode="r").fill_value)
