"""A server that plays Azure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.azure_replies import DATA, PLACE, AzureServer


@pytest.fixture
def server() -> Iterator[AzureServer]:
    """A server that has one blob in a container of an account."""
    with AzureServer({PLACE + "a/b": DATA}) as running:
        yield running
