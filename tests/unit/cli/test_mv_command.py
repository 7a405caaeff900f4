"""mv: a node gets another name in its store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aiozarr.sync
from tests.support.command_line import invoke, records, succeed


def test_a_node_moves_with_its_chunks_and_the_consolidated_metadata_of_all_groups_above(sample: Path) -> None:
    values = aiozarr.sync.open_array(sample, "deep/shards")[...]
    succeed("consolidate", sample)
    succeed("mv", sample / "deep/shards", sample / "deep/moved")
    assert succeed("mv", sample / "deep", sample / "new/deep").stderr == f"{sample}/deep -> {sample}/new/deep\n"
    assert not (sample / "deep").exists()
    group = aiozarr.sync.open_group(sample)
    assert group.metadata.consolidated is not None
    assert sorted(group.metadata.consolidated.nodes) == ["air", "lat", "new", "new/deep", "new/deep/moved"]
    np.testing.assert_array_equal(group["new/deep/moved"][...], values)


def test_relative_paths_urls_and_json(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sample.parent)
    assert records("mv", "sample.zarr/air", f"file://{sample}/wind/") == [
        {"source": "sample.zarr/air", "destination": f"file://{sample}/wind/"}
    ]
    aiozarr.sync.create_group("memory://mv/a.zarr").create_array("x", data=[1, 2])
    succeed("mv", "memory://mv/a.zarr/x", "memory://mv/a.zarr/y")
    assert succeed("tree", "memory://mv/a.zarr").stdout == "/\n└── y (2,) int64\n"


@pytest.mark.parametrize(
    ("source", "destination", "code", "words"),
    [
        ("sample.zarr/none", "sample.zarr/new", 3, "none"),
        ("sample.zarr/air", "sample.zarr/lat", 1, "something else is already stored at sample.zarr/lat, and mv never"),
        ("sample.zarr/air", "sample.zarr/lat/air", 1, "array"),
        ("sample.zarr/deep", "sample.zarr/deep/er", 2, "one contains the other"),
        ("sample.zarr", "sample.zarr", 2, "one contains the other"),
        ("sample.zarr", "other.zarr", 3, "not in the same store; use cp and then rm -r"),
        ("sample.zarr/air", "empty/air", 3, "not in the same store; use cp and then rm -r"),
        ("sample.zarr/air", "s3://bucket/air", 2, "not in the same store; use cp and then rm -r"),
        ("s3://one/air", "s3://two/air", 2, "not in the same store; use cp and then rm -r"),
    ],
)
def test_a_move_that_is_refused_changes_nothing(
    source: str, destination: str, code: int, words: str, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sample.parent)
    before = sorted(sample.parent.rglob("*"))
    result = invoke("mv", source, destination)
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert words in result.stderr
    assert sorted(sample.parent.rglob("*")) == before
