"""ls and rm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import aiozarr.sync
from tests.support.command_line import invoke, records, succeed
from tests.support.servers.http_server import FaultServer


def test_ls_shows_one_level_with_prefixes_first(sample: Path) -> None:
    assert succeed("ls", sample).stdout.splitlines() == ["air/", "deep/", "lat/", "zarr.json"]


def test_ls_recursive_shows_the_size_of_every_object(sample: Path) -> None:
    lines = [line.split() for line in succeed("ls", "-r", sample).stdout.splitlines()]
    assert {key: int(size) for size, key in lines} == {
        str(file.relative_to(sample)): file.stat().st_size for file in sample.rglob("*") if file.is_file()
    }


def test_ls_long_and_json_have_sizes_and_versions(sample: Path) -> None:
    size = (sample / "zarr.json").stat().st_size
    assert succeed("ls", "-l", sample).stdout.splitlines()[-1].split()[0] == str(size)
    found = records("ls", sample)[-1]
    assert found == {"type": "object", "key": "zarr.json", "size": size, "version": found["version"]}
    assert found["version"]


def test_ls_of_one_object_shows_it(sample: Path) -> None:
    assert succeed("ls", sample / "zarr.json").stdout == "zarr.json\n"


@pytest.mark.parametrize("command", [["ls"], ["ls", "-r"]])
def test_a_place_without_objects_is_not_found(command: list[str], tmp_path: Path) -> None:
    result = invoke(*command, tmp_path / "none")
    assert result.exit_code == 3
    assert result.stderr == f"aiozarr: nothing is stored at {tmp_path / 'none'}\n"


def test_names_of_objects_cannot_control_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2Jb").write_bytes(b"x")
    assert succeed("ls", tmp_path).stdout == "a\\x1b[2Jb\n"


def test_ls_long_shows_size_and_version_of_one_object_of_a_server_that_cannot_list(sample: Path) -> None:
    with FaultServer() as server:
        server.put("w.zarr/zarr.json", data := (sample / "zarr.json").read_bytes())
        [found] = records("ls", f"{server.url}/w.zarr/zarr.json")
        assert (found["key"], found["size"]) == ("zarr.json", len(data))
        assert found["version"]
        result = invoke("ls", f"{server.url}/w.zarr/none")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "HTTPStore cannot list objects" in result.stderr


def test_rm_removes_one_object_only(sample: Path) -> None:
    succeed("rm", sample / "air/c/0/0/0")
    assert not (sample / "air/c/0/0/0").exists()
    assert (sample / "air/c/0/0/1").exists()


def test_rm_of_a_node_needs_recursive(sample: Path) -> None:
    result = invoke("rm", sample / "air")
    assert result.exit_code == 4
    assert "--recursive" in result.stderr
    assert (sample / "air/zarr.json").exists()


@pytest.fixture(params=[2, 3])
def consolidated(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A consolidated group with the arrays `a`, `b/c` and `b/d`."""
    root = tmp_path / f"consolidated{request.param}.zarr"
    group = aiozarr.sync.create_group(root, zarr_format=request.param)
    for path in ("a", "b/c", "b/d"):
        group.create_array(path, data=[1, 2])
    succeed("consolidate", root)
    return root


def consolidated_paths(root: Path) -> list[str]:
    """Return the paths of the consolidated nodes of a group."""
    consolidated = aiozarr.sync.open_group(root).metadata.consolidated
    assert consolidated is not None
    return sorted(consolidated.nodes)


def test_rm_recursive_removes_a_node_and_updates_consolidated_metadata(consolidated: Path) -> None:
    succeed("rm", "-r", consolidated / "b")
    assert not (consolidated / "b").exists()
    assert consolidated_paths(consolidated) == ["a"]


def test_rm_recursive_of_an_archive_removes_its_file_and_of_a_node_in_it_keeps_the_file(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with aiozarr.sync.create_group(str(archive)) as group:
        group.create_array("x", data=[1, 2])
    succeed("rm", "-r", f"{archive}/x")
    assert succeed("ls", archive).stdout == "zarr.json\n"
    succeed("rm", "-r", archive)
    assert not archive.exists()


def test_rm_dry_run_removes_nothing(sample: Path) -> None:
    before = sorted(sample.rglob("*"))
    result = succeed("rm", "-r", "-n", sample / "lat")
    assert sorted(result.stdout.split()) == ["c/0", "zarr.json"]
    assert "would remove 2 objects" in result.stderr
    assert sorted(sample.rglob("*")) == before


def test_rm_names_all_that_it_removes_as_json(sample: Path) -> None:
    sizes = {str(file.relative_to(sample)): file.stat().st_size for file in sample.rglob("*") if file.is_file()}
    *removed, total = records("rm", "-r", sample)
    assert {each["key"] for each in removed} == set(sizes)
    assert all(each["removed"] for each in removed)
    assert total == {"type": "total", "objects": len(sizes), "bytes": sum(sizes.values()), "removed": True}
    assert not sample.exists()


def test_rm_with_globs_removes_what_matches(sample: Path) -> None:
    *removed, _ = records("rm", "-r", "--include", "air/c/*", "--exclude", "air/c/1/*", sample)
    assert sorted(each["key"] for each in removed) == [f"air/c/0/{i}/{j}" for i in range(2) for j in range(2)]
    assert not (sample / "air/c/0/0/0").exists()
    assert (sample / "air/c/1/0/0").exists()


@pytest.mark.parametrize(
    ("globs", "left"),
    [
        (["--include", "b/c/*"], ["a", "b", "b/d"]),
        (["--include", "b/*", "--exclude", "b/c/*"], ["a", "b", "b/c"]),
        (["--include", "b/*"], ["a"]),
        (["--include", "*/c/0", "--include", "*/0"], ["a", "b", "b/c", "b/d"]),
    ],
)
def test_rm_with_globs_updates_consolidated_metadata(globs: list[str], left: list[str], consolidated: Path) -> None:
    succeed("rm", "-r", *globs, consolidated)
    assert consolidated_paths(consolidated) == left
    succeed("consolidate", consolidated)
    assert consolidated_paths(consolidated) == left


def test_rm_with_globs_below_a_node_updates_the_groups_above_it(consolidated: Path) -> None:
    succeed("rm", "-r", "--include", "c/*", consolidated / "b")
    assert consolidated_paths(consolidated) == ["a", "b", "b/d"]


def test_rm_with_globs_of_a_whole_group_leaves_no_document_of_it(consolidated: Path) -> None:
    succeed("rm", "-r", "--include", "*", consolidated)
    assert [path for path in consolidated.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("arguments", [["-r"], ["-r", "--include", "*"], []])
def test_rm_of_nothing_is_an_error(arguments: list[str], tmp_path: Path) -> None:
    assert invoke("rm", *arguments, tmp_path / "none").exit_code in (3, 4)


def test_rm_refuses_globs_for_one_object(sample: Path) -> None:
    assert invoke("rm", "--include", "*", sample / "zarr.json").exit_code == 2


def test_rm_says_that_names_are_left_which_are_no_keys(sample: Path) -> None:
    os.rename(sample / "lat", os.fsencode(sample) + b"/l\xe4t")
    result = invoke("rm", "-r", sample)
    assert result.exit_code == 1
    assert r"not everything was removed: l\xe4t remain" in result.stderr
    assert os.listdir(os.fsencode(sample)) == [b"l\xe4t"]
