"""The storage options of Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiozarr.stores.options.option_table import OptionTable, option, options_of


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
        object_id, msi_resource_id: a managed identity other than the machine's own.
        use_azure_cli: use the login of the Azure CLI.
        anon: send unsigned requests, to public containers.
        endpoint_url: the URL of the account's blobs, if it is not `https://ACCOUNT.blob.core.windows.net`.
        account_host: the host of that URL.
        use_emulator: the account is the one of the emulator on this machine.
        location_mode: `primary`, or `secondary` to read from the account's second region.
        container_name: the container; it must be the URL's.
        max_connections, idle_timeout, connect_timeout: as for `HTTPStore`.
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
    container_name: str | None = option(ours_only=True)
    max_connections: int | None = option("count", ours_only=True)
    idle_timeout: float | None = option("seconds", fsspec=("read_timeout",))
    connect_timeout: float | None = option("seconds", fsspec=("connection_timeout",))


AZURE_TABLE = OptionTable(
    store="an Azure store",
    options=options_of(AzureOptions),
    prefixes=("azure_storage_", "azure_"),
    nested=("config", "client_options"),
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
