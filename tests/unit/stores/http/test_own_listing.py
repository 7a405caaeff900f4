"""A subclass of the HTTP store for a web server that can list, as design note 009 describes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from aiozarr.errors import StoreError, located
from aiozarr.http1.endpoint_client import Request
from aiozarr.http1.response_check import Accept, Expectation
from aiozarr.model import Entry
from aiozarr.stores.bucket.listing import ListingPage, iterate_pages, parse_xml
from aiozarr.stores.http.store import HTTPClient, HTTPStore
from tests.support.servers.http_replies import Reply
from tests.support.servers.http_replies import Request as ReceivedRequest
from tests.support.servers.http_server import FaultServer

PAGES = {"": "<list><name>a</name><next>2</next></list>", "2": "<list><name>b</name></list>"}


class ListingClient(HTTPClient):
    async def page(self, prefix: str, token: str) -> ListingPage:
        async def authorise() -> Request:
            headers = {"Depth": "1", "Page": token}
            target = self.target_of(prefix)
            return Request(self.sender, "PROPFIND", "", target, self.template, Expectation(), headers=headers)

        response = await self.exchange(authorise)
        if not isinstance(response.action, Accept):
            raise self.error(response)
        page = parse_xml(bytes(response.body), "list")
        entries = [Entry(f"{prefix}{name.text}", None) for name in page.iter("name")]
        return ListingPage(entries, [], page.findtext("next") or "")


class ListingStore(HTTPStore):
    _client_class = ListingClient

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        client = self._client
        assert isinstance(client, ListingClient)
        with located(store=self.url):
            async with aclosing(iterate_pages(lambda token: client.page(prefix, token))) as pages:
                async for page in pages:
                    for entry in page.entries:
                        yield entry


def list_below(request: ReceivedRequest, reply: Reply) -> Reply:
    if (request.method, request.target) != ("PROPFIND", "/a%20b/c/?key=1"):
        return Reply(400)
    return Reply(200, body=PAGES[request.headers["page"]].encode())


async def test_a_listing_has_its_pages_below_the_encoded_url_with_its_query() -> None:
    with FaultServer(script=list_below) as server:
        async with ListingStore(f"{server.url}/a%20b?key=1") as store:
            assert [entry.key async for entry in store.scan("c/")] == ["c/a", "c/b"]
        async with ListingStore(f"{server.url}/other") as store:
            with pytest.raises(StoreError) as caught:
                await anext(store.scan())
            assert (caught.value.status, caught.value.store) == (400, store.url)
