"""The object store keeps the store contract on Azure's emulator, whatever authorises its requests."""

from __future__ import annotations

import itertools
import time
from typing import Any, ClassVar

import pytest
from servers import Azurite
from servers.azurite import ACCOUNT, KEY

from aiozarr.stores import ObjectStore, Store
from aiozarr.stores.azure.signature import sign_container
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS

pytestmark = pytest.mark.servers

_numbers = itertools.count()


class TestObjectStoreOnAzurite(StoreConformance):
    store_name = "ObjectStore, az://"
    server_name = "azurite"
    # Azure knows no control characters, takes a backslash for a slash, and drops dots at ends.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(
        key for key in ODD_KEYS if (key.isprintable() or key == "\u2028") and "\\" not in key and key[-1] != "."
    )
    root = ""

    @pytest.fixture(autouse=True)
    def _serve(self, azurite_server: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.server_version = azurite_server, azurite_server.version

    def options(self, container: str) -> dict[str, Any]:
        return self.server.storage_options

    async def make_store(self) -> Store:
        container = f"contract-{next(_numbers)}"
        self.server.create_container(container)
        store = ObjectStore(f"az://{container}{self.root}", **self.options(container))
        assert await store.probe_conditional_writes()
        assert await store.list() == []
        return store


class TestObjectStoreBelowAPrefixOnAzurite(TestObjectStoreOnAzurite):
    many_keys = 20
    root = "/some where/ü%20"


class TestObjectStoreBySignatureOnAzurite(TestObjectStoreOnAzurite):
    store_name = "ObjectStore, az:// with a SAS"
    many_keys = 20

    def options(self, container: str) -> dict[str, Any]:
        sas = sign_container(ACCOUNT, KEY, container, "racwdl", time.time() + 3600)
        return {"account_name": ACCOUNT, "endpoint_url": self.server.endpoint_url, "sas_token": f"?{sas}"}


class TestObjectStoreThroughItsClientOnAzurite(TestObjectStoreOnAzurite):
    """Reads through obstore, as where only the client library can find the credentials."""

    store_name = "ObjectStore, az:// through obstore"
    many_keys = 20
    pickles = False  # the copy would look for the credentials

    async def make_store(self) -> Store:
        store = await super().make_store()
        service: Any = store._service  # type: ignore[attr-defined]  # the chain of credentials finds none here
        client = service._link.client()
        service._link._access = type(service._link._access)("chain", link="managed_identity")
        service._kind = "chain"
        service._link._clients[True] = client
        return store
