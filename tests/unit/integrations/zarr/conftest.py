"""zarr-python with aiozarr below it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiozarr.integrations.zarr import enable


@pytest.fixture(autouse=True)
def pipeline() -> Iterator[None]:
    """The codec pipeline, for the time of a test."""
    with enable():
        yield
