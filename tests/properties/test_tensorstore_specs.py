"""Random specs give the metadata that TensorStore writes; each reads what the other has written."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tensorstore as ts
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from aiozarr.errors import InvalidSpecError, NodeExistsError, NodeNotFoundError, SpecMismatchError
from tests.support.peer_cases import examples

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


@given(st.randoms(use_true_random=False))
@examples(100)
async def test_random_specs_give_the_same_documents_and_values(source: random.Random) -> None:
    with TemporaryDirectory() as folder:
        await compare_creation(random_spec(source), source, Path(folder))


async def compare_creation(members: dict[str, Any], source: random.Random, tmp_path: Path) -> None:
    """Create an array from these members by aiozarr and by TensorStore; write each and read it with the other."""
    ours = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/ours/"}, "create": True, **members}
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
    random_values = np.random.default_rng(source.randrange(1000))
    values = random_values.integers(0, 5, view.shape).astype(view.dtype)
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


JUNK: list[Any] = [None, True, -1, 0, 1, 2, 1.5, 3.0, "", "x", "3", [], [0], [5, 10], [1.5], ["x", "y"], [None, 1], {}]
JUNK += [{"a": 1}, [[0], [0]], {"name": "x"}, 1 << 62]
MEMBERS: dict[tuple[str, ...], list[Any]] = {
    ("rank",): [2, 3],
    ("dtype",): ["uint16", "uint8", "string"],
    ("transform",): [
        {"input_shape": [4, 4]},
        {"input_shape": [3], "output": [{"input_dimension": 0, "stride": 2}, {"offset": 1}]},
        {"input_shape": [2], "output": [{"index_array": [1, 3]}, {"input_dimension": 0}]},
        {"input_inclusive_min": [1, 2], "input_exclusive_max": [[8], [9]], "input_labels": ["", "b"]},
    ],
    ("recheck_cached_data",): [False, "open", 5],
    ("recheck_cached_metadata",): [False, "open", 5],
    ("cache_pool",): [{"total_bytes_limit": 5}, "cache_pool"],
    ("context",): [{"cache_pool": {"total_bytes_limit": 9}}, {"data_copy_concurrency": {"limit": 2}}],
    ("schema", "dtype"): ["uint16", "float32"],
    ("schema", "rank"): [2, 1],
    ("schema", "fill_value"): [0, 7, 65536],
    ("schema", "dimension_units"): [["nm", None], [[4, "nm"], "s"]],
    ("schema", "domain"): [{"shape": [10, 20]}, {"shape": [10, 21]}, {"labels": ["a", "b"]}, {"shape": [0, 20]}],
    ("schema", "chunk_layout"): [
        {"chunk": {"shape": [5, 10]}},
        {"chunk": {"shape": [5, 5]}},
        {"inner_order": [1, 0]},
        {"read_chunk": {"shape": [5, 5]}},
        {"write_chunk": {"elements": 20, "aspect_ratio": [1, 2]}},
        {"grid_origin": [0, 0], "codec_chunk": {"elements": 5}},
    ],
    ("schema", "codec"): [{"driver": "zarr3", "codecs": ["gzip"]}, {"driver": "zarr3"}, {"driver": "zarr"}],
    ("metadata", "shape"): [[10, 20], [10, 0], [20, 10]],
    ("metadata", "data_type"): ["uint16", "bfloat16", "uint4"],
    ("metadata", "fill_value"): [0, 3, "NaN", "0x0001"],
    ("metadata", "codecs"): [
        ["bytes"],
        ["gzip"],
        [{"name": "transpose", "configuration": {"order": [1, 0]}}],
        [{"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 5]}}],
        [{"name": "bytes", "configuration": {"endian": "big"}}, "zstd"],
    ],
    ("metadata", "chunk_grid"): [{"name": "regular", "configuration": {"chunk_shape": [10, 20]}}],
    ("metadata", "chunk_key_encoding"): [{"name": "v2"}, {"name": "default", "configuration": {"separator": "."}}],
    ("metadata", "dimension_names"): [["a", None], ["a", "b"]],
    ("metadata", "attributes"): [{"a": 2}, {"dimension_units": ["nm", "s"]}],
    ("metadata", "surplus"): [{"must_understand": False}],
    ("surplus",): [1],
}


def plain_spec() -> dict[str, Any]:
    grid = {"name": "regular", "configuration": {"chunk_shape": [5, 10]}}
    metadata = {"shape": [10, 20], "data_type": "uint16", "chunk_grid": grid, "attributes": {"a": 1}}
    return {"driver": "zarr3", "metadata": metadata, "schema": {"fill_value": 0}}


@given(st.data())
@examples(80)
async def test_a_spec_with_changed_members_is_taken_or_refused_as_by_tensorstore(data: st.DataObject) -> None:
    changed = plain_spec()
    for path in data.draw(st.lists(st.sampled_from(sorted(MEMBERS)), min_size=1, max_size=3, unique=True)):
        values = MEMBERS[path] if data.draw(st.integers(0, 2)) else JUNK
        place = changed
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = copy.deepcopy(data.draw(st.sampled_from(values)))
    mode = data.draw(st.sampled_from(["create", "open"]))
    with TemporaryDirectory() as folder:
        kvstores = [{"driver": "file", "path": f"{folder}/{side}/"} for side in ("ours", "theirs")]
        if mode == "open":
            for kvstore in kvstores:
                await aiozarr.open({**plain_spec(), "kvstore": kvstore, "create": True})
        ours = {**changed, mode: True, "compatibility": "exact", "kvstore": kvstores[0]}
        theirs = {**changed, mode: True, "kvstore": kvstores[1]}
        try:
            other = ts.open(theirs).result()
        except ValueError:
            with pytest.raises((InvalidSpecError, SpecMismatchError, NodeExistsError, NodeNotFoundError)) as caught:
                await aiozarr.open(ours)
            assert isinstance(caught.value, InvalidSpecError | SpecMismatchError)
            assert caught.value.member is not None
            return
        view = await aiozarr.open(ours)
        assert view.domain.to_json() == other.domain.to_json()
        assert view.schema.to_json() == other.schema.to_json()
        given_back, expected = view.spec(), other.spec().to_json()
        assert given_back.pop("kvstore")["path"] == f"{folder}/ours/"
        expected.pop("kvstore")
        assert given_back == expected


async def test_four_bits_and_bfloat16_are_stored_as_tensorstore_stores_them(tmp_path: Path) -> None:
    for name, values, expected in (("int4", [-8, -1, 3, 7], "080f0307"), ("bfloat16", [1, -2], "803f00c0")):
        kvstore = {"driver": "file", "path": f"{tmp_path}/{name}/"}
        metadata = {"shape": [len(values)], "data_type": name}
        view = await aiozarr.open({"driver": "zarr3", "kvstore": kvstore, "create": True, "metadata": metadata})
        await view.write(np.array(values).astype(view.dtype))
        assert (tmp_path / name / "c" / "0").read_bytes().hex() == expected
        assert (await view).astype(int).tolist() == values
