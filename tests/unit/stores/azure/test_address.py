"""Where a container of Azure is reached, by URL, options and environment."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.errors import InvalidKeyError
from aiozarr.stores.azure.address import (
    EMULATOR_KEY,
    AzureEndpoint,
    ConnectionString,
    azure_options,
    find_endpoint,
    parse_connection_string,
    parse_url,
)


def place(url: str, environ: dict[str, str] | None = None, **options: Any) -> AzureEndpoint:
    return find_endpoint(parse_url(url), azure_options(options), environ or {})


@pytest.mark.parametrize("scheme", ["az", "azure", "abfs", "abfss", "AZ"])
def test_all_schemes_name_a_container_and_a_prefix(scheme: str) -> None:
    parsed = parse_url(f"{scheme}://data/a b/ü%20/")
    assert (parsed.container, parsed.root, parsed.account) == ("data", "a b/ü%20/", None)
    assert parsed.shown == "az://data"


@pytest.mark.parametrize(
    ("host", "account", "endpoint", "shown"),
    [
        (
            "acct.dfs.core.windows.net",
            "acct",
            "https://acct.blob.core.windows.net",
            "abfss://data@acct.dfs.core.windows.net",
        ),
        (
            "acct.blob.core.windows.net",
            "acct",
            "https://acct.blob.core.windows.net",
            "abfss://data@acct.dfs.core.windows.net",
        ),
        (
            "acct.z01.dfs.storage.azure.net",
            "acct",
            "https://acct.z01.blob.storage.azure.net",
            "abfss://data@acct.z01.dfs.storage.azure.net",
        ),
        (
            "onelake.dfs.fabric.microsoft.com",
            "onelake",
            "https://onelake.blob.fabric.microsoft.com",
            "abfss://data@onelake.dfs.fabric.microsoft.com",
        ),
        ("acct", "acct", None, "abfss://data@acct.dfs.core.windows.net"),
    ],
)
def test_a_url_may_name_the_account(host: str, account: str, endpoint: str | None, shown: str) -> None:
    parsed = parse_url(f"abfs://data@{host}/a/b")
    assert (parsed.account, parsed.endpoint, parsed.shown) == (account, endpoint, shown)
    assert parse_url(f"{parsed.shown}/{parsed.root}").account == account


@pytest.mark.parametrize(
    "host", ["evil.example", "acct.blob.core.windows.net.evil.example", "acct.dfs.evil", "a:b", ""]
)
def test_a_url_cannot_send_credentials_to_other_hosts(host: str) -> None:
    with pytest.raises(ValueError, match="use the option 'endpoint_url' for another server"):
        parse_url(f"az://data@{host}/a")


@pytest.mark.parametrize("name", ["$root", "$web", "$logs", "abc", "a1-b2", "0" * 63])
def test_containers_have_the_names_that_azure_allows(name: str) -> None:
    assert parse_url(f"az://{name}").container == name


@pytest.mark.parametrize("name", ["", "ab", "0" * 64, "Upper", "a_b", "a--b", "-ab", "ab-", "a.b", "$other", "ü12"])
def test_what_azure_does_not_allow_as_a_container_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="expected 3 to 63 lower-case letters, digits and single hyphens"):
        parse_url(f"az://{name}/a")


@pytest.mark.parametrize("url", ["s3://data/a", "data/a", "az:data", "adl://data/a"])
def test_other_urls_are_errors(url: str) -> None:
    with pytest.raises(ValueError, match="an Azure URL must have the form az://container/path or"):
        parse_url(url)


def test_a_prefix_that_is_no_key_is_an_error() -> None:
    with pytest.raises(InvalidKeyError):
        parse_url("az://data/a//b")


def test_the_account_of_the_options_is_at_azure() -> None:
    found = place("az://data/a", account_name="acct")
    assert found == AzureEndpoint("data", "acct", "https://acct.blob.core.windows.net", azure=True)
    assert found.base == "https://acct.blob.core.windows.net/data"


def test_the_account_of_the_url_needs_no_option_and_the_environment_does_not_move_it() -> None:
    environ = {
        "AZURE_STORAGE_ACCOUNT_NAME": "other",
        "AZURE_STORAGE_ENDPOINT": "https://proxy.example",
        "AZURE_STORAGE_CONNECTION_STRING": "AccountName=other;AccountKey=a2V5",
    }
    for url in ("abfss://data@acct.dfs.core.windows.net/a", "az://data@acct/a"):
        assert place(url, environ).endpoint == "https://acct.blob.core.windows.net"


@pytest.mark.parametrize("name", ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"])
def test_the_account_may_come_from_the_environment(name: str) -> None:
    assert place("az://data", {name: "acct"}).account == "acct"


def test_an_account_that_only_the_url_names_has_the_endpoint_of_its_own_connection_string() -> None:
    text = "AccountName=acct;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn"
    environ = {"AZURE_STORAGE_CONNECTION_STRING": text}
    assert place("abfss://data@acct/a", environ).endpoint == "https://acct.blob.core.chinacloudapi.cn"
    assert place("abfss://data@other/a", environ).endpoint == "https://other.blob.core.windows.net"
    named = "abfss://data@acct.dfs.core.windows.net/a"
    assert place(named, environ).endpoint == "https://acct.blob.core.windows.net"


def test_a_connection_string_names_account_and_endpoint_from_options_or_environment() -> None:
    text = "AccountName=acct;AccountKey=a2V5;BlobEndpoint=https://blobs.example/"
    assert place("az://data", connection_string=text).endpoint == "https://blobs.example"
    assert place("az://data", {"AZURE_STORAGE_CONNECTION_STRING": text}).account == "acct"
    # It speaks of another account than the options.
    found = place("az://data", {"AZURE_STORAGE_CONNECTION_STRING": text}, account_name="mine")
    assert found.endpoint == "https://mine.blob.core.windows.net"


def test_another_server_is_named_by_endpoint_url_or_host_and_is_not_trusted_like_azure() -> None:
    found = place("az://data", account_name="acct", endpoint_url="http://127.0.0.1:10000/acct/")
    assert found == AzureEndpoint("data", "acct", "http://127.0.0.1:10000/acct", azure=False)
    assert place("az://data", account_name="acct", account_host="blobs.example").endpoint == "https://blobs.example"


def test_where_the_host_is_an_address_the_account_is_in_the_path() -> None:
    assert place("az://data", account_name="acct", endpoint_url="http://127.0.0.1:10000").base == (
        "http://127.0.0.1:10000/acct/data"
    )
    assert place("az://data", endpoint_url="http://localhost:10000/acct").account == "acct"
    assert place("az://data", endpoint_url="https://acct.blob.core.windows.net").azure


def test_the_emulator_needs_no_account() -> None:
    for environ, options in (({}, {"use_emulator": True}), ({"AZURE_STORAGE_USE_EMULATOR": "true"}, {})):
        found = place("az://data", environ, **options)
        assert found.base == "http://127.0.0.1:10000/devstoreaccount1/data"
        assert not found.azure


def test_the_secondary_region_has_a_name_of_its_own() -> None:
    found = place("az://data", account_name="acct", location_mode="secondary")
    assert (found.endpoint, found.account) == ("https://acct-secondary.blob.core.windows.net", "acct")
    assert found.secondary
    local = place("az://data", endpoint_url="http://127.0.0.1:1/acct", location_mode="secondary")
    assert local.endpoint == "http://127.0.0.1:1/acct-secondary"
    text = "AccountName=acct;AccountKey=a2V5;BlobEndpoint=https://b.example;BlobSecondaryEndpoint=https://c.example"
    assert place("az://data", connection_string=text, location_mode="secondary").endpoint == "https://c.example"


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("az://data", {}, "no storage account is named"),
        ("az://data@one/a", {"account_name": "two"}, "different accounts: one, two"),
        (
            "az://data",
            {"account_name": "a", "connection_string": "AccountName=b;AccountKey=a2V5"},
            "different accounts",
        ),
        ("az://data", {"account_name": "acct.evil.example/"}, "expected lower-case letters and digits"),
        (
            "az://data",
            {"account_name": "acct", "endpoint_url": "https://u:p@host.example"},
            "cannot contain credentials",
        ),
        ("az://data", {"endpoint_url": "http://127.0.0.1:10000"}, "no storage account is named"),
    ],
)
def test_what_cannot_be_is_an_error(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place(url, **options)


def test_an_account_and_its_key_are_found_with_the_endpoints_of_the_account() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=a2V5PQ==;EndpointSuffix=core.windows.net"
    assert parse_connection_string(text) == ConnectionString(
        "acct",
        "a2V5PQ==",
        None,
        "https://acct.blob.core.windows.net",
        "https://acct-secondary.blob.core.windows.net",
    )


def test_the_clouds_of_governments_have_another_suffix() -> None:
    found = parse_connection_string("AccountName=acct;AccountKey=a2V5;EndpointSuffix=core.usgovcloudapi.net")
    assert found.endpoint == "https://acct.blob.core.usgovcloudapi.net"


def test_a_signature_comes_with_an_endpoint_and_loses_its_question_mark() -> None:
    text = "BlobEndpoint=https://acct.blob.core.windows.net;SharedAccessSignature=?sv=2021&sig=a%3D"
    assert parse_connection_string(text) == ConnectionString(
        None, None, "sv=2021&sig=a%3D", "https://acct.blob.core.windows.net"
    )


def test_names_are_found_in_any_case_and_other_services_are_left_out() -> None:
    text = " accountname = acct ; ACCOUNTKEY=a2V5; QueueEndpoint=https://q ;;"
    assert parse_connection_string(text).key == "a2V5"


def test_development_storage_is_the_emulator_with_its_public_key() -> None:
    found = parse_connection_string("UseDevelopmentStorage=true")
    assert (found.account, found.key) == ("devstoreaccount1", EMULATOR_KEY)
    assert found.endpoint == "http://127.0.0.1:10000/devstoreaccount1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "acct",
        "AccountName",
        "AccountKey=hidden",
        "AccountName=a;AccountName=b;AccountKey=hidden",
        "=hidden",
        "AccountName=else.where/;AccountKey=hidden",
        "BlobEndpoint=https://h;SharedAccessSignature=sig=hidden b",
    ],
)
def test_an_invalid_connection_string_is_an_error_that_does_not_show_it(text: str) -> None:
    with pytest.raises(ValueError, match="connection string") as raised:
        parse_connection_string(text)
    assert "hidden" not in str(raised.value)


def test_secrets_do_not_show() -> None:
    found = parse_connection_string("AccountName=acct;AccountKey=hidden;SharedAccessSignature=sig=hidden")
    assert "hidden" not in repr(found)
