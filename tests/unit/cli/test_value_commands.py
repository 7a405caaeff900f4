"""cat: values, and bytes of objects."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import aiozarr.sync
from aiozarr.cli import value_commands
from tests.support.command_line import invoke, succeed


def test_cat_of_an_object_writes_its_bytes(sample: Path) -> None:
    assert succeed("cat", sample / "zarr.json").stdout_bytes == (sample / "zarr.json").read_bytes()
    assert succeed("cat", sample, "--key", "air/c/0/0/0").stdout_bytes == (sample / "air/c/0/0/0").read_bytes()


def test_cat_of_a_part_of_an_object(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_commands, "PART_BYTES", 10)
    data = (sample / "zarr.json").read_bytes()
    assert succeed("cat", sample / "zarr.json").stdout_bytes == data
    assert succeed("cat", "--offset", "5", "--count", "25", sample / "zarr.json").stdout_bytes == data[5:30]
    assert succeed("cat", "--count", "0", sample / "zarr.json").stdout_bytes == b""


def test_cat_of_an_array_writes_rows(sample: Path) -> None:
    assert succeed("cat", sample / "air", "-s", "0,0:2,0:3").stdout == "0.0 1.0 2.0\n8.0 9.0 10.0\n"


def test_cat_reads_slab_by_slab(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = succeed("cat", sample / "air").stdout
    monkeypatch.setattr(value_commands, "SLAB_BYTES", 100)
    assert succeed("cat", sample / "air").stdout == whole
    view = aiozarr.sync.open_array(sample, "air")._async[...]
    assert [(start, part.shape) for start, part in value_commands.slabs(view)] == [(0, (2, 6, 8)), (2, (2, 6, 8))]


def test_cat_writes_a_numpy_file(sample: Path, tmp_path: Path) -> None:
    expected = np.arange(192, dtype="f4").reshape(4, 6, 8)
    result = succeed("cat", "-f", "npy", sample / "air")
    np.testing.assert_array_equal(np.load(io.BytesIO(result.stdout_bytes)), expected)
    succeed("cat", "-f", "npy", "-o", tmp_path / "air.npy", "-s", "lat=2", sample / "air")
    np.testing.assert_array_equal(np.load(tmp_path / "air.npy"), expected[:, 2])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["none"], 3),
        (["air", "-s", "9"], 1),
        (["air", "--key", "none"], 4),
        (["."], 1),
        (["air", "-s", "0", "--key", "zarr.json"], 2),
        (["air", "--json", "-f", "csv"], 2),
        (["air", "-o", "/dev/null/none"], 1),
    ],
)
def test_errors_of_cat(arguments: list[str], code: int, sample: Path) -> None:
    result = invoke("cat", sample / arguments[0], *arguments[1:])
    assert result.exit_code == code, result.output
    assert result.stderr
    assert not result.stdout


def test_cat_of_an_archive_shows_the_values_in_it(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with aiozarr.sync.create_array(str(archive), data=[1, 2]):
        pass
    assert succeed("cat", archive).stdout == "1\n2\n"
    assert succeed("cat", "--key", "a.zip", tmp_path).stdout_bytes == archive.read_bytes()
