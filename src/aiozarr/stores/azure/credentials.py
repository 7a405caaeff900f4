"""The credentials for a container, found in options and environment in the order of Azure's tools."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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

Kind = Literal["anonymous", "key", "sas", "token", "credential", "chain"]
"""No credentials, an account key, a signature, a bearer token, an object that gets tokens, or obstore's own chain."""

Link = Literal["client_secret", "workload_identity", "azure_cli", "managed_identity"]
"""The member of obstore's chain that gets the tokens."""

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
        link: the member of obstore's chain.
        found: they come from the environment, not from the options.
    """

    kind: Kind
    secret: str = field(default="", repr=False)
    credential: Any = field(default=None, repr=False)
    link: Link | None = None
    found: bool = False

    def fingerprint(self, options: AzureOptions) -> str:
        """Return an identity of the credentials that does not reveal them."""
        match self.kind:
            case "anonymous":
                return "anonymous"
            case "credential":
                return f"credential:{id(self.credential)}"
            case "chain":
                identity = (options.client_id, options.tenant_id, options.object_id, options.msi_resource_id)
                return f"{self.link}:{'/'.join(part or '' for part in identity)}"
            case _:
                return fingerprint({self.kind: self.secret})


def find_credentials(
    options: AzureOptions, environ: Mapping[str, str], endpoint: AzureEndpoint, *, has_login: bool
) -> AzureCredentials:
    """Return the credentials of the options, or those of the environment for the same account.

    Args:
        options: the given options.
        environ: the environment.
        endpoint: the container.
        has_login: whether the Azure CLI has a login.

    Raises:
        ValueError: a key, signature or token is not valid; the message does not show it.
    """
    credentials = _from_options(options, endpoint) or _from_environment(options, environ, endpoint, has_login)
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
    if options.client_secret is not None:
        return AzureCredentials("chain", link="client_secret")
    if options.use_azure_cli:
        return AzureCredentials("chain", link="azure_cli")
    if options.federated_token_file is not None:
        return AzureCredentials("chain", link="workload_identity")
    if options.msi_endpoint or options.object_id or options.msi_resource_id:
        return AzureCredentials("chain", link="managed_identity")
    if options.use_emulator and endpoint.account == EMULATOR_ACCOUNT:
        return AzureCredentials("key", EMULATOR_KEY)
    return None


def _from_environment(
    options: AzureOptions, environ: Mapping[str, str], endpoint: AzureEndpoint, has_login: bool
) -> AzureCredentials:
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
    return AzureCredentials("chain", link=_link(environ, has_login), found=True)


def _concerns(environ: Mapping[str, str], account: str) -> bool:
    """Return whether keys and signatures in the environment can be for `account`: it names that account, or none."""
    named = environment_connection(environ).account or _first(environ, ACCOUNT_NAMES)
    return named in (None, account)


def _link(environ: Mapping[str, str], has_login: bool) -> Link:
    if all(_first(environ, (f"AZURE_{name}", f"AZURE_STORAGE_{name}")) for name in _PRINCIPAL):
        return "client_secret"
    if environ.get("AZURE_FEDERATED_TOKEN_FILE"):
        return "workload_identity"
    if has_login or is_set(environ, "AZURE_USE_AZURE_CLI"):
        return "azure_cli"
    return "managed_identity"


_PRINCIPAL = ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)


def _check_key(key: str) -> None:
    try:
        b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an account key is base64, and this one is not") from None
