"""Virtual references that kerchunk, VirtualiZarr and icechunk make, beside fsspec, zarr-python and icechunk itself."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import h5py
import icechunk
import kerchunk.hdf as kerchunk_hdf
import numpy as np
import pytest
import xarray as xr
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import HTTPStore
from obstore.store import LocalStore as ObstoreLocalStore
from virtualizarr import open_virtual_mfdataset
from virtualizarr.parsers import HDFParser

import aiozarr
import aiozarr.sync
from aiozarr.errors import AiozarrError, ChangedError, DanglingReferenceError, PermissionDeniedError, StoreError
from aiozarr.integrations.icechunk import from_session
from aiozarr.integrations.virtualizarr import from_manifest_store
from aiozarr.integrations.zarr import enable
from aiozarr.stores import LocalStore, Store, from_references

# The parquet tables of `make test`, which has no package that reads them.
from tests.support.servers.http_server import FaultServer
from tests.unit.stores.reference.test_parquet_table import *  # noqa: F403


def write_hdf5(path: Path) -> None:
    """Write a file with arrays of many kinds."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        values = random.integers(0, 1000, (6, 40, 50)).astype("i4")
        file.create_dataset("packed", data=values, chunks=(1, 10, 10), compression="gzip", shuffle=True)
        file.create_dataset("plain", data=values, chunks=(2, 20, 25))
        file.create_dataset("contiguous", data=np.arange(3000, dtype="f8").reshape(30, 100))
        file.create_dataset("big_endian", data=np.arange(50, dtype=">f4"), chunks=(20,))
        file.create_dataset("scalar", data=np.float32(3.5))
        file.create_dataset("small", data=np.arange(3, dtype="u1"))
        file.create_dataset("fixed", data=np.array([b"ab", b"cde"]))
        file.create_dataset("empty", shape=(0, 4), dtype="i2", chunks=(1, 4), maxshape=(None, 4))
        filled = file.create_dataset("filled", shape=(40,), dtype="i2", chunks=(10,), fillvalue=-9)
        filled[10:20] = 1
        file.create_dataset("group/inner", data=np.arange(6))
        file["time"] = np.arange(6.0)
        file["time"].make_scale("time")
        file["packed"].dims[0].attach_scale(file["time"])


def write_netcdf(path: Path, step: int = 0, *, zlib: bool = True) -> Any:
    """Write one step of a grid; return the data set."""
    values = np.random.default_rng(step).normal(size=(1, 60, 80)).astype("f4")
    values[0, :3] = np.nan
    data = xr.Dataset(
        {"t2m": (("time", "y", "x"), values), "height": ((), np.int16(2))},
        coords={"time": [step], "y": np.arange(60.0), "x": np.arange(80.0)},
        attrs={"title": "grid"},
    )
    data.to_netcdf(path, engine="netcdf4", encoding={"t2m": {"chunksizes": (1, 20, 20), "zlib": zlib, "shuffle": True}})
    return data


def registry() -> Any:
    return ObjectStoreRegistry({"file://": ObstoreLocalStore()})


def manifests(path: Path) -> Any:
    return HDFParser()(url=path.as_uri(), registry=registry())


async def arrays_of(target: Any) -> dict[str, Any]:
    """Return all arrays of a store, read by aiozarr."""
    group = await aiozarr.open_group(target)
    return {
        name: np.asarray(await node[...])
        async for name, node in group.members(max_depth=None)
        if isinstance(node, aiozarr.Array)
    }


def assert_equals_file(found: dict[str, Any], path: Path) -> None:
    with h5py.File(path) as file:
        for name, values in found.items():
            np.testing.assert_array_equal(values, file[name][()], err_msg=name)


@pytest.mark.parametrize("threshold", [0, 200])
async def test_kerchunks_references_equal_the_file_and_fsspec(tmp_path: Path, threshold: int) -> None:
    write_hdf5(tmp_path / "a.h5")
    document = kerchunk_hdf.SingleHdf5ToZarr(str(tmp_path / "a.h5"), inline_threshold=threshold).translate()
    (tmp_path / "refs.json").write_text(json.dumps(document))
    found = await arrays_of(from_references(tmp_path / "refs.json"))
    assert {"packed", "plain", "contiguous", "scalar", "filled", "group/inner", "fixed", "big_endian"} <= found.keys()
    assert_equals_file(found, tmp_path / "a.h5")
    system = fsspec.filesystem("reference", fo=document, asynchronous=True, remote_options={"asynchronous": True})
    store = zarr.storage.FsspecStore(system, read_only=True)
    for name, values in found.items():
        if name != "empty":
            other = await (await zarr.api.asynchronous.open_array(store=store, path=name, zarr_format=2)).getitem(...)
            np.testing.assert_array_equal(values, other, err_msg=name)


async def test_parquet_references_equal_the_json_document(tmp_path: Path) -> None:
    write_netcdf(tmp_path / "a.nc")
    document = kerchunk_hdf.SingleHdf5ToZarr(str(tmp_path / "a.nc"), inline_threshold=0).translate()
    from kerchunk.df import refs_to_dataframe

    # kerchunk needs the documents of an array before its chunks.
    ordered = dict(sorted(document["refs"].items(), key=lambda item: ".z" not in item[0]))
    refs_to_dataframe({"version": 1, "refs": ordered}, str(tmp_path / "refs.parquet"), record_size=5)
    expected = await arrays_of(from_references(document, resolve={str(tmp_path): {}}))
    found = await arrays_of(from_references(tmp_path / "refs.parquet", resolve={str(tmp_path): {}}))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("kind", ["json", "parquet"])
async def test_a_grid_of_many_files_equals_xarray(tmp_path: Path, kind: str) -> None:
    for step in range(100):
        write_netcdf(tmp_path / f"{step:03}.nc", step)
    paths = [(tmp_path / f"{step:03}.nc").as_uri() for step in range(100)]
    virtual = open_virtual_mfdataset(
        paths, registry=registry(), parser=HDFParser(), combine="nested", concat_dim="time",
        loadable_variables=[], compat="override", coords="minimal", data_vars="minimal",
    )  # fmt: skip
    if kind == "parquet":
        virtual = virtual.drop_vars("height")  # VirtualiZarr 2.8 cannot write a scalar to parquet
    virtual.vz.to_kerchunk(str(tmp_path / f"refs.{kind}"), format=kind)
    target = from_references(tmp_path / f"refs.{kind}", resolve={str(tmp_path): {}})
    with (
        xr.open_mfdataset(str(tmp_path / "*.nc"), combine="nested", concat_dim="time", data_vars="minimal") as expected,
        xr.open_dataset(target, engine="aiozarr", consolidated=False) as found,
    ):
        np.testing.assert_array_equal(found["t2m"].values, expected["t2m"].values)
        np.testing.assert_array_equal(found["time"].values, expected["time"].values)
        assert found.attrs["title"] == "grid"


async def test_a_manifest_store_equals_the_file(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "a.h5")
    store = from_manifest_store(manifests(tmp_path / "a.h5"))
    found = await arrays_of(store)
    assert {"packed", "plain", "contiguous", "scalar", "filled", "group/inner"} <= found.keys()
    assert_equals_file(found, tmp_path / "a.h5")
    again = await arrays_of(manifests(tmp_path / "a.h5"))
    assert again.keys() == found.keys()
    copy = LocalStore(tmp_path / "copy.zarr")
    await aiozarr.copy(store, copy)
    os.unlink(tmp_path / "a.h5")
    copied = await arrays_of(copy)
    for name, values in found.items():
        np.testing.assert_array_equal(copied[name], values)


# --- icechunk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Any]:
    """A repository whose virtual chunks may be below the folder `data`."""
    (tmp_path / "data").mkdir()
    prefix = f"file://{tmp_path}/data/"
    config = icechunk.RepositoryConfig.default()
    container = icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(tmp_path / "data")))
    config.set_virtual_chunk_container(container)
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    return icechunk.Repository.create(storage, config, authorize_virtual_chunk_access={prefix: None})


VALUES = np.arange(40_000, dtype="i4").reshape(200, 200)


def fill(repository: Any, folder: Path, *, checksum: bool = True) -> Any:
    """Commit native, sharded, inlined, scalar and virtual arrays; return a read-only session."""
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    group.create_array("plain", shape=(200, 200), chunks=(50, 50), dtype="i4")[...] = VALUES
    group.create_array("sharded", shape=(200, 200), chunks=(10, 10), shards=(100, 100), dtype="i4")[...] = VALUES
    group.create_array("inlined", shape=(4,), chunks=(2,), dtype="i2")[...] = 7
    group.create_array("deep/scalar", shape=(), dtype="f8")[...] = 2.5
    group.create_array("partly", shape=(40,), chunks=(10,), dtype="i2", fill_value=-9)[10:20] = 1
    sharded = group["sharded"]
    stored = zarr.storage.MemoryStore()
    zarr.create_array(stored, name="s", shape=(200, 200), chunks=(10, 10), shards=(100, 100), dtype="i4")[...] = VALUES
    zarr.create_array(stored, name="p", shape=(200, 200), chunks=(20, 200), dtype="i4", compressors=None)[...] = VALUES
    for name, source in (("virtual_sharded", "s"), ("virtual", "p")):
        document = stored._store_dict[f"{source}/zarr.json"]
        zarr.create_group(session.store, path="virtual", overwrite=False) if "virtual" not in group else None
        path = f"virtual/{name}"
        like = zarr.open_array(stored, path=source)
        group.create_array(
            path,
            shape=like.shape,
            chunks=like.chunks,
            shards=like.shards,
            dtype=like.dtype,
            compressors=like.compressors,
            dimension_names=("y", "x"),
        )
        assert document is not None
        blob, specs = bytearray(b"head"), []
        modified = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1) if checksum else None
        for key, value in stored._store_dict.items():
            if key.startswith(f"{source}/c/"):
                index = [int(each) for each in key.split("/")[2:]]
                location = f"file://{folder}/data/{name}.bin"
                data = value.to_bytes()
                specs.append(icechunk.VirtualChunkSpec(index, location, len(blob), len(data), None, modified))
                blob += data
        (folder / "data" / f"{name}.bin").write_bytes(blob)
        session.store.set_virtual_refs(path, specs)
    assert sharded.shards
    session.commit("all kinds")
    return repository.readonly_session("main")


@pytest.mark.parametrize("with_storage", [False, True])
async def test_a_session_equals_zarr_python(repository: Any, tmp_path: Path, with_storage: bool) -> None:
    session = fill(repository, tmp_path)
    store = from_session(session, storage=tmp_path / "repository" if with_storage else None)
    found = await arrays_of(store)
    assert len(found) == 7
    for name, values in found.items():
        np.testing.assert_array_equal(values, zarr.open_array(session.store, path=name, mode="r")[...], err_msg=name)
    array = await aiozarr.open_array(store, "virtual/virtual_sharded")
    assert (await array[3, 150:] == VALUES[3, 150:]).all()
    names = [key async for key in session.store.list_prefix("")]
    assert sorted(await store.list()) == sorted(names)
    assert await store.list_dir("virtual/") == (["virtual/zarr.json"], ["virtual/virtual/", "virtual/virtual_sharded/"])


async def test_a_session_and_its_store_are_targets_and_can_be_copied(repository: Any, tmp_path: Path) -> None:
    session = fill(repository, tmp_path)
    await aiozarr.copy(session.store, LocalStore(tmp_path / "copy.zarr"))
    copied = await arrays_of(LocalStore(tmp_path / "copy.zarr"))
    for name, values in (await arrays_of(session.store)).items():
        np.testing.assert_array_equal(copied[name], values)
    with xr.open_dataset(session.store, engine="aiozarr", group="virtual", consolidated=False) as data:
        assert (data["virtual"].values == VALUES).all()


async def test_an_older_snapshot_is_read_as_it_was(repository: Any, tmp_path: Path) -> None:
    first = fill(repository, tmp_path)
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="plain")[0, 0] = -1
    session.commit("changed")
    now = repository.readonly_session("main")
    assert (await (await aiozarr.open_array(from_session(first), "plain"))[0, 0]).item() == 0
    assert (await (await aiozarr.open_array(from_session(now), "plain"))[0, 0]).item() == -1


async def test_a_writable_session_is_refused(repository: Any) -> None:
    with pytest.raises(ValueError, match="the session is writable"):
        from_session(repository.writable_session("main"))
    with pytest.raises(TypeError, match="expected a session of icechunk"):
        from_session(3)


async def test_an_object_that_was_replaced_before_the_session_is_refused_as_by_icechunk(
    repository: Any, tmp_path: Path
) -> None:
    session = fill(repository, tmp_path)
    path = tmp_path / "data" / "virtual.bin"
    path.write_bytes(path.read_bytes())
    later = path.stat().st_mtime + 3600
    os.utime(path, (later, later))
    array = await aiozarr.open_array(from_session(session), "virtual/virtual")
    with pytest.raises(ChangedError) as raised:
        await array[...]
    assert raised.value.target == f"file://{tmp_path}/data/virtual.bin"


async def test_a_dead_object_of_a_session_is_an_error(repository: Any, tmp_path: Path) -> None:
    session = fill(repository, tmp_path)
    (tmp_path / "data" / "virtual.bin").unlink()
    array = await aiozarr.open_array(from_session(session), "virtual/virtual")
    with pytest.raises(StoreError) as raised:
        await array[...]
    assert raised.value.target == f"file://{tmp_path}/data/virtual.bin"


async def test_a_session_without_authorisation_reads_no_virtual_chunk(repository: Any, tmp_path: Path) -> None:
    fill(repository, tmp_path, checksum=False)
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    session = icechunk.Repository.open(storage).readonly_session("main")
    array = await aiozarr.open_array(from_session(session), "virtual/virtual")
    with pytest.raises(AiozarrError):
        await array[...]
    with pytest.raises(Exception, match="virtual"):
        zarr.open_array(session.store, path="virtual/virtual", mode="r")[...]


# --- requests ---------------------------------------------------------------------------------------------------------


def stores_of(server: FaultServer, path: Path) -> dict[str, Any]:
    """Return stores of each kind for the file at `path`, which the server has too."""
    url = f"{server.url}/{path.name}"
    server.put(path.name, path.read_bytes())
    document = kerchunk_hdf.SingleHdf5ToZarr(str(path), inline_threshold=0).translate()
    text = json.dumps(document).replace(json.dumps(str(path)), json.dumps(url))
    parsed = manifests(path)
    group = vars(parsed)["_group"]
    arrays = {name: each.rename_paths(url) for name, each in group.arrays.items()}
    renamed = type(parsed)(
        type(group)(arrays=arrays, attributes={}),
        registry=ObjectStoreRegistry({server.url: HTTPStore.from_url(server.url, client_options={"allow_http": True})}),
    )
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(f"{server.url}/", icechunk.http_store({})))
    made = icechunk.Repository.create(
        icechunk.in_memory_storage(), config, authorize_virtual_chunk_access={f"{server.url}/": None}
    )
    session = made.writable_session("main")
    renamed.to_virtual_dataset(loadable_variables=[]).vz.to_icechunk(session.store)
    session.commit("references")
    return {
        "kerchunk": from_references(json.loads(text), resolve={f"{server.url}/": {}}),
        "manifests": renamed,
        "icechunk": made.readonly_session("main").store,
    }


def test_a_thousand_chunks_come_in_eight_requests(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 1000, (10, 100, 100)).astype("i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t2m", data=values, chunks=(1, 10, 10), compression="gzip", shuffle=True)
    with FaultServer() as server:
        for kind, store in stores_of(server, tmp_path / "a.h5").items():
            readers: dict[str, Callable[[], Any]] = {"aiozarr": lambda: aiozarr.sync.open_array(store, "t2m")}  # noqa: B023
            if kind != "kerchunk":
                readers["zarr-python"] = lambda: zarr.open_array(store, path="t2m", mode="r")  # noqa: B023
            for name, read in readers.items():
                for selection in (..., 3):
                    server.requests.clear()
                    with enable():
                        found = read()[selection]
                    np.testing.assert_array_equal(found, values[selection])
                    assert len(server.requests) <= (8 if selection is ... else 2), (kind, name, selection)


# --- below zarr-python ---------------------------------------------------------------------------------------------


def test_enabled_zarr_python_reads_sessions_and_manifests_by_locations(repository: Any, tmp_path: Path) -> None:
    session = fill(repository, tmp_path)
    write_hdf5(tmp_path / "a.h5")
    with enable():
        for name in ("plain", "sharded", "virtual/virtual", "virtual/virtual_sharded"):
            assert (zarr.open_array(session.store, path=name, mode="r")[...] == VALUES).all()
            assert (zarr.open_array(session.store, path=name, mode="r")[3, 150:] == VALUES[3, 150:]).all()
        with h5py.File(tmp_path / "a.h5") as file:
            store = manifests(tmp_path / "a.h5")
            for name in ("packed", "plain", "contiguous", "filled", "scalar"):
                found = zarr.open_array(store, path=name, mode="r", zarr_format=3)[...]
                np.testing.assert_array_equal(found, file[name][()])
    from aiozarr.stores.zarr_python_mapping import native_store

    assert isinstance(native_store(session.store), Store)
    assert isinstance(native_store(manifests(tmp_path / "a.h5")), Store)
    assert native_store(repository.writable_session("main").store) is None


async def test_a_manifest_store_reads_from_its_registry_only(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "a.h5")
    source = manifests(tmp_path / "a.h5")
    vars(source)["_registry"] = ObjectStoreRegistry()
    array = await aiozarr.open_array(from_manifest_store(source), "packed")
    with pytest.raises(PermissionDeniedError, match="resolve="):
        await array[...]
    allowed = from_manifest_store(source, resolve={f"file://{tmp_path}/": {}})
    assert (await (await aiozarr.open_array(allowed, "packed"))[...]).shape == (6, 40, 50)
    (tmp_path / "a.h5").unlink()
    with pytest.raises(DanglingReferenceError):
        await (await aiozarr.open_array(from_manifest_store(source, resolve={str(tmp_path): {}}), "packed"))[...]
