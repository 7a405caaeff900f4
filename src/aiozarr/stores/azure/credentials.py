"""The credentials for a container, found in options and environment in the order of Azure's tools."""

from __future__ import annotations

import binascii
import inspect
import os
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import digest
from importlib import import_module
from typing import Any, Literal
from urllib.parse import urlencode

from aiozarr.errors import AiozarrError, UnauthenticatedError
from aiozarr.http1.request import check_headers
from aiozarr.http1.url import fingerprint
from aiozarr.stores.azure.address import (
    ACCOUNT_NAMES,
    EMULATOR_ACCOUNT,
    EMULATOR_KEY,
    ENDPOINTS,
    AzureEndpoint,
    AzureOptions,
    environment_connection,
    parse_connection_string,
)
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.http.object_client import ServerClock
from aiozarr.stores.option_table import is_set

Kind = Literal["anonymous", "key", "sas", "token", "credential", "identity"]
"""No credentials, an account key, a signature, a bearer token, or an object that gets tokens, given or made here."""

Identity = Literal["client_secret", "workload_identity", "azure_cli", "managed_identity", "default"]
"""The identity for which the package azure-identity gets tokens; by default the first one that it finds."""

_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_QUERY = re.compile(r"[!\"$-~]+")  # no fragment
_SIGNATURES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")


@dataclass(frozen=True, slots=True)
class AzureCredentials:
    """The credentials for one container.

    Attributes:
        kind: their kind.
        secret: the key, signature or token; `""` for the other kinds.
        credential: the object that gets tokens.
        found: whether they come from the environment, not from the options.
    """

    kind: Kind
    secret: str = field(default="", repr=False)
    credential: Any = field(default=None, repr=False)
    found: bool = False

    def fingerprint(self) -> str:
        """Return an identity of the credentials that does not reveal them."""
        if self.kind == "credential":
            return f"credential:{id(self.credential)}"
        if self.kind == "identity":
            return repr(self.credential)
        return fingerprint({self.kind: self.secret}) if self.secret else self.kind


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
        return f"azure-identity gave no token {_IDENTITIES[self._identity][2]}; {_OTHERWISE}"

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
                "Azure logins and identities need the package azure-identity: run pip install azure-identity; "
                + _OTHERWISE
            ) from error
        options = self._options
        ids = {"object_id": options.object_id, "resource_id": options.msi_resource_id}
        values = {
            "tenant_id": options.tenant_id,
            "client_id": options.client_id,
            "client_secret": options.client_secret,
            "token_file_path": options.federated_token_file,
            "identity_config": {name: value for name, value in ids.items() if value},
            "managed_identity_client_id": options.client_id,
            "authority": options.authority_host,
        }
        name, arguments, _ = _IDENTITIES[self._identity]
        return getattr(package, name)(**{argument: values[argument] for argument in arguments if values[argument]})


_IDENTITIES: dict[Identity, tuple[str, tuple[str, ...], str]] = {
    "client_secret": (
        "ClientSecretCredential",
        ("tenant_id", "client_id", "client_secret", "authority"),
        "for the service principal",
    ),
    "workload_identity": (
        "WorkloadIdentityCredential",
        ("tenant_id", "client_id", "token_file_path", "authority"),
        "for the workload identity",
    ),
    "azure_cli": ("AzureCliCredential", ("tenant_id",), "by the login of the Azure CLI (run `az login`)"),
    "managed_identity": ("ManagedIdentityCredential", ("client_id", "identity_config"), "for the managed identity"),
    "default": (
        "DefaultAzureCredential",
        ("managed_identity_client_id", "authority"),
        "by the environment, a managed identity or a login (run `az login`)",
    ),
}
"""The classes of azure-identity, their arguments, and their description in messages."""

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
        raise ValueError("a shared access signature must be an ASCII query without blanks")
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
        parts = parse_connection_string(options.connection_string)
        if parts.key is not None:
            return AzureCredentials("key", parts.key)
        if parts.sas is not None:
            return AzureCredentials("sas", parts.sas)
    identities: dict[Identity, object] = {
        "client_secret": options.client_secret,
        "azure_cli": options.use_azure_cli,
        "workload_identity": options.federated_token_file,
        "managed_identity": options.object_id or options.msi_resource_id,
    }
    for identity, named in identities.items():
        if named:
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
        signature = named.sas or (_first(environ, _SIGNATURES) if _is_chosen(options, environ, endpoint) else None)
        if signature:
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


def _is_chosen(options: AzureOptions, environ: Mapping[str, str], endpoint: AzureEndpoint) -> bool:
    """Return whether options or environment name the account, which then gets signatures of the environment.

    A signature is sent as it is, so that an account which only a URL names does not get it.
    """
    if endpoint.account in (options.account_name, _first(environ, ACCOUNT_NAMES)):
        return True
    given = options.endpoint_url or options.account_host or options.connection_string
    own = _first(environ, ENDPOINTS)
    return given is not None or (own is not None and endpoint.endpoint.startswith(own.rstrip("/")))


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
        raise ValueError("the account key is not base64") from None


SIGNATURE_VERSION = "2021-12-02"

VALID_SECONDS = 3600
REUSE_SECONDS = 900
"""The time for which a signature is used. The clocks may differ by the rest of its validity."""

MIN_AGE_SECONDS = 10
"""A signature that is refused when it is younger was never valid, and neither would a new one be."""


def sign_container(account: str, key: str, container: str, permissions: str, expires: float) -> str:
    """Return the query that allows `permissions` on all blobs of `container` until `expires` (seconds since 1970).

    Args:
        account: the account's name, that of its primary region.
        key: the account's key, in base64.
        container: the container's name.
        permissions: `r` to read, `w` to write, `d` to delete, `l` to list; several in the order `racwdxltmeop`.
        expires: the time of its expiry.
    """
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    # Permissions, start, expiry, resource, identifier, addresses, protocol, version, kind of resource, snapshot,
    # encryption scope, and five headers of the response.
    fields = [permissions, "", expiry, f"/blob/{account}/{container}", "", "", "", SIGNATURE_VERSION, "c", *[""] * 7]
    signature = b64encode(digest(b64decode(key), "\n".join(fields).encode(), sha256)).decode("ascii")
    return urlencode({"sv": SIGNATURE_VERSION, "se": expiry, "sr": "c", "sp": permissions, "sig": signature})


class ContainerSignatures:
    """The signatures of one container, each renewed every quarter of an hour."""

    def __init__(self, account: str, key: str, container: str) -> None:
        self._account = account.removesuffix("-secondary")
        self._key = key
        self._container = container
        self._signatures: dict[str, tuple[float, str]] = {}
        self._clock = ServerClock()

    def query(self, permissions: str) -> str:
        """Return the query that allows `permissions` for a while."""
        cached = self._signatures.get(permissions)
        now = time.monotonic()
        if cached is None or cached[0] + REUSE_SECONDS < now:
            expires = self._clock.now() + VALID_SECONDS
            query = sign_container(self._account, self._key, self._container, permissions, expires)
            cached = self._signatures[permissions] = (now, query)
        return cached[1]

    def renew(self, refused: str, server_time: float | None = None) -> bool:
        """Drop the signature `refused`; return False if it was new: another one would be refused as well.

        Args:
            refused: a signature that the server did not accept.
            server_time: the server's time in seconds since 1970, by which signatures are made from now on.
        """
        if self._clock.correct(server_time):
            self._signatures.clear()
        for permissions, (made, query) in list(self._signatures.items()):
            if query == refused:
                if time.monotonic() - made < MIN_AGE_SECONDS:
                    return False
                del self._signatures[permissions]
        return True


SCOPE = "https://storage.azure.com/.default"

_NETWORK_ERRORS = frozenset({"ServiceRequestError", "ServiceResponseError"})
"""The errors of Azure's packages for services that do not respond."""


class AzureTokenSource(TokenSource[str]):
    """The tokens of an object with `get_token`, which may be a coroutine function."""

    def __init__(self, credential: Any) -> None:
        super().__init__()
        self._credential = credential

    def _request_token(self) -> tuple[str, float]:
        return self._checked(lambda: self._credential.get_token(SCOPE))

    async def _request_later(self, since: float) -> str:
        get_token = self._credential.get_token
        if not inspect.iscoroutinefunction(get_token):
            return await super()._request_later(since)
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(await get_token(SCOPE))
        except Exception as error:  # raised where the outcome is used
            outcome.set_exception(error)
        return self._renew(since, lambda: self._checked(outcome.result))

    def _checked(self, get_token: Callable[[], Any]) -> tuple[str, float]:
        try:
            found = get_token()
            return str(found.token), time.monotonic() + float(found.expires_on) - time.time()
        except AiozarrError:
            raise
        except Exception as error:  # its package defines its own errors
            failure = getattr(self._credential, "failure", "the credential gave no token")
            raise UnauthenticatedError(failure, retryable=type(error).__name__ in _NETWORK_ERRORS) from error
