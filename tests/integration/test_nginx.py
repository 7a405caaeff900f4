"""A web server of other makers that is slow, and that refuses every third request: arrays are read all the same."""

from __future__ import annotations

import numpy as np
import pytest

import aiozarr
from tests.support.locations import sample_values, stored_objects
from tests.support.servers import Nginx

pytestmark = pytest.mark.servers

VALUES = sample_values()
CHUNKS = 64


@pytest.fixture
def server(nginx_server: Nginx, request: pytest.FixtureRequest) -> Nginx:
    """The server, with an array of 64 chunks in the folder that is called like the test."""
    if not nginx_server.scripted:
        pytest.skip("nginx has no lua module (apt-get install libnginx-mod-http-lua)")
    for key, data in stored_objects(chunks=(6, 5), shards=None).items():
        nginx_server.put(f"{request.node.name}/{key}", data)
    return nginx_server


async def test_refusals_with_retry_after_are_repeated_and_no_others(
    server: Nginx, request: pytest.FixtureRequest
) -> None:
    """Repetitions are what the report says, what the server has seen, and no more than there were refusals."""
    name = request.node.name
    async with await aiozarr.open_array(f"{server.url}/flaky/{name}", zarr_format=3) as array:
        before = len(server.requests(f"/flaky/{name}/c/"))
        with aiozarr.record() as report:
            assert np.array_equal(await array[...], VALUES)
    seen = [line.split()[2] for line in server.requests(f"/flaky/{name}/c/")[before:]]
    assert seen.count("200") == CHUNKS
    assert report.retries == seen.count("503") == len(seen) - CHUNKS > 0
    assert report.requests == len(seen)


async def test_a_slow_server_gets_one_request_per_chunk(server: Nginx, request: pytest.FixtureRequest) -> None:
    name = request.node.name
    async with await aiozarr.open_array(f"{server.url}/slow/{name}", zarr_format=3) as array:
        with aiozarr.record() as report:
            assert np.array_equal(await array[...], VALUES)
    seen = [line.split()[2] for line in server.requests(f"/slow/{name}/c/")]
    assert seen == ["200"] * CHUNKS
    assert (report.requests, report.retries) == (CHUNKS, 0)
