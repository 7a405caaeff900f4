"""Whose credentials count, in the order of Azure's tools."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.stores.azure.address import EMULATOR_KEY, AzureEndpoint
from aiozarr.stores.azure.credentials import AzureCredentials, find_credentials
from aiozarr.stores.options.azure_options import AzureOptions, azure_options

PLACE = AzureEndpoint("data", "acct", "https://acct.blob.core.windows.net", azure=True)
EMULATOR = AzureEndpoint("data", "devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1", azure=False)
STRING = "AccountName=acct;AccountKey=a2V5"


class Gets:
    """An object that gets tokens."""

    def get_token(self, *scopes: str) -> object:
        return object()


def access(
    environ: dict[str, str] | None = None, *, at: AzureEndpoint = PLACE, has_login: bool = False, **options: Any
) -> AzureCredentials:
    return find_credentials(azure_options(options), environ or {}, at, has_login=has_login)


@pytest.mark.parametrize(
    ("options", "kind", "secret"),
    [
        ({"anon": True}, "anonymous", ""),
        ({"account_key": "a2V5"}, "key", "a2V5"),
        ({"sas_token": "?sv=1&sig=x"}, "sas", "sv=1&sig=x"),
        ({"credential": "?sv=1&sig=x"}, "sas", "sv=1&sig=x"),
        ({"credential": "a2V5"}, "key", "a2V5"),
        ({"token": "abc"}, "token", "abc"),
        ({"connection_string": STRING}, "key", "a2V5"),
        (
            {"connection_string": "BlobEndpoint=https://acct.blob.core.windows.net;SharedAccessSignature=sig=x"},
            "sas",
            "sig=x",
        ),
    ],
)
def test_given_credentials_replace_those_of_the_environment(options: dict[str, Any], kind: str, secret: str) -> None:
    environ = {"AZURE_STORAGE_ACCOUNT_KEY": "b3RoZXI=", "AZURE_SKIP_SIGNATURE": "true"}
    found = access(environ, **options)
    assert (found.kind, found.secret, found.found) == (kind, secret, False)
    assert secret == "" or secret not in repr(found)


def test_an_object_that_gets_tokens_is_taken_as_it_is() -> None:
    gets = Gets()
    assert access(credential=gets).credential is gets


@pytest.mark.parametrize(
    ("options", "link"),
    [
        ({"tenant_id": "t", "client_id": "c", "client_secret": "s"}, "client_secret"),
        ({"use_azure_cli": True}, "azure_cli"),
        ({"federated_token_file": "/f"}, "workload_identity"),
        ({"msi_endpoint": "http://x"}, "managed_identity"),
        ({"object_id": "o"}, "managed_identity"),
    ],
)
def test_principals_and_identities_are_the_client_librarys_matter(options: dict[str, Any], link: str) -> None:
    found = access({"AZURE_STORAGE_ACCOUNT_KEY": "b3RoZXI="}, **options)
    assert (found.kind, found.link) == ("chain", link)


@pytest.mark.parametrize(
    ("environ", "kind", "secret"),
    [
        ({"AZURE_SKIP_SIGNATURE": "true", "AZURE_STORAGE_KEY": "a2V5"}, "anonymous", ""),
        ({"AZURE_STORAGE_CONNECTION_STRING": STRING, "AZURE_STORAGE_SAS_TOKEN": "sig=x"}, "key", "a2V5"),
        ({"AZURE_STORAGE_KEY": "a2V5", "AZURE_STORAGE_SAS_TOKEN": "sig=x"}, "key", "a2V5"),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}, "key", "a2V5"),
        ({"AZURE_STORAGE_SAS_TOKEN": "?sig=x", "AZURE_STORAGE_TOKEN": "t"}, "sas", "sig=x"),
        ({"AZURE_STORAGE_TOKEN": "t"}, "token", "t"),
        ({"AZURE_STORAGE_USE_EMULATOR": "true"}, "key", EMULATOR_KEY),
    ],
)
def test_the_environment_counts_where_nothing_is_given(environ: dict[str, str], kind: str, secret: str) -> None:
    found = access(environ)
    assert (found.kind, found.secret, found.found) == (kind, secret, True)


@pytest.mark.parametrize(
    "environ",
    [
        {"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_KEY": "a2V5"},
        {"AZURE_STORAGE_ACCOUNT_NAME": "other", "AZURE_STORAGE_SAS_TOKEN": "sig=x"},
        {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=other;AccountKey=a2V5"},
    ],
)
def test_keys_of_the_environment_that_are_for_another_account_do_not_count(environ: dict[str, str]) -> None:
    assert access(environ).kind == "chain"


@pytest.mark.parametrize(
    ("environ", "has_login", "link"),
    [
        ({"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}, True, "client_secret"),
        ({"AZURE_FEDERATED_TOKEN_FILE": "/f", "AZURE_CLIENT_ID": "c"}, True, "workload_identity"),
        ({}, True, "azure_cli"),
        ({"AZURE_USE_AZURE_CLI": "true"}, False, "azure_cli"),
        ({"AZURE_CLIENT_ID": "c"}, False, "managed_identity"),
    ],
)
def test_at_last_the_chain_is_asked(environ: dict[str, str], has_login: bool, link: str) -> None:
    found = access(environ, has_login=has_login)
    assert (found.kind, found.link, found.found) == ("chain", link, True)


def test_the_emulators_key_is_for_the_emulator_only() -> None:
    assert access(at=EMULATOR, use_emulator=True).secret == EMULATOR_KEY
    assert access(at=PLACE, use_emulator=True).kind == "chain"


@pytest.mark.parametrize(
    "options", [{"account_key": "hidden!"}, {"token": "hidden\u20ac"}, {"sas_token": "sig=hidden\u20ac"}]
)
def test_what_cannot_be_sent_is_an_error_that_does_not_show_it(options: dict[str, str]) -> None:
    with pytest.raises(ValueError) as raised:
        access(**options)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("signature", ["sig=hidden b", "sig=hiddené", "sig=hidden\n", "?"])
def test_a_signature_that_no_query_can_carry_is_refused_wherever_it_is_from(signature: str) -> None:
    for options, environ in (
        (AzureOptions(sas_token=signature), {}),
        (AzureOptions(), {"AZURE_STORAGE_SAS_TOKEN": signature}),
    ):
        with pytest.raises(ValueError, match="signature") as caught:
            find_credentials(options, environ, PLACE, has_login=False)
        assert "hidden" not in str(caught.value)


def test_fingerprints_tell_credentials_apart_and_tell_no_secret() -> None:
    options = azure_options({})
    kinds = [
        AzureCredentials("anonymous"),
        AzureCredentials("key", "a2V5"),
        AzureCredentials("key", "b3RoZXI="),
        AzureCredentials("sas", "a2V5"),
        AzureCredentials("token", "a2V5"),
        AzureCredentials("credential", credential=Gets()),
        AzureCredentials("chain", link="azure_cli"),
        AzureCredentials("chain", link="managed_identity"),
    ]
    prints = [each.fingerprint(options) for each in kinds]
    assert len(set(prints)) == len(prints)
    assert not any("a2V5" in each for each in prints)
