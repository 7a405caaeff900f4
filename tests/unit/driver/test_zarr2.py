"""The driver of format 2 creates what TensorStore creates, and reads what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import InvalidSpecError, SpecMismatchError
from aiozarr.stores import MemoryStore
from tests.support.tensorstore_pairs import label_of, pairs


def spec(folder: Path, **members: Any) -> dict[str, Any]:
    return {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{folder}/a/"}, **members}


@pytest.mark.parametrize("pair", pairs("zarr2_cases"), ids=label_of)
async def test_a_spec_creates_what_is_recorded(pair: Any, tmp_path: Path) -> None:
    given, result = spec(tmp_path, create=True, **pair["spec"]), pair["result"]
    if "error" in result:
        with pytest.raises((InvalidSpecError, SpecMismatchError)):
            await aiozarr.open(given)
        assert not (tmp_path / "a").exists()
        return
    view = await aiozarr.open(given)
    document = json.loads((tmp_path / "a" / ".zarray").read_text())
    assert document == result["zarray"]
    assert view.chunk_layout.to_json() == result["layout"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == result["keys"]


@pytest.mark.parametrize("data_type", ["int8", "uint16", "float32", "bfloat16", "int4", "bool", "complex64"])
async def test_tensorstore_reads_and_writes_the_same_array(data_type: str, tmp_path: Path) -> None:
    ts = pytest.importorskip("tensorstore")
    view = await aiozarr.open(spec(tmp_path, create=True, dtype=data_type, schema={"domain": {"shape": [5, 7]}}))
    values = (np.arange(35) % 7).reshape(5, 7).astype(view.dtype)
    await view.write(values)
    other = ts.open(spec(tmp_path)).result()
    assert other.read().result().tolist() == values.tolist()
    other[1:3].write(values[0:2]).result()
    assert (await view[1:3]).tolist() == values[0:2].tolist()
    assert other.chunk_layout.to_json() == view.chunk_layout.to_json()


async def test_constraints_are_matched(tmp_path: Path) -> None:
    await aiozarr.open(spec(tmp_path, create=True, dtype="uint8", schema={"domain": {"shape": [5]}}))
    assert (await aiozarr.open(spec(tmp_path, metadata={"compressor": {"id": "blosc"}}))).shape == (5,)
    with pytest.raises(SpecMismatchError) as caught:
        await aiozarr.open(spec(tmp_path, metadata={"shape": [6]}))
    assert (caught.value.member, caught.value.expected, caught.value.found) == ("metadata.shape", [6], [5])


async def test_the_format_is_found_from_what_is_stored(tmp_path: Path) -> None:
    await aiozarr.open(spec(tmp_path, create=True, dtype="uint8", schema={"domain": {"shape": [5]}}))
    view: Any = await aiozarr.open(f"file://{tmp_path}/a/|auto:")
    assert (view.shape, view.url) == ((5,), f"file://{tmp_path}/a/|zarr2:")


async def test_resizing_keeps_the_metadata(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, dtype="uint8", schema={"domain": {"shape": [5]}}))
    assert (await view.resize([9])).shape == (9,)
    assert json.loads((tmp_path / "a" / ".zarray").read_text())["shape"] == [9]


async def test_a_document_without_its_nullable_members_is_described_as_one_with_null() -> None:
    document = {"zarr_format": 2, "shape": [0, 4], "chunks": [0, 2], "dtype": "<i2", "order": "C"}
    store = MemoryStore.named("nullable")
    await store.set("a/.zarray", json.dumps(document).encode())
    view = await aiozarr.open({"driver": "zarr", "kvstore": "memory://nullable/a/", "open": True})
    assert view.codec.to_json() == {"driver": "zarr", "compressor": None, "filters": None}
    assert view.chunk_layout.to_json()["write_chunk"] == {"shape": [1, 2]}
