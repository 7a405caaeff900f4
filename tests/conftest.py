"""What several tests share: the S3 server, and the lane of tests that need a server from a system package."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from local_s3 import LocalS3, local_s3

# Servers of other makers, and the table of what was tested against what (tests/support).
pytest_plugins = ["servers.fixtures", "tested_against"]

# No example is timed: what a machine does beside the tests must not decide about them.
settings.register_profile("daily", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("daily")
# `--hypothesis-profile long` searches for long what the daily tests look at for seconds (tests/support/cases.py).
settings.register_profile("long", max_examples=2500, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--servers`."""
    parser.addoption("--servers", action="store_true", help="run the tests that need a server from a system package")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a server from a system package, unless it is asked for."""
    if config.getoption("--servers"):
        return
    skip = pytest.mark.skip(reason="needs a server from a system package: make test-servers runs it")
    for item in items:
        if item.get_closest_marker("servers") is not None:
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Leave what the collected modules hold out of later collections of garbage, of which some tests make hundreds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[LocalS3]:
    """An S3 server (moto) in a process of its own; one per test process. A test makes buckets of its own name."""
    with local_s3() as server:
        yield server
