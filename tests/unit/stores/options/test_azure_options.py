"""The storage options of Azure: adlfs's names and ours for the same things."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from aiozarr.stores.azure.address import AZURE_TABLE, AzureOptions, azure_options


class Gets:
    """An object that gets tokens."""

    def get_token(self, *scopes: str) -> object:
        return object()


GETS = Gets()


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        # adlfs
        ("account_name", "account_name", "acct"),
        ("account_key", "account_key", "a2V5"),
        ("connection_string", "connection_string", "AccountName=a; AccountKey=b"),
        ("credential", "credential", GETS),
        ("credential", "credential", "a2V5"),
        ("sas_token", "sas_token", "sig=x"),
        ("client_id", "client_id", "c"),
        ("tenant_id", "tenant_id", "t"),
        ("anon", "anon", True),
        ("location_mode", "location_mode", "secondary"),
        ("account_host", "account_host", "blobs.example"),
        ("connection_timeout", "connect_timeout", 3),
        ("read_timeout", "idle_timeout", 5.5),
        # ours
        ("token", "token", "t"),
        ("authority_host", "authority_host", "https://login.example"),
        ("federated_token_file", "federated_token_file", "/a b"),
        ("object_id", "object_id", "o"),
        ("msi_resource_id", "msi_resource_id", "r"),
        ("use_azure_cli", "use_azure_cli", True),
        ("use_emulator", "use_emulator", True),
        ("endpoint_url", "endpoint_url", "http://x"),
        ("max_connections", "max_connections", 7),
        ("idle_timeout", "idle_timeout", 5),
        ("connect_timeout", "connect_timeout", 3),
    ],
)
def test_every_name_is_translated(given: str, name: str, value: object) -> None:
    assert azure_options({given: value}) == AzureOptions(**{name: value})


def test_a_principals_secret_comes_with_its_names() -> None:
    found = azure_options({"client_secret": "s s", "client_id": "c", "tenant_id": "t"})
    assert found == AzureOptions(client_secret="s s", client_id="c", tenant_id="t")


def test_the_table_has_every_option() -> None:
    assert AZURE_TABLE.names == tuple(item.name for item in fields(AzureOptions))


def test_options_of_adlfs_without_effect_are_accepted() -> None:
    assert azure_options({"asynchronous": True, "max_concurrency": 4, "default_fill_cache": False}) == AzureOptions()


def test_our_names_are_handed_to_adlfs_as_its_own() -> None:
    given = {"account_key": "a2V5", "idle_timeout": 5, "connect_timeout": 3, "version_aware": True}
    assert AZURE_TABLE.to_fsspec(given) == {
        "account_key": "a2V5",
        "read_timeout": 5,
        "connection_timeout": 3,
        "version_aware": True,
    }
    with pytest.raises(TypeError, match="'token'"):
        AZURE_TABLE.to_fsspec({"token": "t"})


def test_an_unknown_option_is_an_error_that_names_the_nearest_known_option() -> None:
    with pytest.raises(
        TypeError,
        match=r"unknown storage option 'acount_key' for an Azure store; did you mean 'account_key'\?$",
    ):
        azure_options({"acount_key": "hidden"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"idle_timeout": 1, "read_timeout": 2}, "given twice"),
        ({"account_key": "a", "sas_token": "sig=b"}, "'account_key' and 'sas_token' cannot be combined"),
        ({"token": "a", "use_azure_cli": True}, "cannot be combined"),
        ({"anon": True, "account_key": "a"}, "'anon' cannot be combined with credentials"),
        ({"anon": True, "connection_string": "AccountName=a"}, "'anon' cannot be combined with credentials"),
        ({"client_secret": "a", "client_id": "b"}, "needs 'client_id' and 'tenant_id'"),
        ({"endpoint_url": "http://a", "account_host": "a"}, "cannot be combined"),
        ({"location_mode": "tertiary"}, "'primary' or 'secondary'"),
        ({"account_key": "a b"}, "blanks"),
    ],
)
def test_contradictions_are_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        azure_options(given)


@pytest.mark.parametrize(
    "given", [{"account_key": b"a"}, {"anon": "perhaps"}, {"credential": 7}, {"credential": "a b"}]
)
def test_values_of_the_wrong_type_are_errors(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="storage option"):
        azure_options(given)


def test_secrets_do_not_show() -> None:
    secrets = ("account_key", "sas_token", "connection_string", "credential", "token", "client_secret")
    shown = repr(AzureOptions(**dict.fromkeys(secrets, "hidden")))
    assert "hidden" not in shown
