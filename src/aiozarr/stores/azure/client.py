"""obstore's client for one container of Azure, made from our options."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from aiozarr.stores.azure.access import Access
from aiozarr.stores.azure.address import AzurePlace
from aiozarr.stores.azure.tokens import Tokens
from aiozarr.stores.obstore.client import NO_RETRIES, client_options
from aiozarr.stores.options.azure import AzureOptions

if TYPE_CHECKING:
    from obstore.store import AzureStore

_OF_THE_CHAIN = (
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
    place: AzurePlace,
    options: AzureOptions,
    access: Access,
    tokens: Tokens | None,
    connect_timeout: float,
    *,
    keep_alive: bool = True,
) -> AzureStore:
    """Return an obstore client. It does not retry: the scheduler does, for all layers."""
    from obstore.exceptions import UnknownConfigurationKeyError
    from obstore.store import AzureStore

    # What is not said here the client takes from the environment, which may speak of another account.
    config: dict[str, Any] = {
        "account_name": place.account.removesuffix("-secondary"),
        "endpoint": place.endpoint,
        "use_emulator": False,
        "skip_signature": access.kind == "anonymous",
    }
    if access.kind == "chain":
        config["credential_type"] = access.link
        config["use_azure_cli"] = access.link == "azure_cli"
        config |= {name: value for name in _OF_THE_CHAIN if (value := getattr(options, name)) is not None}
    rest: dict[str, Any] = {
        "client_options": client_options(
            secure=place.web.secure, connect_timeout=connect_timeout, keep_alive=keep_alive
        ),
        "retry_config": {"max_retries": NO_RETRIES},
        "credential_provider": _provider(access, tokens),
    }
    try:
        return AzureStore(place.container, config=config, **rest)  # type: ignore[arg-type]
    except UnknownConfigurationKeyError:  # older versions choose by themselves, in the same order
        del config["credential_type"]
        return AzureStore(place.container, config=config, **rest)  # type: ignore[arg-type]


def _provider(access: Access, tokens: Tokens | None) -> Any:
    if tokens is not None:
        return tokens.provide
    name = {"key": "access_key", "sas": "sas_token", "token": "token"}.get(access.kind)
    return None if name is None else lambda: {name: access.secret, "expires_at": None}


def has_login() -> bool:
    """Return whether somebody is logged in with the Azure CLI, and the CLI is there."""
    folder = os.environ.get("AZURE_CONFIG_DIR", os.path.join("~", ".azure"))
    profile = os.path.join(os.path.expanduser(folder), "azureProfile.json")
    return os.path.isfile(profile) and shutil.which("az") is not None
