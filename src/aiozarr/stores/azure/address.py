"""The storage options of Azure Blob Storage, and the endpoint of a container.

Pure functions find the endpoint in URL, options and environment. Azure's portal and tools give access to storage
accounts by connection strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiozarr.http1.url import WebAddress, parse_ip
from aiozarr.model import check_key
from aiozarr.stores.option_table import OptionTable, is_set, option, options_of


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """The given options of an Azure store. None means that an option is not given.

    Attributes:
        account_name: the storage account.
        account_key: a key of the account.
        sas_token: a shared access signature, sent as the query of every request.
        connection_string: account and credentials in one text, as the portal shows it.
        credential: an account key, a shared access signature, or an object with `get_token`.
        token: a bearer token.
        tenant_id: the tenant of a service principal or a workload identity.
        client_id: the client of a service principal, a workload identity or a managed identity.
        client_secret: the secret of a service principal; needs `tenant_id` and `client_id`.
        federated_token_file: the file with the token of a workload identity.
        authority_host: the authority that issues tokens, for sovereign clouds.
        object_id: a managed identity, by its object.
        msi_resource_id: a managed identity, by its resource.
        use_azure_cli: use the login of the Azure CLI.
        anon: send unsigned requests, for public containers.
        endpoint_url: the URL of the account's blobs, if it is not `https://ACCOUNT.blob.core.windows.net`.
        account_host: the host of that URL, instead of the URL.
        use_emulator: connect to the emulator on this machine.
        location_mode: `secondary` reads from the account's second region; `primary` is the default.
        max_connections: open connections for each event loop; 1024 by default.
        idle_timeout: time without progress after which a request fails; 20 s by default.
        connect_timeout: time to open a connection; 20 s by default.
    """

    account_name: str | None = option()
    account_key: str | None = option(shown=False, obstore=("access_key", "master_key"))
    sas_token: str | None = option(shown=False, obstore=("sas_key",))
    connection_string: str | None = option("words", shown=False)
    credential: Any = option("any", shown=False)
    token: str | None = option(shown=False, obstore=("bearer_token",), ours_only=True)
    tenant_id: str | None = option(obstore=("authority_id",))
    client_id: str | None = option()
    client_secret: str | None = option("words", shown=False)
    federated_token_file: str | None = option("words", ours_only=True)
    authority_host: str | None = option(ours_only=True)
    object_id: str | None = option(ours_only=True)
    msi_resource_id: str | None = option(ours_only=True)
    use_azure_cli: bool | None = option("flag", ours_only=True)
    anon: bool | None = option("flag", obstore=("skip_signature",))
    endpoint_url: str | None = option(obstore=("endpoint",), ours_only=True)
    account_host: str | None = option()
    use_emulator: bool | None = option("flag", ours_only=True)
    location_mode: str | None = option()
    max_connections: int | None = option("count", ours_only=True)
    idle_timeout: float | None = option("seconds", fsspec=("read_timeout",))
    connect_timeout: float | None = option("seconds", fsspec=("connection_timeout",))


AZURE_TABLE = OptionTable(
    store="an Azure store",
    options=options_of(AzureOptions),
    without_effect="assume_container_exists blocksize max_concurrency socket_timeout timeout",
)

_CREDENTIALS = ("account_key", "sas_token", "credential", "token", "client_secret", "use_azure_cli")


def azure_options(given: Mapping[str, Any]) -> AzureOptions:
    """Translate `storage_options` of an Azure store.

    An option that is None counts as not given.

    Raises:
        TypeError: an unknown option, or a value of the wrong type; the message lists the known ones.
        ValueError: one option is given twice with different values, or options contradict each other.
    """
    options = AzureOptions(**AZURE_TABLE.translate(given))
    empty = [name for name in _CREDENTIALS if getattr(options, name) == ""]
    if empty:
        raise ValueError(f"the storage option {empty[0]!r} is empty")
    found = [name for name in _CREDENTIALS if getattr(options, name)]
    if len(found) > 1:
        raise ValueError(f"the storage options {' and '.join(map(repr, found))} cannot be combined")
    if options.anon and (found or options.connection_string is not None):
        raise ValueError("the storage option 'anon' cannot be combined with credentials")
    if options.client_secret is not None and (options.client_id is None or options.tenant_id is None):
        raise ValueError("the storage option 'client_secret' needs 'client_id' and 'tenant_id'")
    if options.endpoint_url is not None and options.account_host is not None:
        raise ValueError("the storage options 'endpoint_url' and 'account_host' cannot be combined")
    if options.account_host is not None and "/" in options.account_host:
        raise ValueError("the storage option 'account_host' must be a host, without scheme and path")
    if options.location_mode not in (None, "primary", "secondary"):
        raise ValueError("the storage option 'location_mode' must be 'primary' or 'secondary'")
    if options.credential is not None and not _is_credential(options.credential):
        raise TypeError(
            "the storage option 'credential' must be an account key, a signature, or an object with 'get_token'"
        )
    return options


def _is_credential(value: object) -> bool:
    if isinstance(value, str):
        return bool(value) and not any(ord(character) <= 0x20 or ord(character) == 0x7F for character in value)
    return callable(getattr(value, "get_token", None))


EMULATOR_ACCOUNT = "devstoreaccount1"
EMULATOR_ENDPOINT = f"http://127.0.0.1:10000/{EMULATOR_ACCOUNT}"
EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Not a secret: it is in the documentation of the emulator, and only the emulator accepts it."""

PUBLIC_SUFFIX = "core.windows.net"

_STORAGE_ACCOUNT = re.compile(r"[A-Za-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """The parts of a connection string about blobs; None for missing ones.

    Attributes:
        account: the account's name.
        key: the account's key.
        sas: a shared access signature, without a question mark before it.
        endpoint: the URL of the account's blobs.
        secondary: the URL of the account's blobs in its secondary region, which can only be read.
    """

    account: str | None = None
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    secondary: str | None = None


def parse_connection_string(text: str) -> ConnectionString:
    """Parse a connection string; its parts about queues, tables and files are ignored.

    Raises:
        ValueError: it is not valid, or incomplete; the message does not show it.
    """
    settings: dict[str, str] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        name, separator, value = part.partition("=")
        name = name.strip().lower()
        if not separator or not name or not value.strip():
            raise ValueError("not a connection string; expected Name=Value pairs separated by ';'")
        if settings.setdefault(name, value.strip()) != value.strip():
            raise ValueError(f"the connection string contains {name!r} twice")
    if settings.get("usedevelopmentstorage", "").lower() == "true":
        return ConnectionString(EMULATOR_ACCOUNT, EMULATOR_KEY, endpoint=EMULATOR_ENDPOINT)
    account = settings.get("accountname")
    endpoint, secondary = settings.get("blobendpoint"), settings.get("blobsecondaryendpoint")
    if account is not None and not _STORAGE_ACCOUNT.fullmatch(account):  # it becomes a part of the host
        raise ValueError("the AccountName of the connection string may contain only letters, digits and '-'")
    if endpoint is None and account is not None:
        scheme = settings.get("defaultendpointsprotocol", "https").lower()
        suffix = settings.get("endpointsuffix", PUBLIC_SUFFIX)
        endpoint = f"{scheme}://{account}.blob.{suffix}"
        secondary = secondary or f"{scheme}://{account}-secondary.blob.{suffix}"
    if endpoint is None:
        raise ValueError("the connection string names no account; it needs AccountName or BlobEndpoint")
    sas = settings.get("sharedaccesssignature")
    if sas is not None and any(character.isspace() for character in sas):
        raise ValueError("the SharedAccessSignature of the connection string contains blanks")
    return ConnectionString(account, settings.get("accountkey"), sas and sas.removeprefix("?"), endpoint, secondary)


SCHEMES = ("az", "azure", "abfs", "abfss")

ACCOUNT_NAMES = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
"""Variables of the environment: obstore and adlfs read the first, the Azure CLI the second."""

ENDPOINTS = ("AZURE_STORAGE_SERVICE_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")

# "Naming and referencing containers, blobs, and metadata" in Azure's documentation; `$` marks those of Azure itself.
_CONTAINER = re.compile(r"(?=.{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*|\$root|\$web|\$logs")
_ACCOUNT = re.compile(r"[a-z0-9]{1,24}(?:-secondary)?")

# Hosts `ACCOUNT.dfs.SUFFIX` and `ACCOUNT.blob.SUFFIX`; an account may have a zone (`ACCOUNT.z01.blob.SUFFIX`).
_SUFFIXES = (
    PUBLIC_SUFFIX,
    "core.usgovcloudapi.net",
    "core.chinacloudapi.cn",
    "core.cloudapi.de",
    "storage.azure.net",
    "fabric.microsoft.com",
)
_HOST = re.compile(
    rf"(?P<account>[a-z0-9-]+)(?P<zone>\.z\d{{1,2}})?\.(?:dfs|blob)\.(?P<suffix>{'|'.join(map(re.escape, _SUFFIXES))})"
)


@dataclass(frozen=True, slots=True)
class AzureUrl:
    """The parts of a container's URL.

    Attributes:
        container: the container's name.
        root: a prefix ending with `/`, or `""`.
        account: the account's name, or None.
        endpoint: the URL of the account's blobs; None if the URL has no host.
        shown: the canonical URL of the container.
    """

    container: str
    root: str
    account: str | None
    endpoint: str | None
    shown: str


@dataclass(frozen=True, slots=True)
class AzureEndpoint:
    """A container's address.

    Attributes:
        container: the container's name.
        account: the account's name, for signatures.
        endpoint: the URL of the account's blobs, without a slash at its end.
        azure: True for Azure itself, False for another server with its protocol.
        secondary: True for the account's secondary region, which can only be read.
    """

    container: str
    account: str
    endpoint: str
    azure: bool
    secondary: bool = False

    @property
    def base(self) -> str:
        """The URL of the container."""
        return f"{self.endpoint}/{self.container}"

    @property
    def web(self) -> WebAddress:
        return WebAddress.parse(self.base)


def parse_url(url: str) -> AzureUrl:
    """Parse a URL: `az://container/root`, or `abfss://container@account.dfs.core.windows.net/root`.

    `azure://`, `abfs://` and `abfss://` are the same as `az://`. The rest of the account's host is optional. The
    path is not percent-encoded, as in adlfs.

    Raises:
        ValueError: it is not such a URL.
        InvalidKeyError: the root is not a valid key.
    """
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in SCHEMES or not separator:
        raise ValueError(
            "an Azure URL must have the form az://container/path or abfss://container@account.dfs.core.windows.net/path"
        )
    place, _, root = rest.partition("/")
    container, at, host = place.partition("@")
    if not _CONTAINER.fullmatch(container):
        raise ValueError(
            f"not a container name: {container!r}; expected 3 to 63 lower-case letters, digits and single hyphens"
        )
    root = root.removesuffix("/")
    root = f"{check_key(root)}/" if root else ""
    if not at:
        return AzureUrl(container, root, None, None, f"az://{container}")
    account, endpoint, shown = _host(host.lower())
    return AzureUrl(container, root, account, endpoint, f"abfss://{container}@{shown}")


def _host(host: str) -> tuple[str, str | None, str]:
    """Return account, endpoint and the shown host from the part of a URL after `@`."""
    if _ACCOUNT.fullmatch(host):
        return host, None, f"{host}.dfs.{PUBLIC_SUFFIX}"
    match = _HOST.fullmatch(host)
    if match is None:
        # No other host is accepted, because a URL from elsewhere could send it the credentials of the environment.
        raise ValueError(f"not an Azure storage host: {host!r}; use the option 'endpoint_url' for another server")
    account, zone, suffix = match["account"], match["zone"] or "", match["suffix"]
    return account, f"https://{account}{zone}.blob.{suffix}", f"{account}{zone}.dfs.{suffix}"


def find_endpoint(url: AzureUrl, options: AzureOptions, environ: Mapping[str, str]) -> AzureEndpoint:
    """Return the endpoint of the container of `url`.

    Options override the environment. A source that names the account overrides one that does not.

    Raises:
        ValueError: no account is named, or URL and options name different ones.
    """
    text = options.connection_string
    given = ConnectionString() if text is None else parse_connection_string(text)
    named = options.endpoint_url or (options.account_host and f"https://{options.account_host}")
    emulator = options.use_emulator or (options.use_emulator is None and is_set(environ, "AZURE_STORAGE_USE_EMULATOR"))
    account = _one_account(url.account, options.account_name, given.account)
    endpoint = named or given.endpoint or url.endpoint
    secondary = given.secondary if named is None else None
    if endpoint is None and account in (None, EMULATOR_ACCOUNT) and emulator:
        account, endpoint = EMULATOR_ACCOUNT, EMULATOR_ENDPOINT
    if endpoint is None:
        found = environment_connection(environ)
        if account is None or found.account == account:
            account, endpoint, secondary = account or found.account, found.endpoint, found.secondary
    account = account or next((environ[name] for name in ACCOUNT_NAMES if environ.get(name)), None)
    if endpoint is None and url.account is None:
        endpoint = next((environ[name] for name in ENDPOINTS if environ.get(name)), None)
    if endpoint is None:
        if account is None:
            raise ValueError("no storage account is named; set the option 'account_name'")
        endpoint = f"https://{_checked(account)}.blob.{PUBLIC_SUFFIX}"
    server = WebAddress.of_endpoint(endpoint)
    account = account or _account_of(server)
    shown = f"{server.shown}/{account}" if not server.path and _is_address(server.host) else server.shown
    if options.location_mode == "secondary":
        return AzureEndpoint(url.container, account, _secondary(secondary, server, account), _is_azure(server), True)
    return AzureEndpoint(url.container, account, shown, _is_azure(server))


def environment_connection(environ: Mapping[str, str]) -> ConnectionString:
    """Return the parsed connection string of the environment, empty if there is none."""
    text = environ.get("AZURE_STORAGE_CONNECTION_STRING")
    return parse_connection_string(text) if text else ConnectionString()


def _one_account(*names: str | None) -> str | None:
    found = {name for name in names if name is not None}
    if len(found) > 1:
        raise ValueError(f"URL and storage options name different accounts: {', '.join(sorted(found))}")
    return found.pop() if found else None


def _checked(account: str) -> str:
    if not _ACCOUNT.fullmatch(account):
        raise ValueError(f"not a storage account name: {account!r}; expected lower-case letters and digits")
    return account


def _account_of(server: WebAddress) -> str:
    """Return the account in an endpoint: in its path if the host is an address, else in the host."""
    if server.path:
        return server.path.rpartition("/")[2]
    if _is_address(server.host):
        raise ValueError("no storage account is named; set the option 'account_name'")
    return server.host.partition(".")[0]


def _is_address(host: str) -> bool:
    """Return whether an account is part of the path, because it cannot be part of the host's name."""
    return "." not in host or parse_ip(host) is not None


def _is_azure(server: WebAddress) -> bool:
    return server.secure and _HOST.fullmatch(server.host) is not None


def _secondary(named: str | None, server: WebAddress, account: str) -> str:
    if named is not None:
        return WebAddress.parse(named).shown
    if server.path:
        return f"{server.shown}-secondary"
    return server.shown.replace(f"://{account}.", f"://{account}-secondary.", 1)
