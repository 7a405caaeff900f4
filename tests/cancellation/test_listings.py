"""A listing that is given up leaves nothing under way, and a store that works on."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap

import pytest

import aiozarr
from aiozarr.stores import ObjectStore
from tests.support.leaks import assert_no_leaks, wait_for
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

PAGE = b"""<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>3</Size><ETag>"x"</ETag>
<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"""


@pytest.mark.parametrize("moment", range(40))
async def test_a_listing_cancelled_during_its_response_leaves_a_working_client(moment: int) -> None:
    with FaultServer(latency=0.01) as server:
        server.script = lambda request, reply: spoil.Reply(200, (("Content-Type", "application/xml"),), PAGE)
        store = ObjectStore("s3://bucket", endpoint_url=server.url, anon=True)
        task = asyncio.ensure_future(store.list())
        await asyncio.sleep(0.006 + moment * 0.0003)
        task.cancel()
        await asyncio.wait([task])
        del task
        # The library's stream is dropped here, in a thread that is none of its own.
        gc.collect()
        assert await store.list() == ["a"]
        await store.aclose()


async def test_opening_a_group_whose_listing_stalls_is_cancelled_soon() -> None:
    with FaultServer() as server:
        server.script = lambda request, reply: (
            spoil.no_answer(reply) if "list-type" in request.target else spoil.status(404)(reply)
        )
        store = ObjectStore("s3://bucket", endpoint_url=server.url, anon=True)
        async with assert_no_leaks(server):
            task = asyncio.ensure_future(aiozarr.open(store, "a"))
            assert await wait_for(lambda: any("list-type" in request.target for request in server.requests))
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=5)
            assert done
            assert task.cancelled()
        await store.aclose()


_EXIT = f"""
    import asyncio
    from aiozarr.stores import ObjectStore
    from tests.support.servers.http_server import FaultServer
    from tests.support.servers import http_replies as spoil

    async def main():
        store = ObjectStore("s3://bucket", endpoint_url=server.url, anon=True)
        async for entry in store.scan():
            print(entry.key)
            break

    with FaultServer() as server:
        server.script = lambda request, reply: spoil.Reply(200, (("Content-Type", "application/xml"),), {PAGE!r})
        asyncio.run(main())
"""


def test_the_interpreter_exits_in_peace_after_a_listing_that_was_left_early() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(_EXIT)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")
