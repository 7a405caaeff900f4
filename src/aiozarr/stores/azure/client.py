"""obstore's client for one container of Azure, made from the options."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from aiozarr.stores.azure.address import AzureEndpoint
from aiozarr.stores.azure.credentials import AzureCredentials
from aiozarr.stores.azure.tokens import AzureTokenSource
from aiozarr.stores.obstore.client_options import NO_RETRIES, client_options
from aiozarr.stores.options.azure_options import AzureOptions

if TYPE_CHECKING:
    from obstore.store import AzureStore

_CHAIN_OPTIONS = (
    "tenant_id",
    "client_id",
    "client_secret",
    "federated_token_file",
    "authority_host",
    "msi_endpoint",
    "object_id",
    "msi_resource_id",
)


def make_client(
    endpoint: AzureEndpoint,
    options: AzureOptions,
    credentials: AzureCredentials,
    tokens: AzureTokenSource | None,
    connect_timeout: float,
    *,
    keep_alive: bool = True,
) -> AzureStore:
    """Return an obstore client without retries: the scheduler retries, for all stores."""
    from obstore.exceptions import UnknownConfigurationKeyError
    from obstore.store import AzureStore

    # The client takes missing options from the environment, which may be about another account.
    config: dict[str, Any] = {
        "account_name": endpoint.account.removesuffix("-secondary"),
        "endpoint": endpoint.endpoint,
        "use_emulator": False,
        "skip_signature": credentials.kind == "anonymous",
    }
    if credentials.kind == "chain":
        config["credential_type"] = credentials.link
        config["use_azure_cli"] = credentials.link == "azure_cli"
        config |= {name: value for name in _CHAIN_OPTIONS if (value := getattr(options, name)) is not None}
    rest: dict[str, Any] = {
        "client_options": client_options(
            secure=endpoint.web.secure, connect_timeout=connect_timeout, keep_alive=keep_alive
        ),
        "retry_config": {"max_retries": NO_RETRIES},
        "credential_provider": _provider(credentials, tokens),
    }
    try:
        return AzureStore(endpoint.container, config=config, **rest)  # type: ignore[arg-type]
    except UnknownConfigurationKeyError:  # older versions choose the type themselves, in the same order
        del config["credential_type"]
        return AzureStore(endpoint.container, config=config, **rest)  # type: ignore[arg-type]


def _provider(credentials: AzureCredentials, tokens: AzureTokenSource | None) -> Any:
    if tokens is not None:
        return tokens.provide
    name = {"key": "access_key", "sas": "sas_token", "token": "token"}.get(credentials.kind)
    return None if name is None else lambda: {name: credentials.secret, "expires_at": None}


def has_login() -> bool:
    """Return whether the Azure CLI is installed and has a login."""
    folder = os.environ.get("AZURE_CONFIG_DIR", os.path.join("~", ".azure"))
    profile = os.path.join(os.path.expanduser(folder), "azureProfile.json")
    return os.path.isfile(profile) and shutil.which("az") is not None
