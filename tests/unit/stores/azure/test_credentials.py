"""Whose credentials count, in the order of Azure's tools."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.azure import credentials
from aiozarr.stores.azure.address import EMULATOR_KEY, AzureEndpoint, AzureOptions, azure_options
from aiozarr.stores.azure.credentials import AzureCredentials, AzureTokenSource, find_credentials

PLACE = AzureEndpoint("data", "acct", "https://acct.blob.core.windows.net", azure=True)
EMULATOR = AzureEndpoint("data", "devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1", azure=False)
STRING = "AccountName=acct;AccountKey=a2V5"
NAMED = {"AZURE_STORAGE_ACCOUNT_NAME": "acct"}


class Gets:
    """An object that gets tokens."""

    def get_token(self, *scopes: str) -> object:
        return object()


def access(environ: dict[str, str] | None = None, *, at: AzureEndpoint = PLACE, **options: Any) -> AzureCredentials:
    return find_credentials(azure_options(options), environ or {}, at)


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


class Package:
    """azure-identity as a program imports it: the constructors record what they are given."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def make(*ids: str, **named: Any) -> Any:
            self.made.append((name, *ids, {key: value for key, value in named.items() if value}))
            return type("Credential", (), {"get_token": lambda self, scope: f"token for {scope}"})()

        return make


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Package:
    made = Package()
    monkeypatch.setitem(sys.modules, "azure", made)
    monkeypatch.setitem(sys.modules, "azure.identity", made)
    return made


@pytest.mark.parametrize(
    ("options", "made"),
    [
        (
            {"tenant_id": "t", "client_id": "c", "client_secret": "s", "authority_host": "https://a"},
            (
                "ClientSecretCredential",
                {"tenant_id": "t", "client_id": "c", "client_secret": "s", "authority": "https://a"},
            ),
        ),
        ({"use_azure_cli": True, "tenant_id": "t"}, ("AzureCliCredential", {"tenant_id": "t"})),
        (
            {"federated_token_file": "/f", "client_id": "c"},
            ("WorkloadIdentityCredential", {"client_id": "c", "token_file_path": "/f"}),
        ),
        ({"object_id": "o"}, ("ManagedIdentityCredential", {"identity_config": {"object_id": "o"}})),
        (
            {"msi_resource_id": "r", "client_id": "c"},
            ("ManagedIdentityCredential", {"client_id": "c", "identity_config": {"resource_id": "r"}}),
        ),
        ({"client_id": "c"}, ("DefaultAzureCredential", {"managed_identity_client_id": "c"})),
    ],
)
def test_tokens_of_principals_and_identities_are_got_by_the_package_of_azure(
    options: dict[str, Any], made: tuple[Any, ...], package: Package
) -> None:
    found = access(**options)
    assert found.kind == "identity"
    assert package.made == []  # the first token imports it
    assert [found.credential.get_token("scope") for _ in range(2)] == ["token for scope"] * 2
    assert package.made == [made]
    assert "s" not in found.fingerprint().partition(":")[2]


@pytest.mark.parametrize(
    ("environ", "made"),
    [
        (
            {"AZURE_STORAGE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"},
            ("ClientSecretCredential", {"tenant_id": "t", "client_id": "c", "client_secret": "s"}),
        ),
        ({"AZURE_FEDERATED_TOKEN_FILE": "/f", "AZURE_CLIENT_ID": "c"}, ("WorkloadIdentityCredential", {})),
        ({"AZURE_USE_AZURE_CLI": "true"}, ("AzureCliCredential", {})),
        ({"AZURE_CLIENT_ID": "c"}, ("DefaultAzureCredential", {})),
    ],
)
def test_at_last_the_package_of_azure_searches(
    environ: dict[str, str], made: tuple[Any, ...], package: Package
) -> None:
    found = access(environ)
    found.credential.get_token("scope")
    assert (found.kind, found.found, package.made) == ("identity", True, [made])


def test_after_a_fork_the_credential_is_made_again(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    credential = access(use_azure_cli=True).credential
    credential.get_token("scope")
    monkeypatch.setattr(credentials.os, "getpid", lambda: -1)
    credential.get_token("scope")
    assert len(package.made) == 2


async def test_the_extra_is_named_where_there_is_no_token(monkeypatch: pytest.MonkeyPatch, package: Package) -> None:
    class ServiceRequestError(Exception):
        """As azure-core names it."""

    def fails(scope: str) -> Any:
        raise ServiceRequestError("s-hidden")

    credential = access(use_azure_cli=True).credential
    monkeypatch.setattr(credential, "_new_credential", lambda: SimpleNamespace(get_token=fails))
    with pytest.raises(UnauthenticatedError, match=r"azure-identity gave no token.*`az login`") as raised:
        await AzureTokenSource(credential).token()
    assert raised.value.retryable
    assert "hidden" not in str(raised.value)
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(UnauthenticatedError, match="pip install azure-identity"):
        await AzureTokenSource(access().credential).token()


@pytest.mark.parametrize(
    ("environ", "kind", "secret"),
    [
        ({"AZURE_SKIP_SIGNATURE": "true", "AZURE_STORAGE_KEY": "a2V5"}, "anonymous", ""),
        ({"AZURE_STORAGE_CONNECTION_STRING": STRING, "AZURE_STORAGE_SAS_TOKEN": "sig=x"}, "key", "a2V5"),
        ({"AZURE_STORAGE_KEY": "a2V5", "AZURE_STORAGE_SAS_TOKEN": "sig=x"}, "key", "a2V5"),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}, "key", "a2V5"),
        (NAMED | {"AZURE_STORAGE_SAS_TOKEN": "?sig=x", "AZURE_STORAGE_TOKEN": "t"}, "sas", "sig=x"),
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
    assert access(environ).kind == "identity"


@pytest.mark.parametrize(
    ("environ", "options", "kind"),
    [
        ({}, {}, "identity"),
        ({"AZURE_STORAGE_ENDPOINT": "https://mine.blob.core.windows.net"}, {}, "identity"),
        (NAMED, {}, "sas"),
        ({"AZURE_STORAGE_ENDPOINT": "https://acct.blob.core.windows.net/"}, {}, "sas"),
        ({}, {"account_name": "acct"}, "sas"),
        ({}, {"account_host": "acct.blob.core.windows.net"}, "sas"),
    ],
)
def test_a_signature_of_the_environment_is_not_sent_to_an_account_that_only_a_url_names(
    environ: dict[str, str], options: dict[str, str], kind: str
) -> None:
    assert access({"AZURE_STORAGE_SAS_TOKEN": "sig=x"} | environ, **options).kind == kind


def test_the_emulators_key_is_for_the_emulator_only() -> None:
    assert access(at=EMULATOR, use_emulator=True).secret == EMULATOR_KEY
    assert access(at=PLACE, use_emulator=True).kind == "identity"


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
        (AzureOptions(account_name="acct"), {"AZURE_STORAGE_SAS_TOKEN": signature}),
    ):
        with pytest.raises(ValueError, match="signature") as caught:
            find_credentials(options, environ, PLACE)
        assert "hidden" not in str(caught.value)


def test_fingerprints_tell_credentials_apart_and_tell_no_secret() -> None:
    kinds = [
        AzureCredentials("anonymous"),
        AzureCredentials("key", "a2V5"),
        AzureCredentials("key", "b3RoZXI="),
        AzureCredentials("sas", "a2V5"),
        AzureCredentials("token", "a2V5"),
        AzureCredentials("credential", credential=Gets()),
        access(use_azure_cli=True),
        access(client_id="a"),
        access(client_id="b"),
    ]
    prints = [each.fingerprint() for each in kinds]
    assert len(set(prints)) == len(prints)
    assert not any("a2V5" in each for each in prints)
    assert access(client_id="a").fingerprint() == access(client_id="a").fingerprint()
