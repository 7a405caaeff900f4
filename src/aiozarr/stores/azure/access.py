"""As whom a container is asked: options and environment, decided as pure functions, in the order of Azure's tools."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiozarr.stores.azure.address import ACCOUNT_NAMES, AzurePlace, environment_connection
from aiozarr.stores.azure.connection_string import EMULATOR_ACCOUNT, EMULATOR_KEY, parse_connection_string
from aiozarr.stores.http.url import fingerprint
from aiozarr.stores.lane import check_headers
from aiozarr.stores.options.azure import AzureOptions
from aiozarr.stores.options.table import is_set

Kind = Literal["anonymous", "key", "sas", "token", "credential", "chain"]
"""No credentials, an account key, a signature, a bearer token, an object that gets tokens, or obstore's own chain."""

Link = Literal["client_secret", "workload_identity", "azure_cli", "managed_identity"]
"""How the chain gets its tokens."""

_KEYS = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
)
_QUERY = re.compile(r"[!\"$-~]+")  # no fragment
_SIGNATURES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials that count.

    Attributes:
        kind: which kind they are.
        secret: the key, signature or token; `""` for the other kinds.
        credential: the object that gets tokens.
        link: how the chain gets its tokens.
        found: they come from the environment, not from the options.
    """

    kind: Kind
    secret: str = field(default="", repr=False)
    credential: Any = field(default=None, repr=False)
    link: Link | None = None
    found: bool = False

    def fingerprint(self, options: AzureOptions) -> str:
        """Return what tells these credentials from others without telling them."""
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


def find_access(options: AzureOptions, environ: Mapping[str, str], place: AzurePlace, *, has_login: bool) -> Access:
    """Return whose credentials count: those of the options, then those of the environment for the same account.

    Args:
        options: what was given.
        environ: the environment.
        place: the container that is asked.
        has_login: whether somebody is logged in with the Azure CLI.

    Raises:
        ValueError: a key, signature or token is none; it is not shown.
    """
    access = _given(options, place) or _found(options, environ, place, has_login)
    if access.kind == "key":
        _check_key(access.secret)
    elif access.kind == "sas" and not _QUERY.fullmatch(access.secret):
        raise ValueError("a shared access signature is a query of ASCII without blanks, and this one is not")
    elif access.kind == "token":
        check_headers({"Authorization": access.secret})
    return access


def _given(options: AzureOptions, place: AzurePlace) -> Access | None:
    if options.anon:
        return Access("anonymous")
    if options.account_key is not None:
        return Access("key", options.account_key)
    if options.sas_token is not None:
        return Access("sas", options.sas_token.removeprefix("?"))
    if isinstance(options.credential, str):
        signed = "sig=" in options.credential
        return Access("sas" if signed else "key", options.credential.removeprefix("?" if signed else ""))
    if options.credential is not None:
        return Access("credential", credential=options.credential)
    if options.token is not None:
        return Access("token", options.token)
    if options.connection_string is not None:
        named = parse_connection_string(options.connection_string)
        if named.key is not None:
            return Access("key", named.key)
        if named.sas is not None:
            return Access("sas", named.sas)
    if options.client_secret is not None:
        return Access("chain", link="client_secret")
    if options.use_azure_cli:
        return Access("chain", link="azure_cli")
    if options.federated_token_file is not None:
        return Access("chain", link="workload_identity")
    if options.msi_endpoint or options.object_id or options.msi_resource_id:
        return Access("chain", link="managed_identity")
    if options.use_emulator and place.account == EMULATOR_ACCOUNT:
        return Access("key", EMULATOR_KEY)
    return None


def _found(options: AzureOptions, environ: Mapping[str, str], place: AzurePlace, has_login: bool) -> Access:
    if options.anon is None and is_set(environ, "AZURE_SKIP_SIGNATURE"):
        return Access("anonymous", found=True)
    if _concerns(environ, place.account):
        named = environment_connection(environ)
        if key := named.key or _first(environ, _KEYS):
            return Access("key", key, found=True)
        if signature := named.sas or _first(environ, _SIGNATURES):
            return Access("sas", signature.removeprefix("?"), found=True)
    if options.use_emulator is None and is_set(environ, "AZURE_STORAGE_USE_EMULATOR"):
        return Access("key", EMULATOR_KEY, found=True)
    if token := environ.get("AZURE_STORAGE_TOKEN"):
        return Access("token", token, found=True)
    return Access("chain", link=_link(environ, has_login), found=True)


def _concerns(environ: Mapping[str, str], account: str) -> bool:
    """Return whether keys and signatures in the environment are for `account`, as far as it says for which they are."""
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
