"""Specs open, create and delete arrays as TensorStore does, with typed errors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.driver import SpecConflictError, TensorView
from aiozarr.errors import (
    AiozarrError,
    InvalidMetadataError,
    InvalidSpecError,
    MissingChunkError,
    NodeExistsError,
    NodeNotFoundError,
    SelectionError,
    SpecMismatchError,
    UnsupportedOperationError,
)
from aiozarr.stores import LocalStore
from tests.support.servers.moto import LocalS3
from tests.support.tensorstore_pairs import label_of, pairs

ARRAY = {
    "shape": [4, 6],
    "data_type": "int16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
}


def spec(folder: Path, **members: Any) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/a/"}, **members}


def stored(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder / "a").as_posix() for path in (folder / "a").rglob("*") if path.is_file())


KINDS: list[tuple[str, type[AiozarrError]]] = [
    ("NOT_FOUND", NodeNotFoundError),
    ("ALREADY_EXISTS", NodeExistsError),
    ("Error reading", InvalidMetadataError),
    ("FAILED_PRECONDITION", SpecMismatchError),
    ("Error setting", SpecMismatchError),
    ("", InvalidSpecError),
]
# Names that are not unique are tolerated; a spec that neither opens nor creates is refused.
TOLERATED = {"stored: dup dimension_names"}
REFUSED = {"open false create false"}
OPENED = [pair for pair in pairs("open_cases") if pair["label"] not in TOLERATED | REFUSED]


def preconnect(pair: dict[str, Any], folder: Path) -> dict[str, Any]:
    existing = pair["existing"]
    (folder / "a").mkdir()
    if existing is not None:
        text = existing if isinstance(existing, str) else json.dumps(existing)
        (folder / "a" / "zarr.json").write_text(text)
    given = {name: value for name, value in pair["spec"].items() if name != "kvstore"}
    return spec(folder, **given)


@pytest.mark.parametrize("pair", [each for each in OPENED if "error" not in each["result"]], ids=label_of)
async def test_a_spec_opens_what_is_recorded(pair: Any, tmp_path: Path) -> None:
    view = await aiozarr.open(preconnect(pair, tmp_path))
    result = pair["result"]
    assert view.domain.to_json() == result["domain"]
    assert view.chunk_layout.to_json() == result["chunk_layout"]
    assert view.codec.to_json() == result["codec"]
    assert [None if unit is None else unit.to_json() for unit in view.dimension_units] == result["dimension_units"]
    assert stored(tmp_path) == result["keys"]


@pytest.mark.parametrize("pair", [each for each in OPENED if "error" in each["result"]], ids=label_of)
async def test_a_spec_that_cannot_be_opened_is_an_error_of_its_kind(pair: Any, tmp_path: Path) -> None:
    text = pair["result"]["error"]
    kind = next(kind for word, kind in KINDS if word in text)
    given = preconnect(pair, tmp_path)
    before = stored(tmp_path)
    with pytest.raises(kind):
        await aiozarr.open(given)
    assert stored(tmp_path) == before


async def test_a_spec_that_neither_opens_nor_creates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match="open or create must be true"):
        await aiozarr.open(spec(tmp_path, open=False, create=False))


async def test_an_unknown_member_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match=r"did you mean 'write_chunk'\?") as caught:
        await aiozarr.open(spec(tmp_path, schema={"chunk_layout": {"write_chunks": {}}}))
    assert caught.value.member == "schema.chunk_layout.write_chunks"


async def test_no_other_argument_goes_with_a_spec(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="mode"):
        await aiozarr.open(spec(tmp_path), mode="r+")


async def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    layout = {"chunk_layout": {"inner_order": [1, 0]}}
    with pytest.raises(SpecConflictError):
        await aiozarr.open(spec(tmp_path, create=True, metadata={**ARRAY, "codecs": ["blosc"]}, schema=layout))
    assert stored(tmp_path) == []


async def test_open_and_create_creates_once(tmp_path: Path) -> None:
    both = spec(tmp_path, open=True, create=True, metadata=ARRAY)
    await (await aiozarr.open(both)).write(5)
    assert (await (await aiozarr.open(both))).sum() == 5 * 24
    with pytest.raises(NodeExistsError):
        await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))


async def test_delete_existing_erases_everything_below_the_path(tmp_path: Path) -> None:
    await (await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))).write(5)
    (tmp_path / "a" / "other").write_text("x")
    await aiozarr.open(spec(tmp_path, create=True, delete_existing=True, metadata=ARRAY))
    assert stored(tmp_path) == ["zarr.json"]


async def test_assumed_metadata_cost_no_request_and_cannot_be_resized(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with aiozarr.record() as report:
        view = await aiozarr.open(spec(tmp_path, assume_metadata=True, metadata=ARRAY))
    assert report.requests == 0
    assert (await view).tolist() == [[0] * 6] * 4
    with pytest.raises(UnsupportedOperationError, match="assume_metadata"):
        await view.resize([8, 6])


async def test_assumed_cached_metadata_are_compared_when_they_are_changed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    view = await aiozarr.open(spec(tmp_path, assume_cached_metadata=True, metadata=ARRAY))
    with pytest.raises(NodeNotFoundError):
        await view.resize([8, 6])
    await aiozarr.open(spec(tmp_path, create=True, metadata={**ARRAY, "data_type": "int8"}))
    with pytest.raises(SpecMismatchError):
        await view.resize([8, 6])


async def test_a_url_pipeline_opens_and_is_given_back(tmp_path: Path) -> None:
    await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))
    for url in (f"file://{tmp_path}/a/|zarr3:", f"file://{tmp_path}/|zarr3:a/", f"file://{tmp_path}/a/|auto"):
        view: Any = await aiozarr.open(url)
        assert isinstance(view, TensorView)
        assert view.url == f"file://{tmp_path}/a/|zarr3:"
    with pytest.raises(InvalidSpecError, match="must not have a query"):
        await aiozarr.open(f"file://{tmp_path}/a/|zarr3:?x")


async def test_a_spec_given_back_opens_the_same_view(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))
    await view.write(np.arange(24).reshape(4, 6))
    part = view[1:3].transpose().translate_to[0, 0]
    for minimal in (False, True):
        again = await aiozarr.open(part.spec(minimal_spec=minimal))
        assert again.domain == part.domain
        assert (await again).tolist() == (await part).tolist()


async def test_chunks_equal_to_the_fill_value_are_not_stored_and_are_deleted(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))
    await view.write(0)
    assert stored(tmp_path) == ["zarr.json"]
    await view[0:2, 0:3].write(1)
    assert stored(tmp_path) == ["c/0/0", "zarr.json"]
    await view[0:2, 0:3].write(0)
    assert stored(tmp_path) == ["zarr.json"]


async def test_fill_values_are_compared_bit_by_bit(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata={"shape": [2], "data_type": "float32"}))
    await view.write(-0.0)
    assert stored(tmp_path) == ["c/0", "zarr.json"]


async def test_chunks_equal_to_the_fill_value_are_stored_if_the_spec_says_so(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY, store_data_equal_to_fill_value=True))
    await view[0:2, 0:3].write(0)
    assert stored(tmp_path) == ["c/0/0", "zarr.json"]


async def test_missing_chunks_are_an_error_if_the_spec_says_so(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY, fill_missing_data_reads=False))
    with pytest.raises(MissingChunkError):
        await view


async def test_resizing_gives_a_new_view_and_erases_the_chunks_outside(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))
    await view.write(1)
    small = await view.resize([2, None])
    assert (small.shape, view.shape) == ((2, 6), (4, 6))
    assert stored(tmp_path) == ["c/0/0", "c/0/1", "zarr.json"]
    assert (await view.resolve()).shape == (2, 6)
    with pytest.raises(ValueError, match="expand_only"):
        await small.resize([1, 6], expand_only=True)
    with pytest.raises(ValueError, match="shrink_only"):
        await small.resize([3, 6], shrink_only=True)
    await small.resize([1, 1], resize_metadata_only=True)
    assert stored(tmp_path) == ["c/0/0", "c/0/1", "zarr.json"]


async def test_a_spec_given_back_repeats_what_is_not_the_default(tmp_path: Path) -> None:
    kept = {"fill_missing_data_reads": False, "store_data_equal_to_fill_value": True, "recheck_cached_data": "open"}
    kept["recheck_cached_metadata"] = True
    spec: dict[str, Any] = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"}}
    given = {"recheck_cached_metadata": "open", "recheck_cached_data": True, "dtype": "int8", "schema": {"rank": 0}}
    plain = await aiozarr.open({**spec, **given, "create": True})
    assert not kept.keys() & plain.spec().keys()
    view = await aiozarr.open({**spec, **kept})
    for found in (view.spec(), view.spec(minimal_spec=True)):
        assert {name: found.get(name) for name in kept} == kept


async def test_a_transpose_of_another_rank_names_its_member(tmp_path: Path) -> None:
    codecs = [{"name": "transpose", "configuration": {"order": [0, 1, 2]}}]
    metadata = {"shape": [10, 20], "data_type": "uint8", "codecs": codecs}
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"}}
    with pytest.raises(InvalidSpecError, match="rank 2") as caught:
        await aiozarr.open({**spec, "create": True, "metadata": metadata})
    assert caught.value.member == "metadata.codecs"


async def test_flags_of_reading_and_writing_are_kept(tmp_path: Path) -> None:
    await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))
    reader, writer = await aiozarr.open(spec(tmp_path, read=True)), await aiozarr.open(spec(tmp_path, write=True))
    with pytest.raises(UnsupportedOperationError):
        await reader.write(1)
    with pytest.raises(UnsupportedOperationError):
        await writer.read()


@pytest.mark.parametrize("bound", [True, False, "open", 0, "time"])
async def test_cached_chunks_are_revalidated_as_the_spec_says(
    tmp_path: Path, bound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = {"cache_pool": {"total_bytes_limit": 1 << 20}}
    await (await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))).write(7)
    moment = time.time() + 1000 if bound == "time" else bound
    view = await aiozarr.open(spec(tmp_path, context=context, recheck_cached_data=moment))
    sent = {"fetch": 0, "stat": 0}

    def counting(name: str, call: Any) -> Any:
        def count(*arguments: Any, **options: Any) -> Any:
            sent[name] += 1
            return call(*arguments, **options)

        return count

    monkeypatch.setattr(LocalStore, "fetch_now", counting("fetch", LocalStore.fetch_now))
    monkeypatch.setattr(LocalStore, "_stat_now", counting("stat", LocalStore._stat_now))
    assert (await view).sum() == 7 * 24
    assert sent == {"fetch": 4, "stat": 0}
    assert (await view).sum() == 7 * 24
    assert sent == {"fetch": 4, "stat": 4 if bound in (True, "time") else 0}
    await view[0:2, 0:3].write(1)
    assert (await view).sum() == 7 * 18 + 6


async def test_metadata_are_revalidated_before_reads_if_the_spec_says_so(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=ARRAY))
    checked = await aiozarr.open(spec(tmp_path, recheck_cached_metadata=True))
    await view.resize([2, 6])
    with pytest.raises(SelectionError, match="outside \\["):
        await checked


def test_the_blocking_view_reads_and_writes(tmp_path: Path) -> None:
    view = aiozarr.sync.open(spec(tmp_path, create=True, metadata=ARRAY))
    view[1:3].write(np.arange(12).reshape(2, 6))
    assert np.asarray(view[1:3].T)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert view.resize([5, 6]).shape == (5, 6)


async def test_an_array_in_a_bucket_is_created_and_opened_by_its_spec(s3_server: LocalS3) -> None:
    s3_server.create_bucket("specs")
    options = s3_server.storage_options
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", options["key"])
        environment.setenv("AWS_SECRET_ACCESS_KEY", options["secret"])
        kvstore = {"driver": "s3", "bucket": "specs", "path": "x/", "endpoint": options["endpoint_url"]}
        given = {"driver": "zarr3", "kvstore": {**kvstore, "aws_region": options["region"]}}
        async with await aiozarr.open({**given, "create": True, "metadata": ARRAY}) as view:
            await view.write(np.arange(24).reshape(4, 6))
        async with await aiozarr.open(given) as view:
            assert (await view[1:3, 2]).tolist() == [8, 14]
            assert view.url == "s3://specs/x/|zarr3:"
