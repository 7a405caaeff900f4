"""A pytest plugin: the engine `zarr` of xarray is that of aiozarr, for reading. Counts what it opened."""

from __future__ import annotations

from typing import Any

import pytest
from xarray.backends.common import BACKEND_ENTRYPOINTS
from xarray.backends.plugins import list_engines

from aiozarr.integrations.xarray import AiozarrBackendEntrypoint, backend

opened = 0


def pytest_configure(config: pytest.Config) -> None:
    BACKEND_ENTRYPOINTS["zarr"] = (None, AiozarrBackendEntrypoint)
    list_engines.cache_clear()
    original = backend.open_target

    def counted(*args: Any, **kwargs: Any) -> Any:
        global opened
        opened += 1
        return original(*args, **kwargs)

    backend.open_target = counted


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"opened by aiozarr: {opened}")
