"""Fixtures of servers of other makers: one of each per test process, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.servers.azurite import Azurite, azurite
from tests.support.servers.nginx import Nginx, nginx
from tests.support.servers.process import NotInstalled
from tests.support.servers.radosgw import radosgw
from tests.support.servers.rclone import rclone
from tests.support.servers.s3 import S3Server
from tests.support.servers.s3rver import s3rver

S = TypeVar("S")


@pytest.fixture(scope="session")
def nginx_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """An nginx; each test puts files into a folder of its own."""
    with _started(nginx, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """An Azure emulator; each test makes containers of its own."""
    with _started(azurite, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def radosgw_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Ceph's S3 gateway, some 15 seconds after it is asked for; each test makes buckets of its own."""
    with _started(radosgw, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def rclone_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that ignores conditions; each test creates buckets of its own."""
    with _started(rclone, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def s3rver_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Another S3 server that ignores conditions; each test creates buckets of its own."""
    with _started(s3rver, tmp_path_factory) as server:
        yield server


@contextmanager
def _started(
    start: Callable[[Path], AbstractContextManager[S]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start(tmp_path_factory.mktemp(start.__name__)))
        except NotInstalled as missing:
            pytest.skip(str(missing))
        yield server
