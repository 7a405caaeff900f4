"""convert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr.sync
from aiozarr.cli.convert_commands import parse_lengths, parse_size
from tests.support.command_line import invoke, records, succeed


def test_convert_rechunks_and_casts_by_the_names_of_dimensions(sample: Path, tmp_path: Path) -> None:
    succeed("convert", sample / "air", tmp_path / "out.zarr", "--chunks", "time=1,lat=6", "--dtype", "float64")
    found = aiozarr.sync.open_array(tmp_path / "out.zarr")
    assert found.chunks == (1, 6, 4)
    assert found.dtype == np.dtype("f8")
    np.testing.assert_array_equal(found[...], aiozarr.sync.open_array(sample, "air")[...])


def test_convert_of_a_tree_to_another_format(sample: Path, tmp_path: Path) -> None:
    [report] = records("convert", sample, tmp_path / "v2.zarr", "--zarr-format", "2", "--shards", "none")
    assert report["arrays"] == 3
    assert aiozarr.sync.open_group(tmp_path / "v2.zarr").zarr_format == 2


def test_convert_keeps_the_format_and_the_shards_unless_told_otherwise(tmp_path: Path) -> None:
    aiozarr.sync.create_array(tmp_path / "two", data=np.arange(60), chunks=(10,), zarr_format=2)
    aiozarr.sync.create_array(tmp_path / "three", data=np.arange(60), chunks=(10,), shards=(20,))
    succeed("convert", "--chunks", "5", tmp_path / "two", tmp_path / "other2")
    succeed("convert", "--chunks", "5", tmp_path / "three", tmp_path / "other3")
    found = [aiozarr.sync.open_array(tmp_path / name) for name in ("other2", "other3")]
    assert [(each.zarr_format, each.chunks, each.shards) for each in found] == [(2, (5,), None), (3, (5,), (20,))]
    refused = invoke("convert", "--shards", "auto", tmp_path / "two", tmp_path / "new")
    assert "--zarr-format is not given" in refused.stderr
    refused = invoke("convert", "--chunks", "30", tmp_path / "three", tmp_path / "new")
    assert "--shards is not given" in refused.stderr
    assert "--shards none stores chunks without shards" in refused.stderr
    assert not (tmp_path / "new").exists()


def test_convert_of_a_part_with_other_codecs(sample: Path, tmp_path: Path) -> None:
    codec = '{"name": "gzip", "configuration": {"level": 1}}'
    succeed("convert", sample / "air", tmp_path / "out.zarr", "-s", "time=0:2,lat=-30..30", "--codec", codec)
    found = aiozarr.sync.open_array(tmp_path / "out.zarr")
    assert [each.name for each in found.metadata.codecs] == ["bytes", "gzip"]
    np.testing.assert_array_equal(found[...], aiozarr.sync.open_array(sample, "air")[0:2, 1:5])


def test_a_dry_run_prints_the_plan(sample: Path, tmp_path: Path) -> None:
    arguments = ("convert", "-n", sample / "air", tmp_path / "out.zarr", "--chunks", "4,1,1")
    assert "tasks" in succeed(*arguments).stdout
    [plan] = records(*arguments)
    assert plan["arrays"] == 1
    assert plan["stages"][0]["shape"] == [4, 6, 8]
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["convert", "{tmp}/none", "{tmp}/out"], 3),
        (["convert", "{sample}", "{tmp}/out", "--chunks", "depth=1"], 2),
        (["convert", "{sample}/air", "{tmp}/out", "--chunks", "x"], 2),
        (["convert", "{sample}/air", "{tmp}/out", "--codec", "{{"], 2),
        (["convert", "{sample}/air", "{tmp}/out", "--max-memory", "much"], 2),
        (["convert", "{sample}/air", "{sample}/lat"], 1),
    ],
)
def test_errors_of_conversions(arguments: list[str], code: int, sample: Path, tmp_path: Path) -> None:
    result = invoke(*[each.format(sample=sample, tmp=tmp_path) for each in arguments])
    assert result.exit_code == code, result.output
    assert result.stderr


def test_a_failed_conversion_says_how_it_continues(sample: Path, tmp_path: Path) -> None:
    chunk, result = sample / "lat/c/0", tmp_path / "out.zarr"
    good = chunk.read_bytes()
    chunk.write_bytes(b"damaged")
    advice = "--resume continues"
    for options, code in (([], 1), (["--resume"], 1), (["--overwrite", "--on-error", "continue"], 6)):
        failed = invoke("convert", sample, result, *options)
        assert (failed.exit_code, advice in failed.stderr) == (code, True), failed.stderr
        assert advice in invoke("tree", result).stderr
    assert (result / "air/zarr.json").exists()
    chunk.write_bytes(good)
    succeed("convert", sample, result, "--resume")
    assert not (result / "__aiozarr__").exists()
    assert succeed("tree", result).stdout == succeed("tree", sample).stdout


@pytest.mark.parametrize(("text", "size"), [("512", 512), ("512M", 512 << 20), ("2GiB", 2 << 30), ("1.5k", 1536)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "lengths"),
    [("24,90", (24, 90)), ("time=24, lat=-1", {"time": 24, "lat": -1}), ("auto", "auto"), ("none", False), ("7", (7,))],
)
def test_lengths(text: str, lengths: Any) -> None:
    assert parse_lengths(text) == lengths
