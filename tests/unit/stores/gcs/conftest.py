"""What the tests of GCS share: a server with a bucket, and uploads in small parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiozarr.stores.gcs import upload as uploads
from tests.support.servers.gcs_server import GcsServer


@pytest.fixture
def server() -> Iterator[GcsServer]:
    """A server that has an empty bucket."""
    with GcsServer("bucket") as running:
        yield running


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads in parts as small as possible, which are tried again at once."""
    monkeypatch.setattr(uploads, "MAX_SINGLE_BYTES", uploads.PART_QUANTUM_BYTES)
    monkeypatch.setattr(uploads, "PART_BYTES", uploads.PART_QUANTUM_BYTES)
    monkeypatch.setattr(uploads, "FIRST_PAUSE", 0.001)
