"""cp and sync."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aiozarr.sync
from aiozarr.cli import copy_commands
from aiozarr.common.progress import Progress
from aiozarr.model import Entry
from aiozarr.stores import LocalStore
from tests.support.command_line import invoke, records, succeed


def files(root: Path) -> dict[str, bytes]:
    """The files below a folder, without journals."""
    found = {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".aiozarr")}


def test_cp_makes_the_destination_a_copy(sample: Path, tmp_path: Path) -> None:
    result = succeed("cp", sample, tmp_path / "copy.zarr")
    assert files(tmp_path / "copy.zarr") == files(sample)
    assert result.stdout == ""
    assert result.stderr.startswith(f"{len(files(sample))} objects (5 metadata documents)")


def test_cp_reports_as_json_and_quietly(sample: Path, tmp_path: Path) -> None:
    [report] = records("cp", "-q", sample, tmp_path / "copy.zarr")
    assert report["objects"] == len(files(sample))
    assert report["bytes"] == sum(map(len, files(sample).values()))
    assert report["failed"] == []
    assert succeed("cp", "-q", "--overwrite", sample, tmp_path / "copy.zarr").output == ""


def test_cp_refuses_a_destination_that_holds_objects(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/other").write_bytes(b"x")
    result = invoke("cp", sample, tmp_path / "taken")
    assert result.exit_code == 1
    assert "such as 'other'; --overwrite replaces" in result.stderr
    assert "to bring an existing copy up to date, use sync" in result.stderr
    assert "overwrite=True" not in result.stderr
    succeed("cp", "--overwrite", sample, tmp_path / "taken")
    assert files(tmp_path / "taken") == files(sample) | {"other": b"x"}


def test_cp_of_a_node(sample: Path, tmp_path: Path) -> None:
    succeed("cp", sample / "deep/shards", tmp_path / "shards.zarr")
    assert files(tmp_path / "shards.zarr") == files(sample / "deep/shards")


@pytest.mark.parametrize(
    ("name", "created"), [("new.json", "new.json"), ("folder/", "folder/zarr.json"), (".", "zarr.json")]
)
def test_cp_of_one_object(name: str, created: str, sample: Path, tmp_path: Path) -> None:
    succeed("cp", sample / "zarr.json", f"{tmp_path}/{name}")
    assert (tmp_path / created).read_bytes() == (sample / "zarr.json").read_bytes()
    result = invoke("cp", sample / "zarr.json", f"{tmp_path}/{name}")
    assert result.exit_code == 1
    assert "--overwrite replaces it" in result.stderr
    succeed("cp", "--overwrite", "--verify", "checksum", sample / "zarr.json", f"{tmp_path}/{name}")


def test_cp_of_one_object_keeps_one_that_another_process_has_stored_meanwhile(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = tmp_path / "new.json"
    stat_now = LocalStore._stat_now

    def stat_before_the_other_process(store: LocalStore, key: str) -> Entry | None:
        entry = stat_now(store, key)
        if key.endswith("new.json"):
            new.write_text("theirs")
        return entry

    monkeypatch.setattr(LocalStore, "_stat_now", stat_before_the_other_process)
    result = invoke("cp", sample / "zarr.json", new)
    assert result.exit_code == 1
    assert "new.json already exists; --overwrite replaces it" in result.stderr
    assert new.read_text() == "theirs"


def test_cp_of_one_object_of_another_store() -> None:
    aiozarr.sync.create_array("memory://cli-one/a", data=np.arange(3))
    succeed("cp", "memory://cli-one/a/zarr.json", "memory://cli-one/b.json")
    assert succeed("cat", "memory://cli-one/b.json").stdout == succeed("cat", "memory://cli-one/a/zarr.json").stdout


def test_cp_with_globs(sample: Path, tmp_path: Path) -> None:
    succeed("cp", sample, tmp_path / "some", "--include", "lat/*", "--include", "air/*", "--exclude", "air/c/1/*")
    assert set(files(tmp_path / "some")) == {
        name for name in files(sample) if name.startswith(("lat/", "air/")) and not name.startswith("air/c/1/")
    }


def test_dry_runs_write_nothing(sample: Path, tmp_path: Path) -> None:
    *planned, report = records("cp", "-n", sample, tmp_path / "copy.zarr")
    assert {each["key"] for each in planned if each["action"] == "copy"} == set(files(sample))
    assert report["dry_run"]
    assert report["objects"] == len(files(sample))
    succeed("cp", "-n", sample / "zarr.json", tmp_path / "one.json")
    assert not (tmp_path / "copy.zarr").exists()
    assert not (tmp_path / "one.json").exists()


def test_sync_replaces_and_deletes(sample: Path, tmp_path: Path) -> None:
    succeed("cp", sample, tmp_path / "mirror")
    (tmp_path / "mirror/extra").write_bytes(b"x")
    (sample / "lat/c/0").write_bytes(b"changed")
    succeed("sync", sample, tmp_path / "mirror")
    assert files(tmp_path / "mirror") == files(sample) | {"extra": b"x"}
    assert succeed("sync", "-n", "--delete", sample, tmp_path / "mirror").stdout == "delete extra\n"
    [report] = records("sync", "--delete", sample, tmp_path / "mirror")
    assert (report["deleted"], report["objects"]) == (1, 0)
    assert files(tmp_path / "mirror") == files(sample)


def test_a_finished_copy_that_is_resumed_says_that_all_is_there(sample: Path, tmp_path: Path) -> None:
    succeed("cp", sample, tmp_path / "copy.zarr")
    result = succeed("cp", "--resume", sample, tmp_path / "copy.zarr")
    assert result.stderr == f"{tmp_path / 'copy.zarr'} already has all {len(files(sample))} objects\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["{none}", "{new}"], 3),
        (["{sample}", "{sample}/inside"], 2),
        (["{sample}", "nope://x"], 2),
        (["{sample}", "{new}", "--resume", "--verify", "sometimes"], 2),
        (["{sample}", "{new}", "--max-requests", "0"], 2),
        (["{sample}"], 2),
    ],
)
def test_errors_of_cp(arguments: list[str], code: int, sample: Path, tmp_path: Path) -> None:
    places = {"sample": sample, "none": tmp_path / "none", "new": tmp_path / "new"}
    result = invoke("cp", *[each.format(**places) for each in arguments])
    assert result.exit_code == code, result.output
    assert result.stderr


def test_an_object_that_fails_is_named_and_the_others_are_copied(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.zarr/lat/c/0/x").mkdir(parents=True)
    result = invoke("cp", "--overwrite", "--on-error", "continue", sample, tmp_path / "copy.zarr")
    assert result.exit_code == 6, result.output
    assert "'lat/c/0'" in result.stderr
    assert "the copied objects are kept; the same command with --resume continues" in result.stderr
    assert (tmp_path / "copy.zarr/air/zarr.json").exists()
    assert not (tmp_path / "copy.zarr/zarr.json").exists()
    quiet = invoke("cp", "-q", "--overwrite", "--on-error", "continue", sample, tmp_path / "copy.zarr")
    assert quiet.stderr.startswith("aiozarr: lat/c/0: ")


def test_a_damaged_archive_is_no_object_to_copy(tmp_path: Path) -> None:
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04 and no directory at the end")
    result = invoke("cp", tmp_path / "cut.zip", tmp_path / "copy.zarr")
    assert result.exit_code == 1
    assert "not a zip archive" in result.stderr
    assert not (tmp_path / "copy.zarr").exists()


def test_sync_compares_sizes_alone_on_request(sample: Path, tmp_path: Path) -> None:
    succeed("cp", sample, tmp_path / "copy.zarr")
    chunk = tmp_path / "copy.zarr/lat/c/0"
    good = chunk.read_bytes()
    chunk.write_bytes(bytes(len(good)))
    [report] = records("sync", "--size-only", "--delete", sample, tmp_path / "copy.zarr")
    assert (report["objects"], report["requests"]) == (0, 0)
    [report] = records("sync", sample, tmp_path / "copy.zarr")
    assert report["objects"] == 1
    assert chunk.read_bytes() == good


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_link_that_leads_nowhere_ends_copies_and_checks_by_an_error(
    sample: Path, tmp_path: Path, quiet: tuple[str, ...]
) -> None:
    succeed("cp", sample, tmp_path / "copy.zarr")
    before = files(tmp_path / "copy.zarr")
    (sample / "lat/c/0").unlink()
    (sample / "lat/c/0").symlink_to("nowhere")
    for command in (("sync", "--delete"), ("cp", "--overwrite"), ("diff",)):
        result = invoke(*command, *quiet, sample, tmp_path / "copy.zarr")
        assert result.exit_code == 1
        assert "lat/c/0" in result.output
        assert "the link cannot be followed" in result.output
    result = invoke("sync", "--delete", "--on-error", "continue", *quiet, sample, tmp_path / "copy.zarr")
    assert result.exit_code == 6
    assert files(tmp_path / "copy.zarr") == before


def test_the_report_of_a_small_copy_has_its_bytes_in_a_unit_that_shows_them(sample: Path, tmp_path: Path) -> None:
    size = sum(map(len, files(sample / "lat").values()))
    assert f"{size} B in " in succeed("cp", sample / "lat", tmp_path / "lat.zarr").stderr


def test_progress_says_comparing_until_something_is_copied() -> None:
    assert copy_commands._title(Progress(10, 20, 0, 0)) == "comparing"
    assert copy_commands._title(Progress(11, 20, 8, 8)) == "copying"
