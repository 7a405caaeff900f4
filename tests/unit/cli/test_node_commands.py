"""info, tree, consolidate and plan."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import invoke, records, succeed


def test_info_of_an_array_shows_its_facts(sample: Path) -> None:
    text = succeed("info", sample / "air").stdout
    assert "shape            : (4, 6, 8)" in text
    assert "dimension names  : time, lat, lon" in text
    assert "objects stored   : 8" in text


def test_info_of_a_group_shows_attributes_on_request(sample: Path) -> None:
    assert "sample" not in succeed("info", sample).stdout.splitlines()[-1]
    assert json.loads(succeed("info", "-a", sample).stdout.partition("\n\n")[2]) == {"title": "sample"}
    assert records("info", sample)[0]["attributes"] == {"title": "sample"}


def test_info_of_nothing_is_not_found(tmp_path: Path) -> None:
    result = invoke("info", tmp_path / "none")
    assert result.exit_code == 3
    assert "no array and no group" in result.stderr


def test_tree_shows_arrays_with_shape_and_type(sample: Path) -> None:
    assert succeed("tree", sample).stdout == (
        "/\n├── air (4, 6, 8) float32\n├── deep\n│   └── shards (8, 8) int16\n└── lat (6,) float64\n"
    )


def test_tree_stops_at_a_level(sample: Path) -> None:
    assert "shards" not in succeed("tree", "-L", "1", sample).stdout
    assert {each["path"] for each in records("tree", "-L", "1", sample)} == {"", "air", "deep", "lat"}


def test_tree_of_an_array_is_one_line(sample: Path) -> None:
    assert succeed("tree", sample / "air").stdout == "/ (4, 6, 8) float32\n"
    assert [each["kind"] for each in records("tree", sample / "air")] == ["array"]


def test_tree_shows_nodes_that_cannot_be_read(sample: Path) -> None:
    (sample / "lat/zarr.json").write_text("{")
    assert "lat (cannot be read: " in succeed("tree", sample).stdout
    [lat] = [each for each in records("tree", sample) if each["path"] == "lat"]
    assert lat["kind"] == "unreadable"
    assert "JSON" in lat["error"]


def test_consolidate_counts_the_nodes(sample: Path) -> None:
    result = succeed("consolidate", sample)
    assert result.stdout == ""
    assert "consolidated metadata of 4 nodes" in result.stderr
    assert records("consolidate", sample)[0]["nodes"] == 4


def test_consolidate_of_an_array_is_refused(sample: Path) -> None:
    assert invoke("consolidate", sample / "air").exit_code == 1


def test_plan_shows_bounds_and_with_probe_the_exact_requests(sample: Path) -> None:
    assert "2 chunks" in succeed("plan", sample / "air", "-s", "time=0,lat=0").stdout
    [bounds] = records("plan", sample / "deep/shards", "-s", "0:2,0:2")
    [exact] = records("plan", "--probe", sample / "deep/shards", "-s", "0:2,0:2")
    assert not bounds["exact"]
    assert exact["exact"]
    assert exact["bytes_wanted"] < bounds["bytes"]
    assert exact["rows"][0]["key"].endswith("c/0/0")


def test_plan_of_a_group_names_its_arrays(sample: Path) -> None:
    result = invoke("plan", sample)
    assert result.exit_code == 1
    assert "its arrays are air, lat" in result.stderr
