"""The object store keeps the store contract on Azure's emulator and on a fake, with all kinds of credentials."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError, PreconditionFailedError, StoreError, UnauthenticatedError
from aiozarr.model import Entry, IfMatch, Suffix
from aiozarr.stores import ObjectStore, Store
from aiozarr.stores.azure.credentials import sign_container
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.servers import Azurite
from tests.support.servers.azure_replies import AzureServer, at
from tests.support.servers.azurite import ACCOUNT, KEY

_numbers = itertools.count()


# Azure knows no control characters, takes a backslash for a slash, and drops dots at ends.
_KEYS = tuple(key for key in ODD_KEYS if (key.isprintable() or key == "\u2028") and "\\" not in key and key[-1] != ".")


class TestObjectStoreOnAFake(StoreConformance):
    store_name = "ObjectStore, az://"
    server_name = "AzureServer"
    odd_keys: ClassVar[tuple[str, ...]] = _KEYS

    @pytest.fixture(autouse=True)
    def _serve(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.SINGLE_UPLOAD_BYTES", 10 << 20)
        with AzureServer({}) as self.server:
            yield

    async def make_store(self) -> Store:
        store = at(self.server, f"az://contract-{next(_numbers)}/some where/ü%20")
        assert await store.probe_conditional_writes()
        assert await store.list() == []
        return store


@pytest.mark.servers
class TestObjectStoreOnAzurite(StoreConformance):
    store_name = "ObjectStore, az://"
    server_name = "azurite"
    odd_keys: ClassVar[tuple[str, ...]] = _KEYS
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
    store_name = "ObjectStore, az://, below a prefix"
    many_keys = 20
    root = "/some where/ü%20"


class TestObjectStoreBySignatureOnAzurite(TestObjectStoreOnAzurite):
    store_name = "ObjectStore, az:// with a SAS"
    many_keys = 20

    def options(self, container: str) -> dict[str, Any]:
        sas = sign_container(ACCOUNT, KEY, container, "racwdl", time.time() + 3600)
        return {"account_name": ACCOUNT, "endpoint_url": self.server.endpoint_url, "sas_token": f"?{sas}"}


@pytest.mark.servers
class TestWhatAzuriteHeeds:
    server_name = "azurite"
    server_version = ""

    @pytest.fixture(autouse=True)
    def _serve(self, azurite_server: Azurite) -> None:
        self.server, self.server_version = azurite_server, azurite_server.version

    def new_container(self) -> str:
        name = f"contract-{next(_numbers)}"
        self.server.create_container(name)
        return name

    def signed(self, container: str, permissions: str, seconds: float = 3600) -> dict[str, Any]:
        sas = sign_container(ACCOUNT, KEY, container, permissions, time.time() + seconds)
        return {"account_name": ACCOUNT, "endpoint_url": self.server.endpoint_url, "sas_token": sas}

    async def test_a_part_of_a_shard_costs_one_request_more_where_its_size_is_not_known(self) -> None:
        url = f"az://{self.new_container()}/field.zarr"
        # Shards of which much is wanted, or that are small beside the cost of a request, are fetched whole.
        options: dict[str, Any] = {
            "storage_options": self.server.storage_options,
            "settings": aiozarr.Settings(merge_gap_bytes=0, max_over_read=1),
        }
        sharded: dict[str, Any] = {"shape": (8, 8), "dtype": "int32", "chunks": (2, 2), "shards": (4, 8)}
        array = await aiozarr.create_array(url, **sharded, **options)
        values = np.arange(64, dtype=np.int32).reshape(8, 8)
        await array[...].write(values)
        with aiozarr.record() as report:
            assert np.array_equal(await array[::4, 0], values[::4, 0])
        assert report.requests == 2 * 2  # the index and a chunk of each shard, which were written here
        # Another container of the same values was never seen.
        other = f"az://{self.new_container()}/field.zarr"
        access = self.server.storage_options
        await aiozarr.copy(url, other, source_options=access, destination_options=access)
        array = await aiozarr.open_array(other, **options)
        with aiozarr.record() as first:
            assert np.array_equal(await array[::4, 0], values[::4, 0])
        with aiozarr.record() as second:
            assert np.array_equal(await array[::4, 1], values[::4, 1])
        assert (first.requests, second.requests) == (2 * 3, 2)

    async def test_a_value_in_blocks_is_whole_and_has_a_version_that_conditions_know(self) -> None:
        data = memoryview(bytes(range(256)) * (70 << 12))
        async with ObjectStore(f"az://{self.new_container()}", **self.server.storage_options) as store:
            version = await store.set("big", data)
            assert version is not None
            assert await store.stat("big") == Entry("big", len(data), version)
            end = await store.fetch("big", Suffix(1000), if_match=version)
            assert end is not None
            assert bytes(end.data) == data[-1000:]
            newer = await store.set("big", b"1", precondition=IfMatch(version))
            with pytest.raises(PreconditionFailedError):
                await store.set("big", b"2", precondition=IfMatch(version))
            assert (await store.stat("big")) == Entry("big", 1, newer)

    async def test_a_signature_that_does_not_allow_deletes_removes_nothing(self) -> None:
        container = self.new_container()
        async with ObjectStore(f"az://{container}", **self.signed(container, "rwl")) as store:
            for key in "abc":
                await store.set(key, b"1")
            with pytest.raises(PermissionDeniedError):
                await store.erase_values(["a", "b", "c"])
            assert sorted(await store.list()) == ["a", "b", "c"]

    async def test_missing_keys_are_not_errors_of_a_bulk_delete(self) -> None:
        async with ObjectStore(f"az://{self.new_container()}", **self.server.storage_options) as store:
            for key in "abc":
                await store.set(key, b"1")
            await store.erase_values(["a", "missing", "b", "a/missing", "c"])
            assert await store.list() == []

    async def test_refusals_and_missing_containers_are_errors(self) -> None:
        container = self.new_container()
        async with ObjectStore(f"az://{container}", **self.server.storage_options) as store:
            await store.set("a", b"1")
        wrong = {**self.server.storage_options, "account_key": "d3Jvbmc="}
        ended = self.signed(container, "rl", -60)
        anonymous = {"account_name": ACCOUNT, "endpoint_url": self.server.endpoint_url, "anon": True}
        for options in (wrong, ended, anonymous):
            async with ObjectStore(f"az://{container}", **options) as store:
                for operation in (
                    store.get("a"),
                    store.stat("a"),
                    store.set("a", b"2"),
                    store.list(),
                    store.erase("a"),
                ):
                    with pytest.raises((PermissionDeniedError, UnauthenticatedError)) as raised:
                        await operation
                    assert "sig=" not in str(raised.value)
        async with ObjectStore("az://not-there", **self.server.storage_options) as store:
            for operation in (store.get("a"), store.stat("a"), store.set("a", b"2"), store.list(), store.erase("a")):
                with pytest.raises(StoreError, match="container does not exist"):
                    await operation

    async def test_the_root_container_is_a_container_like_others(self) -> None:
        self.server.create_container("$root")
        async with ObjectStore("az://$root/below", **self.server.storage_options) as store:
            await store.set("a/b", b"1")
            assert await store.get("a/b") == b"1"
            assert await store.list() == ["a/b"]
            assert await store.list_dir("") == ([], ["a/"])
            await store.erase_prefix("")
            assert await store.list() == []
