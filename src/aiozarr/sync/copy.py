"""The blocking twin of `aiozarr.copy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiozarr import transfer
from aiozarr.engine.target import Target
from aiozarr.settings import Settings
from aiozarr.sync.wait import ProgressCallback, wait
from aiozarr.transfer import CopyReport, OnError, Verify


def copy(
    source: Target,
    destination: Target,
    *,
    verify: Verify = "size",
    on_error: OnError = "raise",
    progress: ProgressCallback | None = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> CopyReport:
    """Copy everything below `source` to `destination`; arguments and errors are those of `aiozarr.copy`."""
    return wait(
        lambda callback: transfer.copy(
            source,
            destination,
            verify=verify,
            on_error=on_error,
            progress=callback,
            source_options=source_options,
            destination_options=destination_options,
            settings=settings,
        ),
        progress,
    )
