"""Data sets, and a store that counts round trips, for the tests of the xarray engine."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import xarray as xr

from aiozarr.stores import LocalStore, Store
from aiozarr.stores.wrapper_store import StoreOperation, WrapperStore

T = TypeVar("T")


class RoundTripStore(WrapperStore):
    """Answers requests in rounds: a round begins when nothing else can happen, and answers all that wait then.

    Attributes:
        rounds: the keys of each round.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.rounds: list[list[str]] = []
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._turn: asyncio.Task[None] | None = None

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((operation.key or "", future))
        if self._turn is None:
            self._turn = asyncio.create_task(self._answer())
        await future
        return await call()

    async def _answer(self) -> None:
        # Whoever can send a request without waiting for another's answer has done so by then.
        for _ in range(200):
            await asyncio.sleep(0)
        self._turn = None
        waiting, self._waiting = self._waiting, []
        self.rounds.append([key for key, _ in waiting])
        for _, future in waiting:
            if not future.done():
                future.set_result(None)

    @property
    def keys(self) -> list[str]:
        """The keys of all requests."""
        return [key for keys in self.rounds for key in keys]


def make_dataset(variables: int = 3) -> xr.Dataset:
    """Variables over time, y and x, with packed and masked values, a text coordinate and one of two dimensions."""
    rng = np.random.default_rng(variables)
    dataset = xr.Dataset(
        {f"v{n:02}": (("time", "y", "x"), rng.integers(0, 99, (4, 3, 5)) / 2) for n in range(variables)},
        coords={
            "time": np.arange("2001-01-01", "2001-01-05", dtype="M8[D]").astype("M8[ns]"),
            "y": np.arange(3.0),
            "x": np.arange(5),
            "area": (("y", "x"), rng.random((3, 5))),
            "label": ("x", np.array(["a", "bb", "c", "d", "ü"])),
        },
        attrs={"title": "test"},
    )
    dataset["v00"].encoding = {"scale_factor": 0.5, "dtype": "i4", "_FillValue": -1}
    return dataset


def write(data: Any, path: T, **options: Any) -> T:
    """Write with zarr-python, whose warnings about its own formats are of no interest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.to_zarr(path, **options)
    return path


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return write(make_dataset(), tmp_path / "a.zarr", zarr_format=3)


@pytest.fixture
def counted(stored: Path) -> RoundTripStore:
    return RoundTripStore(LocalStore(stored))
