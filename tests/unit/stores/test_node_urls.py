"""The URL of a node opens that node, for all names and locations, and has one spelling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from aiozarr.errors import NodeNotFoundError
from aiozarr.stores import FsspecStore, HTTPStore, LocalStore, MemoryStore, PrefixStore, ReadOnlyStore, Store, ZipStore
from aiozarr.stores.urls import from_url
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3

S3 = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:1", "region": "us-east-1"}
KEYS = {"key": "k", "secret": "s"}
AZURE = {"account_name": "name", "anon": True}
GCS = {"token": "anon"}

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "/\\")
NAMES = [
    *(f"a{character}b" for character in PRINTABLE),
    *(f"{character}x" for character in PRINTABLE if character != "."),
    *(
        "t%3A2m",
        "100%",
        "ü",
        "漢字",
        "😀",
        "n m",
        "a::b",
        "s3:x",
        "x!",
        "a.zip",
        "A.ZIP",
        "a.zip!",
        "b.zip?c",
        "!",
        "%",
    ),
]

Maker = Callable[[str], tuple[Store, dict[str, Any]]]

BUCKETS: dict[str, Maker] = {
    "s3": lambda root: (from_url(f"s3://bucket{root}/", **S3), S3),
    "gs": lambda root: (from_url(f"gs://bucket{root}/", **GCS), GCS),
    "az": lambda root: (from_url(f"az://bucket{root}/", **AZURE), AZURE),
}
STORES: dict[str, Maker] = {
    **BUCKETS,
    "memory": lambda root: (MemoryStore.named("n m", unquote(root[1:] and root[1:] + "/")), {}),
    "local": lambda root: (LocalStore(f"/no-such-root{root}"), {}),
    "prefix in s3": lambda root: (PrefixStore(BUCKETS["s3"](root)[0], "a b/c%20d"), S3),
    "read-only in s3": lambda root: (ReadOnlyStore(BUCKETS["s3"](root)[0]), S3),
    "zip": lambda root: (ZipStore(f"/no-such-root{root}/b c.zip"), {}),
    "zip in a zip's directory": lambda root: (ZipStore(f"/no-such-root{root}/b.zip/c.zip"), {}),
    "zip in s3": lambda root: (ZipStore(BUCKETS["s3"](root)[0], key="arch ive.zip"), S3),
    "zip in gs": lambda root: (ZipStore(BUCKETS["gs"](root)[0], key="arch%20ive.zip"), GCS),
    "zip in az": lambda root: (ZipStore(BUCKETS["az"](root)[0], key="arch?ive.zip"), AZURE),
    "zip of another name": lambda root: (ZipStore(BUCKETS["s3"](f"{root}/a!")[0], key="x y"), S3),
    "zip in http": lambda root: (ZipStore(HTTPStore("http://host/a%20b"), key="arch ive.zip"), {}),
    "fsspec, s3fs": lambda root: (FsspecStore(f"s3fs://bucket{root}", **KEYS), S3),
    "fsspec, local": lambda root: (FsspecStore(f"dir::file:///no{root}"), {}),
}


@pytest.mark.parametrize("root", ["", "/w t", "/%20", "/t.zip", "/a#b?c"])
@pytest.mark.parametrize("kind", STORES)
def test_the_url_of_any_node_leads_back_to_it(kind: str, root: str) -> None:
    store, options = STORES[kind](root)
    # Every character at the plain root; below others, a sample shows that the root is encoded too.
    for name in NAMES[::7] if root else NAMES:
        # What is called so is an archive on disk, unless it is a directory.
        if kind.endswith("local") and ".zip" in name.lower():
            continue
        # Segments are encoded one by one: above and below another one at the plain root alone.
        for path in (name,) if root else (name, f"g/{name}", f"{name}/inner"):
            check(store, path, options)


@pytest.mark.parametrize("kind", STORES)
@given(name=st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\\ufffe\uffff"), min_size=1))
def test_the_url_of_a_node_of_any_name_leads_back_to_it(kind: str, name: str) -> None:
    if len(name.encode()) > 200 or not name.strip(".") or name.endswith(".") or name.startswith("__") or "::" in name:
        return
    if kind.endswith("local") and ".zip" in name.lower():
        return
    store, options = STORES[kind]("/p")
    check(store, name, options)


def check(store: Store, path: str, options: dict[str, Any]) -> None:
    url = store.url_of(path)
    found = from_url(url, **options)
    assert found.url == url
    below = store.url_of(f"{path}/k")
    again = from_url(below, **options)
    assert (again.url, found.url_of("k")) == (below, below)
    if isinstance(store, ZipStore):
        assert isinstance(found, ZipStore)
        assert found.identity == _seen_from(store, path)
    names: list[str] = []
    for _ in path.split("/"):
        above = found.parent_store()
        assert above is not None
        found, name = above
        names.insert(0, name)
    assert "/".join(names) == path
    if type(found) is type(store):
        assert (found.object_identity("k"), found.url) == (store.object_identity("k"), store.url)


def _seen_from(store: ZipStore, path: str) -> object:
    identity = store.identity
    assert isinstance(identity, tuple)
    return (*identity[:-1], f"{identity[-1]}{path}/")


ODD = [*NAMES[::9], "t:2m", "t%3A2m", "a.zip", "B.ZIP", "a.zip!", "n m", "ü"]


async def check_nodes(group: aiozarr.Group, options: dict[str, Any]) -> None:
    """Write one array under each odd name, and see that its URL opens that one and no other."""
    arrays = {}
    for index, name in enumerate(dict.fromkeys(ODD)):
        array = arrays[name] = await group.create_array(name, shape=(1,), dtype="int32")
        await array[...].write(index)
    for index, array in enumerate(arrays.values()):
        async with await aiozarr.open_array(array.url, storage_options=options) as found:
            assert (found.url, int((await found[...])[0])) == (array.url, index)


async def test_nodes_of_odd_names_are_found_by_their_urls_on_disk(tmp_path: Path) -> None:
    await check_nodes(await aiozarr.create_group(tmp_path / "a b%20c"), {})


async def test_nodes_of_odd_names_are_found_by_their_urls_in_memory() -> None:
    await check_nodes(await aiozarr.create_group("memory://odd%20names/g.zip"), {})


async def test_nodes_of_odd_names_are_found_by_their_urls_in_a_bucket(s3_server: LocalS3) -> None:
    s3_server.create_bucket("odd-names")
    options = s3_server.storage_options
    await check_nodes(await aiozarr.create_group("s3://odd-names/a b%20c.zip/", storage_options=options), options)


async def test_nodes_of_odd_names_are_found_by_their_urls_in_an_archive(tmp_path: Path, s3_server: LocalS3) -> None:
    async with await aiozarr.create_group(tmp_path / "a b.zip") as group:
        for index, name in enumerate(dict.fromkeys(ODD)):
            await (await group.create_array(name, shape=(1,), dtype="int32"))[...].write(index)
    s3_server.create_bucket("odd-archives")
    options = s3_server.storage_options
    bucket = from_url("s3://odd-archives/d.zip/", **options)
    await bucket.set("a b%20.zip", (tmp_path / "a b.zip").read_bytes())
    for place in (str(tmp_path / "a b.zip"), "zip::s3://odd-archives/d.zip/a b%20.zip!"):
        given = options if "::" in place else {}
        async with await aiozarr.open_group(place, storage_options=given) as group:
            for index, name in enumerate(dict.fromkeys(ODD)):
                url = (await group.open(name)).url
                async with await aiozarr.open_array(url, storage_options=given) as found:
                    assert (found.url, int((await found[...])[0])) == (url, index)


async def test_nodes_of_odd_names_are_found_by_their_urls_on_the_web(tmp_path: Path) -> None:
    group = await aiozarr.create_group(tmp_path / "g")
    for index, name in enumerate(dict.fromkeys(ODD)):
        await (await group.create_array(name, shape=(1,), dtype="int32"))[...].write(index)
    files = {entry.key: await group.store.get(entry.key) for entry in [each async for each in group.store.scan()]}
    with FaultServer({f"w t/{key}": bytes(value) for key, value in files.items() if value is not None}) as server:
        async with await aiozarr.open_group(f"{server.url}/w%20t") as served:
            for index, name in enumerate(dict.fromkeys(ODD)):
                url = (await served.open(name)).url
                async with await aiozarr.open_array(url) as found:
                    assert (found.url, int((await found[...])[0])) == (url, index)


async def test_a_url_in_zip_opens_an_archive_and_with_a_slash_a_directory(s3_server: LocalS3) -> None:
    s3_server.create_bucket("zip-or-not")
    options = s3_server.storage_options
    group = await aiozarr.create_group("s3://zip-or-not/g", storage_options=options)
    member = await group.create_group("a.zip")
    assert member.url == "s3://zip-or-not/g/a.zip/"
    assert isinstance(from_url("s3://zip-or-not/g/a.zip", **options), ZipStore)
    with pytest.raises(NodeNotFoundError):
        await aiozarr.open_group("s3://zip-or-not/g/a.zip", storage_options=options)


@pytest.mark.parametrize("path", ["s3:/weather/x", "S3:/weather", "file:/x", "https:/host/x"])
def test_a_url_that_lacks_a_slash_is_not_a_path(path: str) -> None:
    with pytest.raises(ValueError, match=f"{path.partition(':')[0]}:// *"):
        from_url(path, endpoint_url="http://127.0.0.1:1")
    assert isinstance(from_url(f"./{path}"), LocalStore)
