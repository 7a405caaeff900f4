"""References name locations of their document's own origin, and those that the user allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError
from aiozarr.stores.reference.guard import ReferenceGuard
from tests.support.servers.http_server import FaultServer

WEB = ReferenceGuard("http://data.example:8080/a/refs.json")
BUCKET = ReferenceGuard("s3://bucket/a/refs.json", named=("https://files.example/era5/",))
MEMORY = ReferenceGuard(None)
IPV6 = ReferenceGuard("http://[2001:db8:0:0:0:0:0:1]/refs.json")


@pytest.mark.parametrize(
    ("guard", "target", "allowed"),
    [
        (WEB, "http://data.example:8080/b/1.nc", True),
        (WEB, "HTTP://DATA.example:8080/b/1.nc", True),
        (WEB, "http://data.example/b/1.nc", False),
        (WEB, "https://data.example:8080/b/1.nc", False),
        (WEB, "http://data.example:8080@169.254.169.254/", False),
        (WEB, "http://169.254.169.254/latest", False),
        (WEB, "file:///etc/passwd", False),
        (WEB, "FILE:///etc/passwd", False),
        (WEB, "/etc/passwd", False),
        (WEB, "local:///etc/passwd", False),
        (WEB, "tar::http://data.example:8080/x", False),
        (WEB, "reference://", False),
        (WEB, "c://etc/passwd", False),
        (WEB, "://etc/passwd", False),
        (WEB, "data:text/plain,x", False),
        (WEB, "http://data.example.:8080/b/1.nc", False),
        (WEB, "http://data%2eexample:8080/b/1.nc", False),
        (WEB, "http://data.example:8080?@evil.example/", False),
        (WEB, "http://data.example:8080\n.evil.example/", False),
        (WEB, "http://data.example:port/", False),
        (WEB, "http://data.example:8080/\udc80", False),
        (WEB, "http://[fd00/", False),
        (WEB, "http://[2001:db8:0:0:0:0:0:1]:8080/", False),
        (IPV6, "http://[2001:db8:0:0:0:0:0:1]/1.nc", True),
        (IPV6, "http://[fd00:ec2:0:0:0:0:0:254]/latest", False),
        (BUCKET, "s3://bucket/b/1.nc", True),
        (BUCKET, "s3://bucket2/b/1.nc", False),
        (BUCKET, "gs://bucket/b/1.nc", False),
        (BUCKET, "S3://bucket/b/1.nc", True),
        (BUCKET, "s3://Bucket/b/1.nc", False),
        (BUCKET, "s3://BUCKET/b/1.nc", False),
        (BUCKET, "s3://buck%65t/b/1.nc", False),
        (BUCKET, "s3://bucket#x/b/1.nc", False),
        (BUCKET, "s3://bucket?x/b/1.nc", False),
        (BUCKET, "s3://bucket:443/b/1.nc", False),
        (BUCKET, " s3://bucket/b/1.nc", False),
        (ReferenceGuard("gs://bucket_a/refs.json"), "gs://Bucket_A/1.nc", False),
        (ReferenceGuard("az://container/refs.json"), "az://Container/1.nc", False),
        (ReferenceGuard("az://container@account/refs.json"), "az://account/1.nc", False),
        (ReferenceGuard("memory://Name/refs.json"), "memory://name/1.nc", False),
        (ReferenceGuard(None, named=("s3://MyData/",)), "s3://mydata/1.nc", False),
        (ReferenceGuard(None, named=("s3://MyData/",)), "s3://MyData/1.nc", True),
        (ReferenceGuard(None, named=("gs://b/run#1/",)), "gs://b/run/secret", False),
        (ReferenceGuard(None, named=("gs://b/run#1/",)), "gs://b/run#1/1.nc", True),
        (ReferenceGuard(None, named=("s3://b/A/",)), "s3://b/a/1.nc", False),
        (ReferenceGuard(None, named=("s3://b/A/",)), "s3://b/%41/1.nc", False),
        (BUCKET, "https://FILES.example/era5/1.nc", True),
        (BUCKET, "https://files.example/ERA5/1.nc", False),
        (BUCKET, "https://files.example/era5/1.nc", True),
        (BUCKET, "https://files.example/era5x/1.nc", False),
        (BUCKET, "https://files.example/era5/../secret", False),
        (BUCKET, "https://files.example/era5/%2e%2e/secret", False),
        (BUCKET, "https://files.example/era5/..%2fsecret", False),
        (BUCKET, "https://files.example/era5/%2E%2E;x/secret", False),
        (BUCKET, "https://files.example/era5/..%5csecret", False),
        (BUCKET, "https://files.example/era5/my%20file.nc", True),
        (ReferenceGuard("/data/refs.json"), "://data/x", False),
        (ReferenceGuard("/data/refs.json"), "/data/\0.nc", False),
        (ReferenceGuard("/data/refs.json"), "file:/data/%00.nc", False),
        (ReferenceGuard("/data/refs.json"), "/data/a\\b\n.nc", True),
        (ReferenceGuard("/data/refs.json"), "file:///data/a\\b.nc", False),
        (ReferenceGuard(None, protocol="s3"), "bucket/%2e%2e/other/1.nc", False),
        (ReferenceGuard("dir::file:///data/refs.json"), "/data/1.nc", True),
        (ReferenceGuard("zip://refs.json::http://h/a.zip"), "http://h/1.nc", True),
        (ReferenceGuard("zip://refs.json::http://h/a.zip"), "/data/1.nc", False),
        (MEMORY, "http://data.example/1.nc", False),
        (MEMORY, "/data/1.nc", False),
        (ReferenceGuard(None, named=("file:///data/",)), "/data/1.nc", True),
        (ReferenceGuard(None, named=("file:///data/",)), "/data/../etc/passwd", False),
        (ReferenceGuard(None, protocol="http"), "http://data.example/1.nc", True),
        (ReferenceGuard(None, protocol="file"), "/data/1.nc", True),
        (ReferenceGuard("http://x/refs.json", named=("file:///",), protocol="file"), "file:///etc/passwd", False),
    ],
)
def test_a_document_names_its_own_origin_and_what_the_user_allows(
    guard: ReferenceGuard, target: str, allowed: bool
) -> None:
    assert guard.allows(target) is allowed


def test_a_local_document_names_files_below_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").symlink_to("/etc")
    guard = ReferenceGuard(str(tmp_path / "refs.json"))
    assert guard.allows(f"{tmp_path}/a/1.nc")
    assert guard.allows(f"file://{tmp_path}/a/1.nc")
    assert guard.allows("1.nc")
    outside = ("file:/etc/passwd", "local:/etc/passwd", "~/1.nc", "../1.nc", "out/passwd", "http://h/1.nc")
    for target in (f"{tmp_path}/../1.nc", f"{tmp_path}/out/passwd", *outside):
        assert not guard.allows(target)


DOCUMENT = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [9],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [9]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": ["bytes"],
}


def references(target: str) -> dict[str, Any]:
    return {"zarr.json": json.dumps(DOCUMENT), "c/0": [target, 0, 9]}


async def read(server: FaultServer, target: str, **options: Any) -> bytes:
    server.put("refs.json", json.dumps(references(target)).encode())
    async with aiozarr.open_array(f"reference::{server.url}/refs.json", storage_options=options) as array:
        return bytes(await array[...])


async def test_a_document_from_a_server_reads_no_file_and_no_other_server(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_bytes(b"a secret!")
    for target in (f"file://{tmp_path}/secret.txt", f"{tmp_path}/secret.txt", "{other}/x"):
        with FaultServer({"x": b"elsewhere"}) as other, FaultServer() as server:
            with pytest.raises(PermissionDeniedError, match="locations that the storage option 'resolve' names"):
                await read(server, target.format(other=other.url))
            assert not other.requests


async def test_a_document_reads_its_own_server_and_one_that_is_named() -> None:
    with FaultServer({"x": b"its bytes"}) as server:
        assert await read(server, f"{server.url}/x") == b"its bytes"
    with FaultServer({"x": b"elsewhere"}) as other, FaultServer() as server:
        assert await read(server, f"{other.url}/x", resolve={f"{other.url}/": {}}) == b"elsewhere"


async def test_a_table_in_memory_has_no_origin(tmp_path: Path) -> None:
    (tmp_path / "1.bin").write_bytes(b"its bytes")
    table = references(f"{tmp_path}/1.bin")
    array = await aiozarr.open_array("reference://", storage_options={"fo": table})
    with pytest.raises(PermissionDeniedError, match="'resolve'"):
        await array[...]
    for options in ({"resolve": {f"file://{tmp_path}/": None}}, {"remote_protocol": "file"}):
        array = await aiozarr.open_array("reference://", storage_options={"fo": table, **options})
        assert bytes(await array[...]) == b"its bytes"


async def test_the_error_of_a_relative_target_says_what_it_is_relative_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "refs"
    folder.mkdir()
    (folder / "data.bin").write_bytes(b"its bytes")
    (folder / "refs.json").write_text(json.dumps(references("data.bin")))
    array = await aiozarr.open_array(f"reference::{folder}/refs.json")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PermissionDeniedError, match=r"relative to the working directory.*folder of the doc") as raised:
        await array[...]
    assert "resolve" not in str(raised.value)
    monkeypatch.chdir(folder)
    assert bytes(await array[...]) == b"its bytes"


async def test_other_links_do_not_hide_the_targets() -> None:
    with pytest.raises(TypeError, match="reference:: is the first link"):
        await aiozarr.open_array("tar::reference::http://127.0.0.1:1/refs.json")
    with pytest.raises(TypeError, match="resolve is an option of reference::"):
        await aiozarr.open_array("ftp://127.0.0.1/a", storage_options={"resolve": {}})
