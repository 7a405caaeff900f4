"""A plugin for pytest: xarray's own engine for Zarr is replaced by aiozarr's, and what that opened is counted.

So xarray's tests run unchanged, also those that name the engine. Writing stays xarray's. With `ECOSYSTEM_STOCK` in the
environment nothing is replaced.
"""

from __future__ import annotations

import os
from typing import Any

from xarray.backends.common import BACKEND_ENTRYPOINTS
from xarray.backends.plugins import list_engines
from xarray.backends.zarr import ZarrBackendEntrypoint

opened = 0


def pytest_configure() -> None:
    """Replace the engine."""
    if os.environ.get("ECOSYSTEM_STOCK"):
        return
    from aiozarr.integrations.xarray import AiozarrBackendEntrypoint, backend

    class Engine(AiozarrBackendEntrypoint):
        def guess_can_open(self, filename_or_obj: Any) -> bool:
            # The tests of guessing ask for xarray's own engine.
            return ZarrBackendEntrypoint().guess_can_open(filename_or_obj)

    original = backend.open_target

    def counted(*arguments: Any, **options: Any) -> Any:
        global opened
        opened += 1
        return original(*arguments, **options)

    backend.open_target = counted
    BACKEND_ENTRYPOINTS["zarr"] = (None, Engine)
    list_engines.cache_clear()
