"""verify: bad chunks by key."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aiozarr.sync
from aiozarr.hierarchy import verification
from tests.support.command_line import damage, invoke, records, succeed


def test_a_good_store_has_no_bad_chunks(sample: Path) -> None:
    result = succeed("verify", sample)
    assert result.stdout == ""
    assert result.stderr == "3 arrays, 13 objects decoded to 944 B: 0 bad, 0 not stored, 0 outside the grid\n"


def test_bad_chunks_inner_chunks_and_indexes_are_named(sample: Path) -> None:
    (sample / "air/c/0/0/0").write_bytes(b"garbage")
    damage(sample / "deep/shards/c/0/0", 0, 12)
    damage(sample / "deep/shards/c/1/1", -8)
    *bad, total = records("verify", sample, code=1)
    found = {(each["key"], each["problem"], each["range"]) for each in bad}
    assert ("air/c/0/0/0", "chunk", None) in found
    assert ("deep/shards/c/1/1", "shard", "the last 68 bytes") in found
    assert [key for key, problem, _ in found if problem == "chunk" and key.startswith("deep")] == ["deep/shards/c/0/0"]
    assert total == {
        "type": "total",
        "arrays": 3,
        "objects": 13,
        "missing": 0,
        "bad": 3,
        "outside": 0,
        "other": 0,
        "bytes": 944,
    }


def test_missing_chunks_and_those_outside_of_the_grid_are_no_errors(sample: Path) -> None:
    (sample / "air/c/0/0/0").rename(sample / "air/c/0/0/7")
    *found, total = records("verify", sample)
    assert [(each["type"], each["key"]) for each in found] == [("outside", "air/c/0/0/7")]
    assert (total["missing"], total["outside"], total["bad"]) == (1, 1, 0)


def test_large_objects_are_decoded_chunk_by_chunk(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "STREAM_BYTES", 16)
    damage(sample / "deep/shards/c/0/0", 0, 12)
    *bad, total = records("verify", sample / "deep/shards", code=1)
    assert [each["key"] for each in bad] == ["c/0/0"]
    assert total["objects"] == 4


def test_unreadable_nodes_count_as_bad(sample: Path) -> None:
    (sample / "lat/zarr.json").write_text("{")
    document = (sample / "air/zarr.json").read_text()
    (sample / "air/zarr.json").write_text(document.replace('"zstd"', '"unknown"'))
    *bad, total = records("verify", sample, code=1)
    assert sorted((each["problem"], each["array"]) for each in bad) == [("store", "air"), ("store", "lat")]
    assert (total["arrays"], total["bad"]) == (1, 2)


def test_arrays_without_dimensions_and_without_elements(tmp_path: Path) -> None:
    group = aiozarr.sync.create_group(tmp_path / "odd.zarr")
    group.create_array("scalar", data=np.float64(3))
    group.create_array("empty", shape=(0, 4), dtype="i4")
    *_, total = records("verify", tmp_path / "odd.zarr")
    assert (total["arrays"], total["objects"], total["missing"]) == (2, 1, 0)


def test_verify_of_nothing_is_not_found(tmp_path: Path) -> None:
    assert invoke("verify", tmp_path / "none").exit_code == 3


def test_there_is_nothing_to_verify_without_an_array(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/notes.txt").write_text("x")
    for command in ("info", "tree", "verify"):
        result = invoke(command, tmp_path / "folder")
        assert (result.exit_code, result.stdout) == (3, "")
        assert "there is no array and no group" in result.stderr
    aiozarr.sync.create_group(tmp_path / "empty.zarr")
    result = invoke("verify", tmp_path / "empty.zarr")
    assert result.exit_code == 3
    assert "there is no array at or below" in result.stderr
