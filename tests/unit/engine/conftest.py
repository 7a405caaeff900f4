"""The engine's tests run twice: with reads that workers wait for, and with reads that are sent at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiozarr.testing.fakes import FakeStore


@pytest.fixture(scope="module", autouse=True)
def sending(request: pytest.FixtureRequest) -> Iterator[str]:
    """How reads of a `FakeStore` are sent."""
    FakeStore.sends_nowait = request.param == "without a task"
    yield request.param
    FakeStore.sends_nowait = False


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that send requests in both ways; workers and plans send none."""
    sends = metafunc.definition.path.parent.name not in ("workers", "plan")
    ways = ["with a task", "without a task"] if sends else ["with a task"]
    metafunc.parametrize("sending", ways, indirect=True, scope="module")
