"""Stores of zarr-python map to stores of aiozarr where that is exact, and to an adapter otherwise."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import obstore.store
import pytest
import zarr.storage

from aiozarr import stores
from aiozarr.integrations.zarr import Store
from aiozarr.stores.obspec_store import ObspecStore
from aiozarr.stores.zarr_python_mapping import engine_store, native_store
from aiozarr.stores.zarr_python_store import AdaptedStore, BufferStore


def s3_file_system(**options: Any) -> Any:
    s3fs = pytest.importorskip("s3fs")
    return s3fs.S3FileSystem(asynchronous=True, skip_instance_cache=True, **options)


def test_local_memory_and_own_stores(tmp_path: Path) -> None:
    assert native_store(zarr.storage.LocalStore(tmp_path)) == stores.LocalStore(tmp_path)
    own = stores.MemoryStore()
    assert native_store(Store(own)) is own
    values: dict[str, Any] = {}
    first, second = native_store(zarr.storage.MemoryStore(values)), native_store(zarr.storage.MemoryStore(values))
    assert isinstance(first, BufferStore)
    assert first == second
    assert first != native_store(zarr.storage.MemoryStore())


def test_archives_that_are_complete(tmp_path: Path) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as archive:
        zarr.create_array(archive, shape=(4,), dtype="i4")[...] = 1
        assert native_store(archive) is None
    complete = zarr.storage.ZipStore(tmp_path / "a.zip", mode="r", read_only=True)
    assert isinstance(native_store(complete), stores.ZipStore)


@pytest.mark.filterwarnings("ignore")
def test_file_systems_whose_options_the_own_clients_have() -> None:
    fs = s3_file_system(anon=True, endpoint_url="http://127.0.0.1:1", client_kwargs={"region_name": "us-east-1"})
    found = native_store(zarr.storage.FsspecStore(fs, path="bucket/a.zarr"))
    assert isinstance(found, stores.ObjectStore)
    assert found.url == "s3://bucket/a.zarr"
    http = pytest.importorskip("fsspec.implementations.http").HTTPFileSystem(asynchronous=True)
    found = native_store(zarr.storage.FsspecStore(http, path="http://127.0.0.1:1/a.zarr"))
    assert isinstance(found, stores.HTTPStore)


@pytest.mark.filterwarnings("ignore")
def test_other_options_are_asked_through_fsspec_and_other_file_systems_themselves() -> None:
    fsspec = pytest.importorskip("fsspec")
    fs = s3_file_system(anon=True, s3_additional_kwargs={"unheard": "of"})
    assert isinstance(native_store(zarr.storage.FsspecStore(fs, path="bucket/a")), stores.FsspecStore)
    wrapper = pytest.importorskip("fsspec.implementations.asyn_wrapper").AsyncFileSystemWrapper
    memory = wrapper(fsspec.filesystem("memory"), asynchronous=True)
    assert native_store(zarr.storage.FsspecStore(memory, path="/a")) is None
    taken = zarr.storage.FsspecStore(s3_file_system(anon=True), path="bucket/a", allowed_exceptions=(OSError,))
    assert native_store(taken) is None


def test_stores_of_obstore(tmp_path: Path) -> None:
    def native(store: Any) -> Any:
        return native_store(zarr.storage.ObjectStore(store))

    assert native(obstore.store.LocalStore(tmp_path)) == stores.LocalStore(tmp_path)
    web = native(obstore.store.HTTPStore.from_url("http://127.0.0.1:1/a.zarr", client_options={"allow_http": True}))
    assert isinstance(web, stores.HTTPStore)
    options = {"region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"}
    bucket = native(obstore.store.S3Store("bucket", prefix="a", **options))
    assert isinstance(bucket, stores.ObjectStore)
    assert bucket.url.rstrip("/") == "s3://bucket/a"
    assert isinstance(native(obstore.store.MemoryStore()), ObspecStore)
    provided = obstore.store.S3Store("bucket", region="us-east-1", credential_provider=dict)
    assert isinstance(native(provided), ObspecStore)


def test_wrappers_and_subclasses_are_asked_themselves(tmp_path: Path) -> None:
    class Own(zarr.storage.LocalStore):
        pass

    assert native_store(Own(tmp_path)) is None
    assert native_store(zarr.storage.LoggingStore(zarr.storage.LocalStore(tmp_path))) is None


async def test_the_mapping_is_kept_as_long_as_the_store(tmp_path: Path) -> None:
    from aiozarr.stores import zarr_python_mapping

    loop = asyncio.get_running_loop()
    store = zarr.storage.LocalStore(tmp_path)
    assert engine_store(store, loop) is engine_store(store, loop)
    wrapper = zarr.storage.LoggingStore(store, log_level="CRITICAL")
    assert isinstance(engine_store(wrapper, loop), AdaptedStore)
    assert engine_store(wrapper, loop) == engine_store(wrapper, loop)
    numbers = {id(store), id(wrapper)}
    del store, wrapper
    gc.collect()
    assert not numbers & set(zarr_python_mapping._mapped)
