"""The storage option `cache_directory`: a cache on disk for callers that have a URL only."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.stores import CacheStore, MemoryStore, Store, from_url, register_store
from aiozarr.stores import urls as openers
from tests.support.command_line import invoke, succeed
from tests.support.servers.http_server import FaultServer

VALUES = np.arange(40).reshape(4, 10)
CREDENTIALS = {"key": "k", "secret": "s", "region": "us-east-1"}


@pytest.fixture
async def server() -> Any:
    memory, packed = MemoryStore(), io.BytesIO()
    group = await aiozarr.create_group(memory)
    await group.create_array("v", data=VALUES, chunks=(2, 10), codecs=[], dimension_names=("y", "x"))
    await aiozarr.consolidate_metadata(memory)
    with FaultServer() as running:
        with zipfile.ZipFile(packed, "w") as archive:
            for key in await memory.list():
                data = bytes(await memory.get(key) or b"")
                running.put(f"a.zarr/{key}", data)
                archive.writestr(key, data)
        running.put("a.zip", packed.getvalue())
        yield running


def methods(server: FaultServer) -> set[str]:
    found = {request.method for request in server.requests}
    server.requests.clear()
    return found


@pytest.mark.parametrize("url", ["{}/a.zarr", "zip::{}/a.zip", "{}/a.zip"])
async def test_a_second_reader_only_asks_whether_values_have_changed(
    url: str, server: FaultServer, tmp_path: Path
) -> None:
    directory = tmp_path / "cache"
    for expected in ({"GET", "HEAD"}, {"HEAD"}):
        async with aiozarr.open_group(url.format(server.url), storage_options={"cache_directory": directory}) as group:
            array = await group.open("v")
            assert np.array_equal(await array[...], VALUES)
        assert methods(server) <= expected
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


async def test_a_replaced_value_is_read_again(server: FaultServer, tmp_path: Path) -> None:
    for values in (VALUES, VALUES + 1):
        server.put("a.zarr/v/c/0/0", values[:2].tobytes())
        array = await aiozarr.open_array(f"{server.url}/a.zarr/v", storage_options={"cache_directory": str(tmp_path)})
        assert np.array_equal(await array[:2], values[:2])


@pytest.mark.parametrize("url", ["s3://b/a", "s3a://b/a", "gs://b/a", "az://box/a", "http://h/a", "https://h/a"])
def test_every_remote_scheme_has_the_option(url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "s3": CREDENTIALS,
        "g": {"anon": True},
        "az": {"account_name": "n", "account_key": "azE="},
    }
    given = next((value for start, value in options.items() if url.startswith(start)), {})
    store = from_url(url, cache_directory=tmp_path, **given)
    assert isinstance(store, CacheStore)
    assert store == CacheStore(from_url(url, **given), openers.MAX_CACHE_BYTES, tmp_path)
    assert from_url(url, cache_directory=None, **given) == from_url(url, **given)


def test_it_may_be_under_the_name_of_the_protocol_and_in_the_home_directory(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = from_url("s3://b/a", cache_directory=tmp_path / "c", **CREDENTIALS)
    assert from_url("s3://b/a", s3={"cache_directory": "~/c"}, **CREDENTIALS) == expected


def test_stores_of_other_packages_have_it_too(tmp_path: Path) -> None:
    @register_store("cached-here")
    def open_store(url: str, **options: Any) -> Store:
        assert not options
        return MemoryStore()

    try:
        assert isinstance(from_url("cached-here://a", cache_directory=tmp_path), CacheStore)
    finally:
        del openers._OPENERS["cached-here"]


@pytest.mark.parametrize("url", ["{}/a", "file://{}/a", "{}/a.zip", "zip::{}/a.zip", "memory://a", "reference::{}/r"])
def test_a_local_store_refuses_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cache_directory is for remote stores; leave it out"):
        from_url(url.format(tmp_path), cache_directory=tmp_path)


def test_file_systems_of_fsspec_refuse_it_because_their_values_have_no_versions(tmp_path: Path) -> None:
    for url in ("s3fs://b/a", "ftp://h/a", "tar::https://h/a.tar"):
        with pytest.raises(TypeError, match=r"have no versions, .* CacheStore\(.*max_age"):
            from_url(url, cache_directory=tmp_path)
    with pytest.raises(TypeError, match="cache_directory must be a path, not int"):
        from_url("https://h/a", cache_directory=5)
    with pytest.raises(ValueError, match="the directory of a cache must not be empty and must not contain NUL"):
        from_url("https://h/a", cache_directory="")


def test_both_doors_xarray_and_the_command_line_have_it(server: FaultServer, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    url, options = f"{server.url}/a.zarr", {"cache_directory": str(tmp_path / "cache")}
    option = f"cache_directory={tmp_path / 'cache'}"
    assert np.array_equal(aiozarr.sync.open_array(url, "v", storage_options=options)[...], VALUES)
    opened = xarray.open_dataset(url, engine="aiozarr", storage_options=options)
    assert np.array_equal(opened["v"].values, VALUES)
    # A missing document is not cached, and a store with another root has other values.
    for expected in ({"GET"}, {"HEAD"}):
        server.requests.clear()
        assert succeed("cat", "-s", "0,1", f"{url}/v", "--storage-option", option).stdout == "1\n"
        assert {request.method for request in server.requests if "/c/" in request.key} == expected
    refused = invoke("cat", "-s", "0,1", tmp_path, "--storage-option", option)
    assert "cache_directory is for remote stores" in refused.stderr
