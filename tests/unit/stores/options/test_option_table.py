"""What the tables of all stores make of values of other types than one would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.stores.azure.address import azure_options
from aiozarr.stores.gcs.address import gcs_options
from aiozarr.stores.s3.address import s3_options


def test_numbers_and_bools_of_numpy_are_numbers_and_bools() -> None:
    found = s3_options(
        {"max_connections": np.int64(3), "idle_timeout": np.float32(2.5), "connect_timeout": 1, "anon": np.bool_(True)}
    )
    assert (found.max_connections, found.idle_timeout, found.connect_timeout, found.anon) == (3, 2.5, 1.0, True)
    assert type(found.max_connections) is int
    assert gcs_options({"requester_pays": np.bool_(True), "project": "p"}).payer == "p"


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300, 0, -1, True, "0s", "5 parsecs", b"1", [1]])
def test_seconds_that_no_timer_can_wait_are_refused(seconds: Any) -> None:
    with pytest.raises(TypeError, match="seconds above 0"):
        s3_options({"idle_timeout": seconds})


@pytest.mark.parametrize(
    "given",
    [
        {"client_kwargs": {1: 2}},
        {"client_kwargs": {"verify": np.array([1, 2])}},
        {"session": np.array([1, 2])},
        {"version_aware": np.array([1, 2])},
        {"proxies": {"https": 5}},
        {"key": b"k", "secret": b"s"},
        {"requester_pays": np.array([True, False])},
    ],
)
def test_values_of_other_types_are_type_errors_of_the_options(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="storage option"):
        s3_options(given)


@pytest.mark.parametrize("name", ["key", "secret", "token", "region", "profile"])
def test_a_lone_surrogate_is_refused_by_the_name_of_its_option(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is not valid Unicode"):
        s3_options({"key": "k", "secret": "s", name: "\ud800"})


def test_empty_credentials_count_as_not_given() -> None:
    for name in ("account_key", "sas_token", "token"):
        with pytest.raises(ValueError, match="empty"):
            azure_options({"account_name": "a", name: ""})
    for given in ({"key": "", "secret": ""}, {"key": "k", "secret": ""}, {"key": "", "secret": "s"}):
        with pytest.raises(ValueError, match="empty"):
            s3_options(given)
    assert s3_options({"key": "k", "secret": "s", "token": ""}) == s3_options({"key": "k", "secret": "s"})


def test_a_value_in_a_host_name_cannot_change_the_host() -> None:
    with pytest.raises(ValueError, match="host"):
        azure_options({"account_name": "a", "account_host": "h/../x"})
