"""Options of stores, and objects in locations."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from aiozarr.cli.targets import ParsedType, TargetOptions, is_remote, parent_and_key, parse_key_value
from tests.support.command_line import invoke, succeed


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("s3://bucket/a.zarr/zarr.json", ("s3://bucket/a.zarr", "zarr.json")),
        ("s3://bucket/a.zarr/", ("s3://bucket/a.zarr/", "")),
        ("s3://bucket", ("s3://bucket", "")),
        ("a.zarr/zarr.json", ("a.zarr", "zarr.json")),
        ("zarr.json", (".", "zarr.json")),
        ("/zarr.json", ("/", "zarr.json")),
        ("https://host/a.zarr/c/0?sig=a/b", ("https://host/a.zarr/c?sig=a/b", "0")),
        ("zip::s3://bucket/a.zip", ("zip::s3://bucket", "a.zip")),
    ],
)
def test_the_location_of_an_object(target: str, expected: tuple[str, str]) -> None:
    assert parent_and_key(target) == expected


@pytest.mark.parametrize(
    ("target", "remote"),
    [("s3://b/a", True), ("zip::https://h/a.zip", True), ("a/b", False), ("file:///a", False), ("memory://a", False)],
)
def test_remote_targets(target: str, remote: bool) -> None:
    assert is_remote(target) is remote


def test_options_of_a_copy_go_to_remote_targets_and_to_their_side() -> None:
    options = TargetOptions({"anon": True}, {"region": "a"}, {"region": "b"})
    assert options.of("s3://b/x", "source") == {"anon": True, "region": "a"}
    assert options.of("/tmp/x", "destination") == {"region": "b"}
    assert options.of("/tmp/x") == {"anon": True}


def test_values_of_options_are_text_unless_they_are_json_words_or_mappings() -> None:
    convert = ParsedType("KEY=VALUE", parse_key_value).convert
    assert convert("anon=true", None, None) == ("anon", True)
    assert convert("key=0123", None, None) == ("key", "0123")
    assert convert("key=a=b", None, None) == ("key", "a=b")
    assert convert('s3={"anon": true}', None, None) == ("s3", {"anon": True})
    assert convert("key={x", None, None) == ("key", "{x")
    with pytest.raises(click.BadParameter):
        convert("anon", None, None)


def test_an_unknown_option_of_a_store_is_a_usage_error(sample: Path) -> None:
    result = invoke("ls", sample, "--storage-option", "anon=true")
    assert result.exit_code == 2
    assert "unknown storage options anon" in result.stderr
    succeed("ls", sample, "--storage-option", "fsync=true")


def test_a_path_has_its_name_as_it_is_and_a_url_percent_encoded(tmp_path: Path) -> None:
    plain, encoded = tmp_path / "a b", tmp_path / "a%20b"
    plain.write_bytes(b"plain")
    encoded.write_bytes(b"encoded")
    url = tmp_path.as_uri()
    shown = [invoke("cat", target).stdout for target in (plain, encoded, f"{url}/a%20b", f"{url}/a%2520b")]
    assert shown == ["plain", "encoded", "plain", "encoded"]
    assert succeed("cat", "--key", "a%20b", tmp_path).stdout == "encoded"
    succeed("cp", encoded, tmp_path / "x%20y")
    succeed("cp", encoded, f"{url}/z%20z")
    (tmp_path / "d").mkdir()
    succeed("cp", encoded, f"{tmp_path / 'd'}/")
    succeed("cp", "--overwrite", f"{url}/a%2520b", f"{url}/d/")
    succeed("rm", encoded)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert found == ["a b", "d/a%20b", "x%20y", "z z"]
