"""Every name that gcsfs, adlfs, fsspec's HTTP and obstore know is known here: translated, idle, or refused."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import aiohttp
import gcsfs
import pytest
import s3fs
from fsspec.implementations.http import HTTPFileSystem

from aiozarr.stores.options.azure_options import AZURE_TABLE, azure_options
from aiozarr.stores.options.gcs_options import GCS_TABLE, gcs_options
from aiozarr.stores.options.http_options import CLIENT_UNSUPPORTED, TRUST_UNSUPPORTED, http_options
from aiozarr.stores.options.option_table import OptionTable, UnsupportedOption
from aiozarr.stores.options.s3_options import S3_TABLE, s3_options
from tests.support.upstream_names import fields_of, parameters_of

OPTIONS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "s3": s3_options,
    "gs": lambda given: gcs_options(given, "bucket"),
    "az": azure_options,
    "http": http_options,
}
TABLES: dict[str, OptionTable] = {"gs": GCS_TABLE, "az": AZURE_TABLE}

# The parameters of adlfs.AzureBlobFileSystem 2025.8; fsspec's own besides.
ADLFS = [
    "account_name",
    "account_key",
    "connection_string",
    "credential",
    "sas_token",
    "request_session",
    "socket_timeout",
    "blocksize",
    "client_id",
    "client_secret",
    "tenant_id",
    "anon",
    "location_mode",
    "loop",
    "asynchronous",
    "default_fill_cache",
    "default_cache_type",
    "version_aware",
    "assume_container_exists",
    "max_concurrency",
    "read_timeout",
    "connection_timeout",
    "account_host",
    "batch_size",
    "use_listings_cache",
    "listings_expiry_time",
    "max_paths",
    "skip_instance_cache",
]

OF_FSSPEC = {
    "s3": parameters_of(s3fs.S3FileSystem),
    "gs": [
        *parameters_of(gcsfs.GCSFileSystem),
        *(f"session_kwargs.{name}" for name in parameters_of(aiohttp.ClientSession)),
    ],
    "az": ADLFS,
    "http": parameters_of(HTTPFileSystem),
}
OF_OBSTORE = {
    "gs": ("google_", fields_of("_gcs.pyi", "GCSConfig")),
    "az": ("azure_", fields_of("_azure.pyi", "AzureConfig")),
}


def nested(name: str, value: Any) -> dict[str, Any]:
    """Return an option, and those around it."""
    for part in reversed(name.split(".")):
        value = {part: value}
    found: dict[str, Any] = value
    return found


def upstream() -> Iterator[tuple[str, str]]:
    for scheme, names in OF_FSSPEC.items():
        yield from ((scheme, name) for name in names)
    for scheme, (prefix, names) in OF_OBSTORE.items():
        for name in (*names, "prefix", "credential_provider"):
            yield from ((scheme, f"{form}") for form in (name, f"{prefix}{name}", f"{prefix}{name}".upper()))
            yield scheme, f"config.{name}"
        yield from ((scheme, name) for name in ("config", "client_options", "retry_config"))
    for scheme in OPTIONS:
        for name in fields_of("_client.pyi", "ClientConfig"):
            yield scheme, name
            yield scheme, f"client_options.{name}"


@pytest.mark.parametrize(("scheme", "name"), list(dict.fromkeys(upstream())))
def test_a_name_of_the_other_packages_is_known(scheme: str, name: str) -> None:
    refusal = ""
    try:
        OPTIONS[scheme](nested(name, "x"))
    except (TypeError, ValueError, OSError) as error:
        refusal = str(error)
    assert "unknown" not in refusal


CASES = [
    pytest.param(scheme, unsupported, id=f"{scheme}-{unsupported.names[0]}")
    for scheme, table in TABLES.items()
    for unsupported in table.unsupported
]


@pytest.mark.parametrize(("scheme", "unsupported"), CASES)
def test_unsupported_options_are_ignored_or_refused_with_a_reason(scheme: str, unsupported: UnsupportedOption) -> None:
    table = TABLES[scheme]
    for name in unsupported.names:
        for value in (None, *(unsupported.only or ())):
            assert table.translate(nested(name, value)) == {}
        if unsupported.only is None:
            assert table.translate(nested(name, "anything")) == {}
        else:
            with pytest.raises(TypeError, match="cannot be followed") as caught:
                OPTIONS[scheme](nested(name, "anything"))
            assert unsupported.why in str(caught.value)


def test_the_clouds_share_the_reasons_of_client_options() -> None:
    for table in (S3_TABLE, GCS_TABLE, AZURE_TABLE):
        assert set(CLIENT_UNSUPPORTED) <= set(table.unsupported)
    for table in (GCS_TABLE, AZURE_TABLE):
        assert set(TRUST_UNSUPPORTED) <= set(table.unsupported)


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_times_of_obstores_client_are_those_of_the_store(scheme: str) -> None:
    given = {"client_options": {"connect_timeout": "3s", "read_timeout": "5s"}}
    assert OPTIONS[scheme](given) == OPTIONS[scheme]({"connect_timeout": 3, "idle_timeout": 5})


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "http"])
def test_other_names_are_unknown(scheme: str) -> None:
    with pytest.raises(TypeError, match="unknown storage option 'nowhere'"):
        OPTIONS[scheme]({"client_options": {"nowhere": 1}})


def test_a_member_of_the_sessions_options_is_not_taken_for_one_of_the_store() -> None:
    with pytest.raises(TypeError, match="cannot be followed"):
        OPTIONS["gs"]({"session_kwargs": {"base_url": "https://h"}})
