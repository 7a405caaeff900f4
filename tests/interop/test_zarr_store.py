"""zarr-python's own conformance suite and state machines, over stores of aiozarr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import zarr
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from zarr.core.buffer import Buffer, cpu
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.store import StoreTests

from aiozarr.integrations.zarr import Store as ZarrStore
from aiozarr.stores import LocalStore, MemoryStore, Store
from tests.support.rounds import rounds

pytestmark = pytest.mark.filterwarnings("ignore")


class _Suite(StoreTests[ZarrStore, cpu.Buffer]):
    store_cls = ZarrStore
    buffer_cls = cpu.Buffer

    async def set(self, store: ZarrStore, key: str, value: Buffer) -> None:
        await store.inner.set(key, value.to_bytes())

    async def get(self, store: ZarrStore, key: str) -> Buffer:
        value = await store.inner.get(key)
        assert value is not None
        return self.buffer_cls.from_bytes(bytes(value))

    def test_store_repr(self, store: ZarrStore) -> None:
        assert repr(store.inner) in repr(store)

    def test_store_supports_writes(self, store: ZarrStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: ZarrStore) -> None:
        assert store.supports_listing


class TestMemoryStore(_Suite):
    @pytest.fixture
    def store_kwargs(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return {"inner": MemoryStore.named(f"zarr-suite-{request.node.name}")}


class TestLocalStore(_Suite):
    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"inner": LocalStore(tmp_path)}


@pytest.fixture(params=["memory", "local"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


# No shrinking: a failure is looked at once, and shrinking a hierarchy takes minutes.
FEW = settings(max_examples=rounds(15), stateful_step_count=30, deadline=None, phases=[Phase.reuse, Phase.generate])


def test_the_store_state_machine_finds_no_difference(inner: Store) -> None:
    run_state_machine_as_test(lambda: ZarrStoreStateMachine(ZarrStore(inner)), settings=FEW)


def test_the_hierarchy_state_machine_finds_no_difference(inner: Store) -> None:
    # Sharded arrays of zarr-python 3.1 fail in its own strategies without this.
    with zarr.config.set({"array.write_empty_chunks": True}):
        run_state_machine_as_test(lambda: ZarrHierarchyStateMachine(ZarrStore(inner)), settings=FEW)
