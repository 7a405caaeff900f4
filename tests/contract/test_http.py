"""The HTTP store keeps the store contract, in front of the tests' own server and of nginx."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from typing_extensions import Buffer

from aiozarr.stores import Store
from aiozarr.stores.http.store import HTTPStore
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.certificates import authority
from tests.support.http_proxy import proxy
from tests.support.servers import Nginx
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


class TestHTTPStore(StoreConformance):
    server_name = "FaultServer"

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with FaultServer() as self.server:
            yield

    async def make_store(self) -> Store:
        return HTTPStore(self.server.url)

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        self.server.put(key, bytes(data))


class TestHTTPStoreBelowAPath(TestHTTPStore):
    store_name = "HTTPStore, below a path"

    async def make_store(self) -> Store:
        return HTTPStore(f"{self.server.url}/some%20where/below/")

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        self.server.put(f"some where/below/{key}", bytes(data))


class TestHTTPStoreWithoutRanges(TestHTTPStore):
    store_name = "HTTPStore, no ranges"

    async def make_store(self) -> Store:
        self.server.script = spoil.when(
            lambda request: request.method == "GET" and self.server.get(request.key) is not None, self.whole
        )
        return HTTPStore(self.server.url)

    def whole(self, reply: spoil.Reply) -> spoil.Reply:
        """Send everything for every range that is sent at all."""
        request = self.server.requests[-1]
        return reply if reply.status == 412 else spoil.whole(self.server.get(request.key) or b"")(reply)


class TestHTTPStoreThroughAProxy(TestHTTPStore):
    store_name = "HTTPStore, through a proxy"

    @pytest.fixture(autouse=True)
    def _go_between(self) -> Iterator[None]:
        with proxy() as self.between:
            yield

    async def make_store(self) -> Store:
        return HTTPStore(self.server.url, proxy=self.between.url)


class TestHTTPStoreByTLS(TestHTTPStore):
    store_name = "HTTPStore, TLS"

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with FaultServer(tls=authority().server()) as self.server:
            yield

    async def make_store(self) -> Store:
        return HTTPStore(self.server.url, root_certificate=authority().pem())


@pytest.mark.servers
class TestHTTPStoreOnNginx(StoreConformance):
    store_name = "HTTPStore"
    server_name = "nginx"
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if max(map(len, key.split("/"))) < 250)

    @pytest.fixture(autouse=True)
    def _serve(self, nginx_server: Nginx, tmp_path: Path) -> None:
        self.web, self.server_version = nginx_server, nginx_server.version
        self.name = tmp_path.name

    async def make_store(self) -> Store:
        return HTTPStore(f"{self.web.url}/{self.name}")

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        self.web.put(f"{self.name}/{key}", bytes(data))
