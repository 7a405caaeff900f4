from __future__ import annotations

import numpy as np
import pytest
import zarr

import aiozarr
from aiozarr.integrations.zarr import Store, enable
from aiozarr.schedule import events
from tests.unit.schedule.test_operations import Recorded


def test_reads_and_writes_of_zarr_python_are_operations_of_their_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Recorded()
    monkeypatch.setattr(events, "_observers", (observer,))
    store = aiozarr.stores.MemoryStore()
    with enable():
        array = zarr.create_array(Store(store), shape=(6,), chunks=(2,), dtype="i4")
        array[:] = np.arange(6)
        array[1:5]
    assert [(kind, url, error) for kind, url, error, _ in observer.ended] == [
        ("write", store.url, None),
        ("read", store.url, None),
    ]
    assert observer.ended[1][3].chunks == 3
