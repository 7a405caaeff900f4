"""The lane of foreign suites: its lists fit together, and an unlisted failure or an unused pipeline fails it."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.ecosystem.__main__ import Result, deviations, report
from scripts.ecosystem.worlds import HERE, describe


def test_deviations_name_suites_worlds_and_reasons() -> None:
    described = describe()
    for each in deviations():
        assert set(each["suites"]) <= set(described["suites"]), each
        assert set(each["worlds"]) <= set(described["worlds"]), each
        assert each["reason"].endswith("."), each
        assert isinstance(each["stock"], bool), each


def test_suites_name_worlds_and_files_that_exist() -> None:
    described = describe()
    for name, suite in described["suites"].items():
        assert suite["arguments"], name
        assert set(suite["worlds"]) <= set(described["worlds"]), name
        for file in suite.get("files", ()):
            assert (HERE / "suites" / file).is_file(), file


@pytest.mark.parametrize(
    ("failed", "usage", "status"),
    [
        ([], {"reads": 1, "writes": 1}, 0),
        ([], {"reads": 1, "writes": 0}, 1),
        (["tests/test_array.py::test_create_array_with_data_num_gets[zarr-1]"], {"reads": 1, "writes": 1}, 0),
        (["tests/test_array.py::test_append"], {"reads": 1, "writes": 1}, 1),
    ],
)
def test_what_fails_the_lane(failed: list[str], usage: dict[str, Any], status: int) -> None:
    suite = describe()["suites"]["zarr-array"]
    result = Result(passed=10, failed=failed, usage=usage)
    assert report("oldest", "zarr-array", suite, result, stock=False) == status
    # In another world nothing is known of it.
    assert report("newest", "zarr-array", suite, result, stock=False) == int(bool(failed) or status)


def test_a_suite_without_a_result_fails_the_lane() -> None:
    assert report("oldest", "zarr-array", {}, Result(broken="pytest failed"), stock=False) == 1
