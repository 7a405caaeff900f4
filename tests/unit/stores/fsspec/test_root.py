"""URLs and file systems: options, secrets, identity, and missing packages."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.asyn import get_loop
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.dirfs import DirFileSystem

import aiozarr
from aiozarr.errors import StoreError, UnknownSchemeError
from aiozarr.stores import LocalStore, Range, ZipStore, from_url
from aiozarr.stores.fsspec.store import FsspecStore
from tests.support.fsspec_file_systems import AsyncFiles, Tree


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3fs://bucket/a b/c/", "s3://bucket/a b/c"),
        ("gcsfs://bucket/a", "gs://bucket/a"),
        ("tar://a/b::https://user:hidden@host/a.tar?token=hidden", "tar::https://host/a.tar!/a/b"),
    ],
)
def test_other_protocols_are_opened_by_fsspec_and_show_no_secret(url: str, shown: str) -> None:
    store = from_url(url)
    assert isinstance(store, FsspecStore)
    assert store.url == shown
    assert shown in repr(store)
    assert "hidden" not in repr((store, store.origin))


@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache", "cached"])
@pytest.mark.parametrize("url", ["{}::https://h/a", "{}::s3://b/a", "zip::{}::https://h/a.zip", "tar::{}::/a.tar"])
def test_the_caches_of_fsspec_are_refused_with_the_remedy(url: str, cache: str) -> None:
    message = f"{cache}:: is not supported.*'cache_directory': .*CacheStore"
    with pytest.raises(UnknownSchemeError, match=message):
        from_url(url.format(cache))
    with pytest.raises(UnknownSchemeError, match="cache:: is not supported"):
        FsspecStore(fsspec.filesystem(cache, target_protocol="memory"), path="a")


def test_options_reach_s3fs_in_its_own_words() -> None:
    store = FsspecStore("s3://bucket/a", region="us-east-1", key="k", secret="s", requester_pays=True, idle_timeout=3)
    assert store.fs.config_kwargs == {"retries": {"total_max_attempts": 1, "mode": "legacy"}, "read_timeout": 3}
    assert store.fs.requester_pays
    own = FsspecStore("s3://bucket/a", config_kwargs={"retries": {"max_attempts": 3}, "read_timeout": 9})
    assert own.fs.config_kwargs == {"retries": {"max_attempts": 3}, "read_timeout": 9}


def test_a_file_system_of_the_user_is_used_as_it_is() -> None:
    plain = fsspec.filesystem("s3", anon=True)
    before = dict(vars(plain))
    store = FsspecStore(plain, path="bucket/a")
    assert store.fs is plain
    assert vars(plain) == before


def test_common_options_have_our_names_for_google_too() -> None:
    assert FsspecStore("gs://bucket/a", anon=True) == FsspecStore("gcsfs://bucket/a", token="anon")
    assert FsspecStore("gs://bucket/a", anon=False) == FsspecStore("gs://bucket/a")


def test_stores_are_equal_where_file_system_and_root_are() -> None:
    one = FsspecStore("s3://bucket/a", key="k", secret="hidden")
    assert one == FsspecStore("s3fs://bucket/a/", secret="hidden", key="k")
    assert one.origin == FsspecStore("s3://bucket/b", key="k", secret="hidden").origin
    for other in (
        FsspecStore("s3://bucket/b", key="k", secret="hidden"),
        FsspecStore("s3://bucket/a", key="k", secret="other"),
        FsspecStore("s3://bucket/a"),
    ):
        assert one != other
    assert "hidden" not in repr((one, one.origin, one.identity))
    clone = pickle.loads(pickle.dumps(one))
    assert clone == one
    assert clone.fs.secret == "hidden"


def test_requests_to_two_web_servers_are_budgeted_apart() -> None:
    a, b = FsspecStore("http://a/x"), FsspecStore("http://b/x")
    assert a.origin != b.origin
    assert a.origin == FsspecStore("http://a/y").origin


def test_a_file_system_may_come_with_a_path_in_a_mapper_or_as_an_open_file() -> None:
    fs = fsspec.filesystem("memory")
    expected = FsspecStore(fs, path="/some/where")
    assert FsspecStore(fs.get_mapper("/some/where")) == expected
    assert FsspecStore(fsspec.open("memory://some/where")) == expected
    assert FsspecStore(DirFileSystem(path="/some", fs=fs), path="where") == expected
    assert FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path="some/where/") == expected
    assert FsspecStore("memory://some/where") == expected
    assert FsspecStore("dir::memory://some/where") == expected
    assert expected.url == "dir::memory:///some/where"
    assert expected.parent_store() == (FsspecStore(fs, path="/some"), "where")
    assert FsspecStore(fs, path="/some").parent_store() is None


def test_other_objects_than_file_systems_raise_type_error() -> None:
    fs = fsspec.filesystem("memory")
    with pytest.raises(TypeError, match="not int"):
        FsspecStore(5)
    with pytest.raises(TypeError, match="anon"):
        FsspecStore(fs, anon=True)
    with pytest.raises(TypeError, match="path="):
        FsspecStore("memory://a", path="b")


def test_missing_packages_and_unknown_protocols_are_named() -> None:
    with pytest.raises(ImportError, match="dropbox"):
        from_url("dropbox://x")
    with pytest.raises(UnknownSchemeError, match="nonsense"):
        FsspecStore("nonsense://x")
    with pytest.raises(UnknownSchemeError, match="nonsense"):
        FsspecStore("tar::nonsense://x")


async def test_a_file_system_is_made_by_the_first_operation_and_failing_then_is_a_store_error() -> None:
    store = from_url("ftp://user:hidden@localhost:1/data")
    assert store.url == "ftp://user@localhost:1/data"
    assert store != from_url("ftp://user:other@localhost:1/data")
    assert pickle.loads(pickle.dumps(store)) == store
    for operation in (store.get("a"), store.stat("a"), store.set("a", b"1"), store.list()):
        with pytest.raises(StoreError) as caught:
            await operation
        assert caught.value.retryable
        assert caught.value.store == store.url
        assert "hidden" not in str(caught.value)


class Unknown(fsspec.AbstractFileSystem):
    """Takes URLs as they are, and says nothing about what their parts mean."""

    protocol = "unknown-to-us"


def test_an_unknown_file_system_shows_no_secret() -> None:
    fsspec.register_implementation("unknown-to-us", Unknown, clobber=True)
    above = "unknown-to-us://"
    assert FsspecStore(f"{above}user:hidden@h/x").url == f"{above}user@h/x"
    assert FsspecStore(f"{above}h/x?signature=hidden").url == f"{above}h/x"
    assert FsspecStore(f"{above}h/x?part=1").url == f"{above}h/x?part=1"
    assert FsspecStore(Unknown(), path="user:hidden@h/x").url == f"{above}user@h/x"


def test_a_file_system_that_was_made_for_another_loop_has_a_twin_on_fsspecs_own() -> None:
    fs = AsyncFiles(space="twin", asynchronous=True)
    store = FsspecStore(fs, path="x")
    assert store.fs is not fs
    assert store.fs.loop is get_loop()
    assert store == FsspecStore(AsyncFiles(space="twin"), path="x")
    inner = DirFileSystem(path="x", fs=fs, asynchronous=True)
    assert FsspecStore(inner) == store
    assert FsspecStore(Tree(), path="x") != FsspecStore(Tree(space="b"), path="x")


def test_local_files_are_those_of_a_local_store(tmp_path: Path) -> None:
    store = FsspecStore("local://" + str(tmp_path))
    assert store.supports == replace(LocalStore(tmp_path).supports, conditional_erases=False)
    assert store.url == f"file://{tmp_path}"
    above = store.parent_store()
    assert above is not None
    assert above[0].url == f"file://{tmp_path.parent}"


async def test_local_values_are_written_whole_with_their_directories(tmp_path: Path) -> None:
    store = FsspecStore(fsspec.filesystem("file"), path=str(tmp_path / "a"))
    await store.set("b/c", b"12345")
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"12345"
    value = await store.fetch("b/c", Range(1, 2))
    assert value is not None
    assert bytes(memoryview(value.data)) == b"23"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["c"]


def test_options_of_a_protocol_are_a_mapping() -> None:
    for url in ("s3fs://b/x", "tar::s3://b/x"):
        options: dict[str, Any] = {"s3": 1}
        with pytest.raises(TypeError, match="under 's3' must be a mapping"):
            FsspecStore(url, **options)


def test_options_under_no_protocol_are_for_the_first_link() -> None:
    s3 = {"endpoint_url": "http://h", "key": "k", "secret": "s", "region": "eu-west-1"}
    store = FsspecStore("tar::s3://b/x.tar", compression="gzip", s3=s3)
    assert store == FsspecStore("tar::s3://b/x.tar", tar={"compression": "gzip"}, s3=s3)
    assert store != FsspecStore("tar::s3://b/x.tar", compression="gzip", s3={**s3, "key": "other"})
    with pytest.raises(ValueError, match="'key' is given twice"):
        FsspecStore("s3fs://b/x", key="a", s3={"key": "b"})


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("tar::s3://b/x", {"key": "k"}, r"'key' belongs to the link s3::.*\{'s3': \{'key': \.\.\.\}\}"),
        ("tar::gs://b/x", {"anon": True}, r"'anon' belongs to the link gs::"),
        (
            "tar::http://h/x",
            {"s3": {"anon": True}},
            r"under .s3. match no link of the chain",
        ),
        ("ftp://h/x", {"idle_timeout": 3}, "use the file system's own option, such as timeout= or client_kwargs="),
        (
            "tar::http://h/x",
            {"http": {"connect_timeout": 3}},
            "use the file system's own option, such as timeout= or client_kwargs=",
        ),
    ],
)
def test_an_option_that_fsspec_would_ignore_is_refused_with_the_way_to_give_it(
    url: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        from_url(url, **options)


def test_other_classes_accept_options_that_they_do_not_declare() -> None:
    fsspec.register_implementation("treetest", Tree, clobber=True)
    assert FsspecStore("treetest://x", space="a", more=1).fs.storage_options == {"space": "a", "more": 1}


def test_file_systems_in_a_file_need_the_file() -> None:
    with pytest.raises(TypeError, match="'fo'"):
        FsspecStore("tar://x")


def test_references_are_not_opened_by_fsspec() -> None:
    for url in ("reference://", "reference::memory://refs.json"):
        with pytest.raises(TypeError, match="from_references open"):
            FsspecStore(url, fo={"version": 1, "refs": {}})


def test_the_conformance_suite_says_that_it_needs_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "aiozarr.testing.conformance"
    importlib.import_module(module)
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(ImportError, match="install pytest"):
        importlib.import_module(module)


@pytest.fixture
async def tree(tmp_path: Path) -> Path:
    async with ZipStore(tmp_path / "c.zip", "w") as archive:
        made = await aiozarr.create_array(archive, "a/b", shape=4, dtype="i4", chunks=2)
        await made[...].write(7)
    with zipfile.ZipFile(tmp_path / "c.zip") as packed, tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in packed.namelist():
            member = tarfile.TarInfo(name)
            member.size = len(packed.read(name))
            tar.addfile(member, io.BytesIO(packed.read(name)))
    return tmp_path


@pytest.mark.parametrize("url", ["tar::{}/a.tar", "tar://::file://{}/a.tar"])
async def test_the_url_of_a_node_in_an_archive_of_fsspecs_opens_that_node(url: str, tree: Path) -> None:
    group = await aiozarr.open_group(url.format(tree))
    array = await group.open("a/b")
    assert isinstance(array, aiozarr.Array)
    again = await aiozarr.open_array(array.url)
    assert again.url == array.url
    assert (await again[...]).tolist() == [7] * 4


async def test_the_url_of_a_node_in_fsspecs_memory_opens_that_node() -> None:
    for store in (FsspecStore(fsspec.filesystem("memory"), path="urls/x"), FsspecStore(fsspec.filesystem("memory"))):
        made = await aiozarr.create_array(store, "urls/a", shape=4, dtype="i4", fill_value=3)
        again = await aiozarr.open_array(made.url)
        assert again.url == made.url
        assert (await again[...]).tolist() == [3] * 4


async def test_the_url_of_a_node_among_references_opens_that_node_with_the_references() -> None:
    memory = fsspec.filesystem("memory")
    await aiozarr.create_array(FsspecStore(memory, path="refs"), "a", shape=4, dtype="i4", fill_value=3)
    refs = {"version": 1, "refs": {"a/zarr.json": memory.cat_file("/refs/a/zarr.json").decode()}}
    for store in (from_url("reference://", fo=refs), FsspecStore(fsspec.filesystem("reference", fo=refs))):
        array = await aiozarr.open_array(store, "a")
        assert array.url == "reference://a"
        again = await aiozarr.open_array(array.url, storage_options={"fo": refs})
        assert (await again[...]).tolist() == [3] * 4
        with pytest.raises(TypeError, match="'fo'"):
            await aiozarr.open_array(array.url)
