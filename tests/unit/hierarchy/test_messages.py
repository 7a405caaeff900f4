"""What a message says when something common went wrong: the thing, the fault, the remedy, and no internal key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.model import CONVERSION_JOURNAL_KEY, JOURNAL_HEADER_KEY
from aiozarr.stores import MemoryStore, from_url

ONCE = aiozarr.Settings(retries=0)
S3 = {"key": "k", "secret": "s", "region": "us-east-1"}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://127.0.0.1:9/x", {}),
        ("s3://b/x", {**S3, "endpoint_url": "http://127.0.0.1:9"}),
        ("gs://bucket/x", {"anon": True, "endpoint_url": "http://127.0.0.1:9"}),
    ],
)
async def test_a_refused_connection_names_the_server_and_no_key(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(aiozarr.StoreError, match=r"no connection to 127\.0\.0\.1:9: ") as caught:
        await aiozarr.open(url, storage_options=options, settings=ONCE)
    assert caught.value.key is None
    assert caught.value.store == url


async def test_a_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(aiozarr.StoreError, match=r"the name 'data\.invalid' does not resolve"):
        await aiozarr.open("http://data.invalid/x", settings=ONCE)


async def test_a_file_where_a_node_or_a_directory_should_be_is_named(tmp_path: Path) -> None:
    file = tmp_path / "data.nc"
    file.write_bytes(b"CDF")
    with pytest.raises(aiozarr.NodeNotFoundError, match="there is a file of this name, and a node is a directory"):
        await aiozarr.open(file)
    with pytest.raises(aiozarr.NodeNotFoundError, match=rf"'{file}' is a file, and a node is a directory"):
        await aiozarr.open(tmp_path, "data.nc/a")


async def test_the_sibling_that_was_meant_is_named_by_url_too(tmp_path: Path) -> None:
    for place in (str(tmp_path), "memory://test_messages/siblings"):
        await aiozarr.create_array(f"{place}/temperature", shape=1, dtype="i1")
        with pytest.raises(aiozarr.NodeNotFoundError, match=r"did you mean 'temperature'\?"):
            await aiozarr.open(f"{place}/temprature")
        with pytest.raises(aiozarr.NodeNotFoundError, match=r"/pressure(; the directory does not exist)?$"):
            await aiozarr.open(f"{place}/pressure")


@pytest.mark.parametrize(("work", "journal"), [("copy", JOURNAL_HEADER_KEY), ("conversion", CONVERSION_JOURNAL_KEY)])
async def test_an_unfinished_destination_is_no_misspelled_name(work: str, journal: str, tmp_path: Path) -> None:
    for place in (f"{tmp_path}/unfinished", f"memory://test_messages/{work}/unfinished"):
        await from_url(place).set(journal, b"{}")
        expected = rf"/unfinished; an unfinished {work} is stored there: the same {work} with resume=True continues it$"
        with pytest.raises(aiozarr.NodeNotFoundError, match=expected):
            await aiozarr.open(place)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"codecs": ["bytes", "zsdt"]}, r"unknown codec 'zsdt'; did you mean 'zstd'\? To add one"),
        ({"codecs": ["bytes", "gzp"]}, r"unknown codec 'gzp'; did you mean 'gzip'\? "),
        ({"codecs": ["nothing.like.it"]}, r"unknown codec 'nothing.like.it'; none of the \d+ known names"),
        ({"zarr_format": 2, "compressor": {"id": "zsdt"}}, r"unknown numcodecs codec 'zsdt'; did you mean 'zstd'\?"),
    ],
)
async def test_the_codec_that_was_meant_is_named(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(aiozarr.UnsupportedMetadataError, match=expected):
        await aiozarr.create_array(MemoryStore(), shape=1, dtype="i4", **options)


def test_the_storage_option_that_was_meant_is_named() -> None:
    with pytest.raises(TypeError, match=r"unknown storage option 'anonn' for an S3 store; did you mean 'anon'\?$"):
        from_url("s3://b/x", anonn=True)
    with pytest.raises(
        TypeError, match="unknown storage option 'qqq' for an S3 store; the reference of storage options lists all"
    ):
        from_url("s3://b/x", qqq=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no file system that creates nothing")
async def test_a_tree_in_which_no_directory_can_be_made_is_no_reason_to_try_again() -> None:
    with aiozarr.record() as report, pytest.raises(aiozarr.StoreError, match="writing failed") as caught:
        await aiozarr.create_array("/proc/aiozarr/a", shape=1, dtype="i1")
    assert not caught.value.retryable
    assert report.retries == 0


@pytest.mark.parametrize("mode", ["r+", "w-", "rb", "r+b"])
async def test_a_mode_in_the_place_of_the_path_is_refused(mode: str) -> None:
    for opens in (aiozarr.open, aiozarr.open_array, aiozarr.open_group):
        with pytest.raises(TypeError, match=f"looks like a mode: write mode='{mode.replace('+', '.')}'"):
            await opens(MemoryStore(), mode)


@pytest.mark.parametrize("mode", ["r", "w", "a"])
async def test_a_path_that_is_missing_and_could_be_a_mode_is_explained(mode: str) -> None:
    with pytest.raises(aiozarr.NodeNotFoundError, match=f"a mode is given as mode='{mode}'"):
        await aiozarr.open_array(MemoryStore(), mode)


@pytest.mark.parametrize(
    ("module", "url", "options", "extra"),
    [
        ("fsspec", "ftp://host/x", {}, "pip install fsspec"),
        ("botocore", "s3://b/x", {"profile": "p"}, "pip install botocore"),
        ("google.auth", "gs://b/x", {"token": "google_default"}, "pip install google-auth requests"),
    ],
)
async def test_a_module_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, url: str, options: dict[str, Any], extra: str
) -> None:
    (tmp_path / "config").write_text("[profile p]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")] or [module]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises((ImportError, aiozarr.AiozarrError, ValueError), match=extra):
        await aiozarr.open(url, storage_options=options, settings=ONCE)
