"""The engine's tests run twice: with reads that workers wait for, and with reads that are sent at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiozarr.testing.fakes import FakeStore


@pytest.fixture(scope="module", autouse=True, params=["by workers", "at once"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """How reads of a `FakeStore` are sent."""
    FakeStore.prompt = request.param == "at once"
    yield request.param
    FakeStore.prompt = False
