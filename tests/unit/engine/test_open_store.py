"""From a target and settings to its store: what the settings add to the storage options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiozarr.sync
from aiozarr.engine.open_store import make_store
from aiozarr.settings import Settings
from aiozarr.stores import HTTPStore, ZipStore
from aiozarr.stores.http.web_store import WebStore
from aiozarr.stores.schemes import REMOTE_STORES
from aiozarr.stores.zip.remote_zip import RemoteZipStore


@pytest.mark.parametrize(
    ("options", "idle", "connect"),
    [
        ({}, 7, 7),
        ({"idle_timeout": 5}, 5, 7),
        ({"idle_timeout": 5, "connect_timeout": 4}, 5, 4),
        ({"https": {"idle_timeout": 5}}, 5, 7),
        ({"https": {"idle_timeout": 5}, "connect_timeout": 3}, 5, 3),
        ({"timeout": 5}, 5, 5),
    ],
)
@pytest.mark.parametrize("url", ["https://h/x", "zip::https://h/x.zip", "https://h/x.zip"])
def test_the_settings_say_how_long_a_server_may_take_unless_the_options_do(
    url: str, options: dict[str, Any], idle: float, connect: float
) -> None:
    store = make_store(url, options, Settings(idle_timeout=7))
    if isinstance(store, ZipStore):
        assert isinstance(store, RemoteZipStore)
        store = store._store
    assert isinstance(store, HTTPStore)
    endpoint = store._client.sender.endpoint
    assert (endpoint.idle_timeout, endpoint.connect_timeout) == (idle, connect)


@pytest.mark.parametrize("scheme", REMOTE_STORES)
def test_each_scheme_of_a_server_has_archives_and_the_timeout_of_the_settings(scheme: str) -> None:
    options = {"account_name": "a", "anon": True} if "az" in scheme or "abfs" in scheme else {}
    archive = make_store(f"{scheme}://bucket/a.zip", options, Settings(idle_timeout=7))
    assert isinstance(archive, RemoteZipStore)
    assert isinstance(archive._store, WebStore)
    assert archive._store._client.sender.endpoint.idle_timeout == 7


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (dict, "MemoryStore"),
        (lambda: pytest.importorskip("fsspec").get_mapper("memory://a"), "FsspecStore"),
        (lambda: pytest.importorskip("fsspec").filesystem("memory"), "FsspecStore"),
    ],
    ids=["dict", "mapper", "file system"],
)
def test_stores_of_other_libraries_are_answered_with_what_to_open(target: Callable[[], Any], advice: str) -> None:
    with pytest.raises(TypeError, match=rf"obspec's methods, not \w+; .*{advice}"):
        make_store(target(), None, Settings())


def test_objects_of_zarr_python_are_targets(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    from zarr.storage import LocalStore, LoggingStore, MemoryStore

    for inner in (MemoryStore(), LoggingStore(MemoryStore(), log_level="CRITICAL"), LocalStore(tmp_path)):
        group = zarr.open_group(inner, mode="w")
        array = group.create_array("a/b", shape=(4,), dtype="i4", chunks=(2,))
        array[...] = [1, 2, 3, 4]
        for target, name in ((inner, "a/b"), (group, "a/b"), (group["a"], "b"), (group["a"]._async_group, "b")):
            opened = aiozarr.sync.open_group(target)
            assert opened[name][...].tolist() == [1, 2, 3, 4]
        assert aiozarr.sync.open_array(array)[1:3].tolist() == [2, 3]
        assert list(aiozarr.sync.open_group(inner).keys()) == ["a"]
        with pytest.raises(TypeError, match="storage_options need a URL"):
            make_store(inner, {"anon": True}, Settings())
