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
    "gs": gcs_options,
    "az": azure_options,
    "http": http_options,
}


@pytest.mark.parametrize(
    ("scheme", "name", "ours"),
    [
        ("s3", "aws_access_key_id", "key"),
        ("s3", "AWS_SECRET_ACCESS_KEY", "secret"),
        ("s3", "aws_session_token", "token"),
        ("s3", "aws_region", "region"),
        ("s3", "aws_endpoint", "endpoint_url"),
        ("s3", "skip_signature", "anon"),
        ("s3", "virtual_hosted_style_request", "virtual_hosted"),
        ("gs", "google_service_account", "token"),
        ("gs", "bearer_token", "token"),
        ("gs", "base_url", "endpoint_url"),
        ("az", "azure_storage_account_key", "account_key"),
        ("az", "access_key", "account_key"),
        ("az", "sas_key", "sas_token"),
        ("az", "authority_id", "tenant_id"),
        ("http", "default_headers", "headers"),
        ("http", "read_timeout", "idle_timeout"),
    ],
)
def test_names_of_obstore_are_unknown_and_the_error_says_ours(scheme: str, name: str, ours: str) -> None:
    with pytest.raises(TypeError, match=f"unknown storage option '{name}' for an? .* store; did you mean '{ours}'"):
        OPTIONS[scheme]({name: "x"})


@pytest.mark.parametrize("scheme", OPTIONS)
def test_caches_block_sizes_and_loops_of_others_are_ignored(scheme: str) -> None:
    names = sorted(OptionTable("any store", ()).ignored)
    empty = {"s3": S3Options(), "http": HTTPOptions()}
    assert OPTIONS[scheme](dict.fromkeys(names, "anything")) == empty.get(scheme, OPTIONS[scheme]({}))


@pytest.mark.parametrize("scheme", OPTIONS)
def test_other_names_are_unknown(scheme: str) -> None:
    with pytest.raises(TypeError, match="unknown storage option 'nowhere'"):
        OPTIONS[scheme]({"nowhere": 1})
    with pytest.raises(TypeError, match="unknown storage option 'client_options'"):
        OPTIONS[scheme]({"client_options": {"timeout": 1}})
