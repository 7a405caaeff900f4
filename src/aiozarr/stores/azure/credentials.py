"""The credentials for a container, found in options and environment in the order of Azure's tools."""

from __future__ import annotations

import binascii
import os
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal

from aiozarr.errors import UnauthenticatedError
from aiozarr.http1.request import check_headers
from aiozarr.http1.url import fingerprint
from aiozarr.stores.azure.address import (
    ACCOUNT_NAMES,
    EMULATOR_ACCOUNT,
    EMULATOR_KEY,
    AzureEndpoint,
    environment_connection,
    parse_connection_string,
)
from aiozarr.stores.options.azure_options import AzureOptions
from aiozarr.stores.options.option_table import is_set

Kind = Literal["anonymous", "key", "sas", "token", "credential", "identity"]
"""No credentials, an account key, a signature, a bearer token, or an object that gets tokens: a given one, or ours."""

Identity = Literal["client_secret", "workload_identity", "azure_cli", "managed_identity", "default"]
"""What the package azure-identity gets tokens for; the default is the first that it finds."""

_KEYS = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
)
_QUERY = re.compile(r"[!\"$-~]+")  # no fragment
_SIGNATURES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")


@dataclass(frozen=True, slots=True)
class AzureCredentials:
    """The credentials for one container.

    Attributes:
        kind: their kind.
        secret: the key, signature or token; `""` for the other kinds.
        credential: the object that gets tokens.
        found: they come from the environment, not from the options.
    """

    kind: Kind
    secret: str = field(default="", repr=False)
    credential: Any = field(default=None, repr=False)
    found: bool = False

    def fingerprint(self) -> str:
        """Return an identity of the credentials that does not reveal them."""
        match self.kind:
            case "anonymous":
                return "anonymous"
            case "credential":
                return f"credential:{id(self.credential)}"
            case "identity":
                return repr(self.credential)
            case _:
                return fingerprint({self.kind: self.secret})


class AzureIdentity:
    """Gets tokens by the package azure-identity, which is imported for the first one."""

    def __init__(self, identity: Identity, options: AzureOptions) -> None:
        self._identity: Identity = identity
        self._options = options
        self._credential: tuple[int, Any] | None = None  # with the id of its process: its connections stay there

    def __repr__(self) -> str:
        options = self._options
        ids = (options.tenant_id, options.client_id, options.object_id, options.msi_resource_id)
        return f"{self._identity}:{'/'.join(part or '' for part in ids)}"

    @property
    def failure(self) -> str:
        """The message if there is no token."""
        return f"azure-identity (the extra aiozarr[azure]) gave no token {_WAYS[self._identity]}; {_OTHERWISE}"

    def get_token(self, scope: str) -> Any:
        """Return a token as azure-identity does. It blocks."""
        if self._credential is None or self._credential[0] != os.getpid():
            self._credential = (os.getpid(), self._new_credential())
        return self._credential[1].get_token(scope)

    def _new_credential(self) -> Any:
        try:
            package = import_module("azure.identity")
        except ImportError as error:
            raise UnauthenticatedError(
                f"logins and identities of Azure need azure-identity: install aiozarr[azure]; {_OTHERWISE}"
            ) from error
        options = self._options
        authority = {} if options.authority_host is None else {"authority": options.authority_host}
        match self._identity:
            case "client_secret":
                return package.ClientSecretCredential(
                    options.tenant_id, options.client_id, options.client_secret, **authority
                )
            case "workload_identity":
                return package.WorkloadIdentityCredential(
                    tenant_id=options.tenant_id,
                    client_id=options.client_id,
                    token_file_path=options.federated_token_file,
                    **authority,
                )
            case "azure_cli":
                return package.AzureCliCredential(tenant_id=options.tenant_id or "")
            case "managed_identity":
                ids = {"object_id": options.object_id, "resource_id": options.msi_resource_id}
                config = {name: value for name, value in ids.items() if value}
                return package.ManagedIdentityCredential(client_id=options.client_id, identity_config=config or None)
            case _:
                client = {} if options.client_id is None else {"managed_identity_client_id": options.client_id}
                return package.DefaultAzureCredential(**client, **authority)


_WAYS: dict[Identity, str] = {
    "client_secret": "for the service principal",
    "workload_identity": "for the workload identity",
    "azure_cli": "by the login of the Azure CLI (run `az login`)",
    "managed_identity": "for the managed identity",
    "default": "by the environment, a managed identity or a login (run `az login`)",
}
_OTHERWISE = "'account_key', 'sas_token' and 'credential' are other ways, and anon=True reads public containers"


def find_credentials(options: AzureOptions, environ: Mapping[str, str], endpoint: AzureEndpoint) -> AzureCredentials:
    """Return the credentials of the options, or those of the environment for the same account.

    Args:
        options: the given options.
        environ: the environment.
        endpoint: the container.

    Raises:
        ValueError: a key, signature or token is not valid; the message does not show it.
    """
    credentials = _from_options(options, endpoint) or _from_environment(options, environ, endpoint)
    if credentials.kind == "key":
        _check_key(credentials.secret)
    elif credentials.kind == "sas" and not _QUERY.fullmatch(credentials.secret):
        raise ValueError("a shared credentials signature is a query of ASCII without blanks, and this one is not")
    elif credentials.kind == "token":
        check_headers({"Authorization": credentials.secret})
    return credentials


def _from_options(options: AzureOptions, endpoint: AzureEndpoint) -> AzureCredentials | None:
    if options.anon:
        return AzureCredentials("anonymous")
    if options.account_key is not None:
        return AzureCredentials("key", options.account_key)
    if options.sas_token is not None:
        return AzureCredentials("sas", options.sas_token.removeprefix("?"))
    if isinstance(options.credential, str):
        signed = "sig=" in options.credential
        return AzureCredentials("sas" if signed else "key", options.credential.removeprefix("?" if signed else ""))
    if options.credential is not None:
        return AzureCredentials("credential", credential=options.credential)
    if options.token is not None:
        return AzureCredentials("token", options.token)
    if options.connection_string is not None:
        named = parse_connection_string(options.connection_string)
        if named.key is not None:
            return AzureCredentials("key", named.key)
        if named.sas is not None:
            return AzureCredentials("sas", named.sas)
    identity: Identity | None = None
    if options.client_secret is not None:
        identity = "client_secret"
    elif options.use_azure_cli:
        identity = "azure_cli"
    elif options.federated_token_file is not None:
        identity = "workload_identity"
    elif options.object_id or options.msi_resource_id:
        identity = "managed_identity"
    if identity is not None:
        return AzureCredentials("identity", credential=AzureIdentity(identity, options))
    if options.use_emulator and endpoint.account == EMULATOR_ACCOUNT:
        return AzureCredentials("key", EMULATOR_KEY)
    return None


def _from_environment(options: AzureOptions, environ: Mapping[str, str], endpoint: AzureEndpoint) -> AzureCredentials:
    if options.anon is None and is_set(environ, "AZURE_SKIP_SIGNATURE"):
        return AzureCredentials("anonymous", found=True)
    if _concerns(environ, endpoint.account):
        named = environment_connection(environ)
        if key := named.key or _first(environ, _KEYS):
            return AzureCredentials("key", key, found=True)
        if signature := named.sas or _first(environ, _SIGNATURES):
            return AzureCredentials("sas", signature.removeprefix("?"), found=True)
    if options.use_emulator is None and is_set(environ, "AZURE_STORAGE_USE_EMULATOR"):
        return AzureCredentials("key", EMULATOR_KEY, found=True)
    if token := environ.get("AZURE_STORAGE_TOKEN"):
        return AzureCredentials("token", token, found=True)
    return AzureCredentials("identity", credential=_found_identity(options, environ), found=True)


def _concerns(environ: Mapping[str, str], account: str) -> bool:
    """Return whether keys and signatures in the environment can be for `account`: it names that account, or none."""
    named = environment_connection(environ).account or _first(environ, ACCOUNT_NAMES)
    return named in (None, account)


def _found_identity(options: AzureOptions, environ: Mapping[str, str]) -> AzureIdentity:
    principal = {name: _first(environ, (f"AZURE_{name}", f"AZURE_STORAGE_{name}")) for name in _PRINCIPAL}
    if all(principal.values()):
        named: dict[str, Any] = {name.lower(): value for name, value in principal.items()}
        return AzureIdentity("client_secret", replace(options, **named))
    if environ.get("AZURE_FEDERATED_TOKEN_FILE"):
        return AzureIdentity("workload_identity", options)
    return AzureIdentity("azure_cli" if is_set(environ, "AZURE_USE_AZURE_CLI") else "default", options)


_PRINCIPAL = ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)


def _check_key(key: str) -> None:
    try:
        b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an account key is base64, and this one is not") from None
