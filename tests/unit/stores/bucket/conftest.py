"""What the tests of object stores share: a server whose answers a test scripts."""

from collections.abc import Iterator

import pytest

from tests.support.servers.http_server import FaultServer
from tests.support.servers.s3_replies import DATA


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server that has one object in a bucket."""
    with FaultServer({"bkt/root/a/b": DATA}) as running:
        yield running
