"""A server that plays Azure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.azure_replies import DATA, PLACE, azure
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server that has one blob in a container of an account."""
    with FaultServer({PLACE + "a/b": DATA}, script=azure) as running:
        yield running
