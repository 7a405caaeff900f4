"""What the tests of S3 share: no credentials of the machine, and a server whose answers a test scripts."""

import os
from collections.abc import Iterator

import pytest

from aiozarr.testing.http_server import FaultServer

DATA = bytes(range(256)) * 100


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the machine's own credentials and proxies out."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server that has one object in a bucket."""
    with FaultServer({"bkt/root/a/b": DATA}) as running:
        yield running
