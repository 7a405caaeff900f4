"""`schemes=` limits the locations that a service opens for its users."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import aiozarr
import aiozarr.sync as z
from aiozarr.errors import UnknownSchemeError
from aiozarr.stores import MemoryStore

REFUSED: list[Any] = [
    "/etc",
    "~/x.zarr",
    Path("/etc"),
    "file:///etc",
    "FILE:///etc",
    "memory://x",
    "zip::s3://bucket/a.zip",
    "zip://inner::s3://bucket/a.zip",
    "tar::s3://bucket/a",
    "reference::https://h/refs.json",
    "zip::/etc/a.zip",
    {"driver": "zarr3", "kvstore": {"driver": "file", "path": "/etc/x/"}, "create": True},
    {"driver": "zarr3", "kvstore": "file:///etc/x/"},
    {"driver": "zarr3", "kvstore": {"driver": "memory", "path": "x"}},
    "file:///etc/x/|zarr3:",
    " file:///etc",
    "https://h/x::file:///etc",
    PurePosixPath("https://h/x"),
    {"driver": "zarr3", "kvstore": {"driver": "s3", "bucket": "b", "path": "x", "endpoint": "http://127.0.0.1:1"}},
    {"driver": "zarr3", "kvstore": {"driver": "s3", "bucket": "b::file:///etc", "path": "x"}},
]


@pytest.mark.parametrize("target", REFUSED, ids=str)
async def test_other_schemes_are_refused_before_anything_is_read(target: Any) -> None:
    for open_node in (aiozarr.open, aiozarr.open_array, aiozarr.open_group):
        if open_node is aiozarr.open or not isinstance(target, dict):
            with pytest.raises(UnknownSchemeError, match=r"schemes= allows https, s3"):
                await open_node(target, schemes=("s3", "HTTPS"))
    with pytest.raises(UnknownSchemeError, match="schemes= allows"):
        z.open(target, schemes=("s3", "https"))


async def test_allowed_locations_are_opened(tmp_path: Path) -> None:
    await aiozarr.create_array(tmp_path / "a", data=[1])
    for target in (tmp_path / "a", str(tmp_path / "a"), (tmp_path / "a").as_uri()):
        assert (await aiozarr.open_array(target, schemes=["file"])).shape == (1,)
        assert z.open(target, schemes={"file"}).shape == (1,)
    store = MemoryStore()
    await aiozarr.create_group(store)
    assert (await aiozarr.open_group(store, schemes=())).path == ""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"}}
    assert (await aiozarr.open(spec, schemes=["file"])).shape == (1,)
    with pytest.raises(TypeError, match="schemes must be a collection"):
        await aiozarr.open("s3://b/a", schemes="s3")
