"""A range read returns the requested range, also from a server that ignores ranges."""

from __future__ import annotations

from typing import Any

import pytest
from fsspec import AbstractFileSystem

from aiozarr.model import ByteRange, Range, Suffix, resolve_range
from aiozarr.stores.fsspec.store import FsspecStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(60))
RANGES = [Range(0, 10), Range(0, 100), Range(20, 10), Range(20, 50), Range(20, 100), Range(20), Range(60, 5), Suffix(9)]


class Web(AbstractFileSystem):
    """A server that tells no sizes, behind what is taken for fsspec's HTTP."""

    protocol = "http"
    cachable = False

    def __init__(self, heeds_ranges: bool) -> None:
        super().__init__()
        self.heeds_ranges = heeds_ranges

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return DATA[start:end] if self.heeds_ranges else DATA

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": None, "type": "file"}


@pytest.mark.parametrize("heeds_ranges", [True, False])
@pytest.mark.parametrize("wanted", RANGES, ids=str)
async def test_a_range_that_reaches_beyond_the_end_is_cut_whether_or_not_the_server_heeds_it(
    wanted: ByteRange, heeds_ranges: bool
) -> None:
    def answer(request: Request, reply: Reply) -> Reply:
        return reply if heeds_ranges or request.method == "HEAD" else spoil.whole(DATA)(reply)

    start, stop = resolve_range(len(DATA), wanted)
    with FaultServer({"x/a": DATA}, script=answer) as server:
        for store in (
            FsspecStore(f"{server.url}/x", skip_instance_cache=True),
            FsspecStore(Web(heeds_ranges), path="x"),
        ):
            value = await store.fetch("a", wanted)
            assert value is not None
            assert bytes(value.data) == DATA[start:stop]
            assert value.size in (None, len(DATA))


async def test_a_range_inside_a_value_costs_one_request() -> None:
    with FaultServer({"x/a": DATA}) as server:
        value = await FsspecStore(f"{server.url}/x", skip_instance_cache=True).fetch("a", Range(20, 40))
        assert value is not None
        assert bytes(value.data) == DATA[20:]
        assert [request.method for request in server.requests] == ["GET"]
