"""Names that the options of all kinds of stores share."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from aiozarr.stores.azure.address import azure_options
from aiozarr.stores.gcs.address import gcs_options
from aiozarr.stores.http.http_options import HTTPOptions, http_options
from aiozarr.stores.option_table import OptionTable
from aiozarr.stores.s3.address import S3Options, s3_options

OPTIONS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "s3": s3_options,
    "gs": lambda given: gcs_options(given, "bucket"),
    "az": azure_options,
    "http": http_options,
}


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_times_of_obstores_client_are_those_of_the_store(scheme: str) -> None:
    given = {"client_options": {"connect_timeout": "3s", "read_timeout": "5s"}}
    assert OPTIONS[scheme](given) == OPTIONS[scheme]({"connect_timeout": 3, "idle_timeout": 5})


@pytest.mark.parametrize("scheme", OPTIONS)
def test_caches_block_sizes_and_loops_of_others_are_ignored(scheme: str) -> None:
    names = sorted(OptionTable("any store", ()).ignored)
    if scheme == "http":
        names = [name for name in names if name not in {"allow_http", "user_agent"}]  # these have an effect there
    empty = {"s3": S3Options(), "http": HTTPOptions()}
    assert OPTIONS[scheme](dict.fromkeys(names, "anything")) == empty.get(scheme, OPTIONS[scheme]({}))


@pytest.mark.parametrize("scheme", OPTIONS)
def test_other_names_are_unknown(scheme: str) -> None:
    with pytest.raises(TypeError, match="unknown storage option 'nowhere'"):
        OPTIONS[scheme]({"client_options": {"nowhere": 1}})
