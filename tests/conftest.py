"""The fixtures and options of all tests: the S3 server, hypothesis profiles, and `--servers`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.servers.moto import LocalS3, local_s3

# Fixtures of real servers, and the table of the conformance suite's results.
pytest_plugins = ["tests.support.servers.fixtures", "tests.support.conformance_report"]

# Examples have no deadline: the load of the machine must not decide about a test. They are the same in every run: a
# failure belongs to a change, and `make test-long` searches for others. Numbers of examples and rounds are per 100 of
# `max_examples`: a day has half of them, `make test-long` 25 times as many.
settings.register_profile(
    "daily", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("daily")
settings.register_profile("long", max_examples=2500, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--servers`."""
    parser.addoption("--servers", action="store_true", help="run the tests that need a server from a system package")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests marked `servers`, unless `--servers` is given."""
    if config.getoption("--servers"):
        return
    skip = pytest.mark.skip(reason="needs a server from a system package: make test-servers runs it")
    for item in items:
        if item.get_closest_marker("servers") is not None:
            item.add_marker(skip)


@pytest.fixture(scope="module", autouse=True)
def _exclude_older_objects_from_garbage_collection() -> None:
    """Many tests collect garbage, and would otherwise go through all collected modules and all earlier reports."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[LocalS3]:
    """An S3 server (moto) in its own process, one per test process; each test creates buckets of its own."""
    with local_s3() as server:
        yield server
