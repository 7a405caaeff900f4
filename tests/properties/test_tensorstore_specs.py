"""Random specs give the metadata that TensorStore writes; each reads what the other has written."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import InvalidSpecError, SpecMismatchError

ts = pytest.importorskip("tensorstore")
TYPES = ["bool", "int4", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "float64", "complex64"]


def random_codecs(source: random.Random, rank: int, depth: int = 0) -> list[Any]:
    """A partial chain of codecs."""
    chain: list[Any] = []
    if source.random() < 0.25:
        order = list(range(rank))
        source.shuffle(order)
        chain.append({"name": "transpose", "configuration": {"order": source.choice([order, "C", "F"])}})
    kind = source.random()
    if kind < 0.3 and depth < 1:
        configuration: dict[str, Any] = {}
        if source.random() < 0.5:
            configuration["codecs"] = random_codecs(source, rank, depth + 1)
        if source.random() < 0.3:
            configuration["index_location"] = source.choice(["start", "end"])
        return [*chain, {"name": "sharding_indexed", "configuration": configuration}]
    if kind < 0.6:
        chain.append(source.choice(["bytes", {"name": "bytes", "configuration": {"endian": "big"}}]))
    codecs = ["gzip", "zstd", "crc32c", "blosc", {"name": "gzip", "configuration": {"level": 1}}]
    codecs.append({"name": "blosc", "configuration": {"shuffle": "shuffle", "cname": "zstd"}})
    return chain + source.sample(codecs, source.randint(0, 2))


def random_spec(source: random.Random) -> dict[str, Any]:
    rank = source.randint(0, 3)
    shape = [source.randint(1, 40) for _ in range(rank)]
    schema: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    if source.random() < 0.5:
        metadata["shape"] = shape
    else:
        schema["domain"] = {"shape": shape}
    if source.random() < 0.5:
        metadata["data_type"] = source.choice(TYPES)
    else:
        schema["dtype"] = source.choice(TYPES)
    layout: dict[str, Any] = {}
    if source.random() < 0.5:
        write = [source.choice([4, 8, 12]) for _ in range(rank)]
        layout["write_chunk"] = {source.choice(["shape", "shape_soft_constraint"]): write}
    if source.random() < 0.5:
        layout["read_chunk"] = {source.choice(["shape", "shape_soft_constraint"]): [4] * rank}
    if rank and source.random() < 0.3:
        order = list(range(rank))
        source.shuffle(order)
        layout[source.choice(["inner_order", "inner_order_soft_constraint"])] = order
    if layout:
        schema["chunk_layout"] = layout
    if source.random() < 0.4:
        schema["codec"] = {"driver": "zarr3", "codecs": random_codecs(source, rank)}
    if source.random() < 0.3:
        metadata["codecs"] = random_codecs(source, rank)
    if source.random() < 0.3:
        metadata["dimension_names"] = [source.choice([None, f"d{i}", ""]) for i in range(rank)]
    if source.random() < 0.3:
        schema["dimension_units"] = [source.choice([None, "4 nm", [2.5, "m"], ""]) for _ in range(rank)]
    if source.random() < 0.3:
        metadata["attributes"] = {"a": 1}
    if source.random() < 0.3:
        separator = source.choice(["/", "."])
        name = source.choice(["default", "v2"])
        metadata["chunk_key_encoding"] = {"name": name, "configuration": {"separator": separator}}
    return {"schema": schema, "metadata": metadata}


@pytest.mark.parametrize("seed", range(150))
async def test_random_specs_give_the_same_documents_and_values(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    given = random_spec(source)
    ours = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/ours/"}, "create": True, **given}
    theirs = {**ours, "kvstore": {"driver": "file", "path": f"{tmp_path}/theirs/"}}
    try:
        other = ts.open(theirs).result()
    except ValueError:
        with pytest.raises((InvalidSpecError, SpecMismatchError)):
            await aiozarr.open({**ours, "compatibility": "exact"})
        assert not (tmp_path / "ours").exists()
        return
    view = await aiozarr.open({**ours, "compatibility": "exact"})
    document = json.loads((tmp_path / "ours" / "zarr.json").read_text())
    assert document == json.loads((tmp_path / "theirs" / "zarr.json").read_text())
    assert view.schema.to_json() == other.schema.to_json()
    values = np.array(source.choices(range(5), k=view.size)).reshape(view.shape).astype(view.dtype)
    await view.write(values)
    again = ts.open({**ours, "create": False, "open": True}).result()
    assert again.read().result().tolist() == values.tolist()
    other.write(values).result()
    read = await aiozarr.open({**theirs, "create": False, "open": True})
    assert (await read).tolist() == values.tolist()
    keys = [
        sorted(p.relative_to(tmp_path / side).as_posix() for p in (tmp_path / side).rglob("*") if p.is_file())
        for side in ("ours", "theirs")
    ]
    assert keys[0] == keys[1]


async def test_four_bits_and_bfloat16_are_stored_as_tensorstore_stores_them(tmp_path: Path) -> None:
    for name, values, expected in (("int4", [-8, -1, 3, 7], "080f0307"), ("bfloat16", [1, -2], "803f00c0")):
        kvstore = {"driver": "file", "path": f"{tmp_path}/{name}/"}
        metadata = {"shape": [len(values)], "data_type": name}
        view = await aiozarr.open({"driver": "zarr3", "kvstore": kvstore, "create": True, "metadata": metadata})
        await view.write(np.array(values).astype(view.dtype))
        assert (tmp_path / name / "c" / "0").read_bytes().hex() == expected
        assert (await view).astype(int).tolist() == values
