"""diff: differences between two locations."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.command_line import damage, invoke, records, succeed
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def other(sample: Path, tmp_path: Path) -> Path:
    """A copy of the sample with three differences."""
    copy = tmp_path / "copy.zarr"
    shutil.copytree(sample, copy)
    (copy / "lat/c/0").unlink()
    (copy / "extra").write_bytes(b"x")
    damage(copy / "air/c/0/0/0", 3)
    return copy


def test_equal_locations(sample: Path) -> None:
    shutil.copytree(sample, sample.parent / "same.zarr")
    assert succeed("diff", "--download", sample, sample.parent / "same.zarr").stdout == ""


def test_differences_have_the_signs_of_rclone(sample: Path, other: Path) -> None:
    result = invoke("diff", sample, other)
    assert result.exit_code == 1
    assert sorted(result.stdout.splitlines()) == ["+ lat/c/0", "- extra"]
    result = invoke("diff", "--download", sample, other)
    assert "* air/c/0/0/0: from byte 3 on" in result.stdout.splitlines()
    assert "= air/zarr.json" in invoke("diff", "-v", sample, other).stdout.splitlines()


def test_one_way_and_globs(sample: Path, other: Path) -> None:
    assert invoke("diff", "--one-way", "--exclude", "lat/*", sample, other).exit_code == 0
    *found, total = records("diff", "--include", "lat/*", sample, other, code=1)
    assert [(each["key"], each["state"], each["destination_size"]) for each in found] == [("lat/c/0", "missing", None)]
    assert total == {"type": "total", "equal": 1, "differs": 0, "missing": 1, "surplus": 0, "error": 0}


def test_nothing_on_either_side_is_not_found(sample: Path, tmp_path: Path) -> None:
    assert invoke("diff", tmp_path / "none", tmp_path / "nothing").exit_code == 3
    assert invoke("diff", sample, tmp_path / "none").exit_code == 1


def test_a_source_that_is_not_there_is_no_difference(sample: Path, tmp_path: Path) -> None:
    result = invoke("diff", tmp_path / "none", sample)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "nothing is stored at" in result.stderr


def test_the_metadata_name_the_objects_of_a_web_server(sample: Path, other: Path) -> None:
    invoke("consolidate", sample)
    invoke("consolidate", other)
    with FaultServer() as server:
        for path in sample.rglob("*"):
            if path.is_file():
                server.put(f"w.zarr/{path.relative_to(sample).as_posix()}", path.read_bytes())
        url = f"{server.url}/w.zarr"
        assert invoke("diff", url, sample).exit_code == 0
        result = invoke("diff", url, other)
        assert (result.exit_code, sorted(result.stdout.splitlines())) == (1, ["+ lat/c/0", "- extra"])
        assert "* air/c/0/0/0: from byte 3 on" in invoke("diff", "--download", url, other).stdout.splitlines()
