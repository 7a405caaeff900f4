"""The storage options of Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiozarr.stores.options.http_options import CLIENT_UNSUPPORTED, TRUST_UNSUPPORTED
from aiozarr.stores.options.option_table import Option, OptionTable, UnsupportedOption


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """The given options of an Azure store. None means that an option is not given.

    Attributes:
        account_name: the storage account.
        account_key: a key of the account.
        sas_token: a shared access signature, sent as the query of every request.
        connection_string: account and credentials as a connection string of Azure.
        credential: a credential of Azure's packages: an account key, a signature, or an object with `get_token`.
        token: a bearer token.
        tenant_id, client_id, client_secret: a service principal.
        federated_token_file, authority_host: a workload identity's token, and the authority that exchanges it.
        msi_endpoint, object_id, msi_resource_id: a managed identity, and the endpoint of its tokens.
        use_azure_cli: use the login of the Azure CLI.
        anon: send unsigned requests, to public containers.
        endpoint_url: the URL of the account's blobs, if it is not `https://ACCOUNT.blob.core.windows.net`.
        account_host: the host of that URL.
        use_emulator: the account is the one of the emulator on this machine.
        location_mode: `primary`, or `secondary` to read from the account's second region.
        container_name: the container; it must be the URL's.
        max_connections, idle_timeout, connect_timeout: as for `HTTPStore`.
    """

    account_name: str | None = None
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    connection_string: str | None = field(default=None, repr=False)
    credential: Any = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    federated_token_file: str | None = None
    authority_host: str | None = None
    msi_endpoint: str | None = None
    object_id: str | None = None
    msi_resource_id: str | None = None
    use_azure_cli: bool | None = None
    anon: bool | None = None
    endpoint_url: str | None = None
    account_host: str | None = None
    use_emulator: bool | None = None
    location_mode: str | None = None
    container_name: str | None = None
    max_connections: int | None = None
    idle_timeout: float | None = None
    connect_timeout: float | None = None


AZURE_TABLE = OptionTable(
    store="an Azure store",
    options=(
        Option("account_name"),
        Option("account_key", obstore=("access_key", "master_key")),
        Option("sas_token", obstore=("sas_key",)),
        Option("connection_string", "words"),
        Option("credential", "any"),
        Option("token", obstore=("bearer_token",), ours_only=True),
        Option("tenant_id", obstore=("authority_id",)),
        Option("client_id"),
        Option("client_secret", "words"),
        Option("federated_token_file", "words", ours_only=True),
        Option("authority_host", ours_only=True),
        Option("msi_endpoint", obstore=("identity_endpoint",), ours_only=True),
        Option("object_id", ours_only=True),
        Option("msi_resource_id", ours_only=True),
        Option("use_azure_cli", "flag", ours_only=True),
        Option("anon", "flag", obstore=("skip_signature",)),
        Option("endpoint_url", obstore=("endpoint",), ours_only=True),
        Option("account_host"),
        Option("use_emulator", "flag", ours_only=True),
        Option("location_mode"),
        Option("container_name", ours_only=True),
        Option("max_connections", "count", ours_only=True),
        Option("idle_timeout", "seconds", fsspec=("read_timeout",)),
        Option("connect_timeout", "seconds", fsspec=("connection_timeout",)),
    ),
    prefixes=("azure_storage_", "azure_"),
    nested=("config", "client_options"),
    without_effect=(
        "assume_container_exists",
        "asynchronous",
        "blocksize",
        "default_cache_type",
        "default_fill_cache",
        "disable_tagging",
        "listings_expiry_time",
        "loop",
        "max_concurrency",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    ),
    unsupported=(
        UnsupportedOption(
            ("timeout", "socket_timeout"), "requests may take as long as they make progress: `idle_timeout`"
        ),
        *CLIENT_UNSUPPORTED,
        *TRUST_UNSUPPORTED,
        UnsupportedOption(
            ("version_aware",), "the newest version of a blob is read; versions are not listed", only=(False,)
        ),
        UnsupportedOption(("request_session",), "the connections are the store's own", only=()),
        UnsupportedOption(("credential_provider",), "pass `credential`, an object with `get_token`", only=()),
        UnsupportedOption(("credential_type",), "the credentials that are given say which kind they are", only=()),
        UnsupportedOption(("encryption_key",), "keys of one's own would have to be sent with every read", only=()),
        UnsupportedOption(("prefix",), "the URL names container and prefix", only=()),
        UnsupportedOption(
            ("fabric_cluster_identifier", "fabric_session_token", "fabric_token_service_url", "fabric_workload_host"),
            "pass a token of Fabric's as `token`, or a `credential`",
            only=(),
        ),
        UnsupportedOption(
            ("use_fabric_endpoint",),
            "name it by the URL: abfss://container@onelake.dfs.fabric.microsoft.com/path",
            only=(False, "false", "False"),
        ),
    ),
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
        raise ValueError(f"the storage options {' and '.join(map(repr, found))} exclude each other")
    if options.anon and (found or options.connection_string is not None):
        raise ValueError("the storage option 'anon' sends no credentials, and credentials are given")
    if options.client_secret is not None and (options.client_id is None or options.tenant_id is None):
        raise ValueError("the storage option 'client_secret' goes with 'client_id' and 'tenant_id'")
    if options.endpoint_url is not None and options.account_host is not None:
        raise ValueError("the storage options 'endpoint_url' and 'account_host' exclude each other")
    if options.account_host is not None and "/" in options.account_host:
        raise ValueError("the storage option 'account_host' is a host, without scheme and path")
    if options.location_mode not in (None, "primary", "secondary"):
        raise ValueError("the storage option 'location_mode' is 'primary' or 'secondary'")
    if options.credential is not None and not _is_credential(options.credential):
        raise TypeError("the storage option 'credential' is an account key, a signature, or an object with 'get_token'")
    return options


def _is_credential(value: object) -> bool:
    if isinstance(value, str):
        return bool(value) and not any(ord(character) <= 0x20 or ord(character) == 0x7F for character in value)
    return callable(getattr(value, "get_token", None))
