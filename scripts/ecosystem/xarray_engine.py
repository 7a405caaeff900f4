"""A plugin for pytest: xarray's own engine for Zarr is replaced by aiozarr's, and what that opened is counted.

So xarray's tests run unchanged, also those that name the engine. Writing stays xarray's. With `ECOSYSTEM_STOCK` in the
environment nothing is replaced.

Some tests count awaited reads by mocks of zarr-python's classes. The engine does not use these classes. Classes of the
same names stand for them here, and each awaited read of the engine passes the one of its kind of selection.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import zarr
from xarray.backends.common import BACKEND_ENTRYPOINTS
from xarray.backends.plugins import list_engines
from xarray.backends.zarr import ZarrBackendEntrypoint
from xarray.core import indexing
from zarr.core import indexing as zarr_indexing

if TYPE_CHECKING:
    from aiozarr.integrations.xarray.lazy_array import LazyArray

opened = 0


class CountedRead:
    """One awaited read of the engine, in place of zarr-python's class for a kind of selection."""

    def __init__(self, read: Callable[..., Awaitable[Any]]) -> None:
        self._read = read

    async def getitem(self, *arguments: Any) -> Any:
        # Values that were read at opening are there at once; tests want their tasks to overlap.
        await asyncio.sleep(0)
        return await self._read(*arguments)


class BasicRead(CountedRead):
    """Stands for `zarr.AsyncArray`."""


class OrthogonalRead(CountedRead):
    """Stands for `AsyncOIndex`."""


class VectorizedRead(CountedRead):
    """Stands for `AsyncVIndex`."""


def pytest_configure() -> None:
    """Replace the engine."""
    if os.environ.get("ECOSYSTEM_STOCK"):
        return
    from aiozarr.integrations.xarray import AiozarrBackendEntrypoint, backend
    from aiozarr.integrations.xarray.lazy_array import LazyArray

    class Engine(AiozarrBackendEntrypoint):
        def guess_can_open(self, filename_or_obj: Any) -> bool:
            # The tests of guessing ask for xarray's own engine.
            return ZarrBackendEntrypoint().guess_can_open(filename_or_obj)

    open_target, read = backend.open_target, LazyArray._async_read

    def counted_opening(*arguments: Any, **options: Any) -> Any:
        global opened
        opened += 1
        return open_target(*arguments, **options)

    async def counted_read(array: LazyArray, kind: type[indexing.ExplicitIndexer], key: tuple[Any, ...]) -> Any:
        if issubclass(kind, indexing.VectorizedIndexer):
            return await VectorizedRead(read).getitem(array, kind, key)
        if issubclass(kind, indexing.OuterIndexer):
            return await OrthogonalRead(read).getitem(array, kind, key)
        return await BasicRead(read).getitem(array, kind, key)

    backend.open_target = counted_opening
    LazyArray._async_read = counted_read  # type: ignore[method-assign,assignment]
    # zarr-python itself has imported its classes by then.
    zarr.AsyncArray = BasicRead  # type: ignore[misc,assignment]
    zarr_indexing.AsyncOIndex = OrthogonalRead  # type: ignore[misc,assignment]
    zarr_indexing.AsyncVIndex = VectorizedRead  # type: ignore[misc,assignment]
    BACKEND_ENTRYPOINTS["zarr"] = (None, Engine)
    list_engines.cache_clear()
