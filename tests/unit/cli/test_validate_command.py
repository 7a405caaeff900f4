"""validate: findings with severities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import aiozarr.sync
from tests.support.command_line import invoke, records, succeed


def change(file: Path, **members: object) -> None:
    """Change members of a document."""
    file.write_text(json.dumps(json.loads(file.read_text()) | members))


def test_a_good_tree_has_no_findings(sample: Path) -> None:
    succeed("consolidate", sample)
    result = succeed("validate", sample)
    assert result.stdout == ""
    assert result.stderr == "5 nodes: 0 errors, 0 warnings, 0 notes\n"


def test_findings_have_a_severity_and_name_the_member(sample: Path) -> None:
    (sample / "lat/zarr.json").write_text("{")
    change(sample / "air/zarr.json", fill_value=None)
    change(sample / "deep/shards/zarr.json", codecs=[{"name": "zsdt"}])
    (sample / ".zgroup").write_text('{"zarr_format": 2}')
    (sample / "deep/zarr.json").unlink()
    *findings, total = records("validate", sample, code=1)
    assert {(each["severity"], each["rule"], each["path"], each["member"]) for each in findings} == {
        ("error", "invalid", "lat", None),
        ("error", "unsupported", "deep/shards", "codecs[0].name"),
        ("warning", "lenient", "air", "fill_value"),
        ("warning", "formats", "", None),
        ("note", "implicit", "deep", None),
    }
    assert total == {"type": "total", "nodes": 5, "error": 2, "warning": 2, "note": 1}


def test_outdated_consolidated_metadata_are_a_warning(sample: Path) -> None:
    succeed("consolidate", sample)
    change(sample / "air/zarr.json", attributes={"later": 1})
    (sample / "lat/zarr.json").unlink()
    (sample / "lat/c/0").unlink()
    (sample / "lat/c").rmdir()
    (sample / "lat").rmdir()
    aiozarr.sync.create_array(sample.parent / "new.zarr", data=np.arange(3))
    (sample.parent / "new.zarr").rename(sample / "new")
    *findings, _ = records("validate", sample)
    texts = {each["path"]: each["message"] for each in findings if each["rule"] == "consolidated"}
    assert set(texts) == {"air", "lat", "new"}
    assert "differ" in texts["air"]
    assert "not stored" in texts["lat"]
    assert "do not have this node" in texts["new"]
    assert invoke("validate", "--strict", sample).exit_code == 1


def test_an_unreadable_root_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_text("[]")
    result = invoke("validate", tmp_path)
    assert result.exit_code == 1
    assert result.stdout.startswith("error   /zarr.json: ")
    assert invoke("validate", tmp_path / "none").exit_code == 3


def test_an_array_is_checked_with_its_codecs(sample: Path) -> None:
    change(sample / "air/zarr.json", chunk_grid={"name": "hexagonal", "configuration": {}})
    *findings, _ = records("validate", sample / "air", code=1)
    assert [(each["rule"], each["path"]) for each in findings] == [("unsupported", "")]
