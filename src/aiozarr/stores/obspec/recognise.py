"""Makes the store of an object with obspec's methods: aiozarr's own store where it can be exactly the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from aiozarr.errors import AiozarrError
from aiozarr.stores.contract import Store
from aiozarr.stores.obspec.errors import is_of_obstore
from aiozarr.stores.obspec.store import GetAsync, ObspecStore
from aiozarr.stores.urls import from_url

_BUCKETS = {"S3Store": ("s3", "bucket"), "GCSStore": ("gs", "bucket"), "AzureStore": ("az", "container_name")}
_KEY_PAIR = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})
_CREDENTIALS = frozenset(
    {"access_key_id", "account_key", "sas_key", "service_account_key", "service_account", "bearer_token"}
)
"""Options of obstore, one of which says whose requests these are. Without one both libraries search, and may differ."""


def from_obspec(obj: object, *, url: str | None = None, native: bool = True) -> Store:
    """Return a store over an object with obspec's methods.

    A store of obstore's own classes is served by aiozarr's own client instead, with the same bucket, prefix and
    credentials, where every option of it has the same meaning here. Others are asked by their methods.

    Args:
        obj: an object with at least `get_async`, and further methods of obspec, such as `put_async`.
        url: the canonical URL of its root, without secrets, which messages name.
        native: whether stores of obstore may be served by aiozarr's own client.

    Raises:
        TypeError: `obj` has no `get_async`.
    """
    if isinstance(obj, Store):
        return obj
    if not hasattr(obj, "get_async"):
        raise TypeError(f"an object with obspec's methods has get_async, and {type(obj).__name__} has none")
    own = native_store(obj) if native else None
    return own or ObspecStore(cast("GetAsync", obj), url=url or _url_of(obj))


def native_store(obj: object) -> Store | None:
    """Return aiozarr's own store for a store of obstore, or None if it would differ from it in any way."""
    kind = type(obj)
    if not is_of_obstore(obj):
        return None
    given: Any = obj
    if kind.__name__ == "LocalStore":
        return from_url(given.prefix) if given.prefix else None
    client_options = {name: _plain(value) for name, value in (getattr(obj, "client_options", None) or {}).items()}
    if kind.__name__ == "HTTPStore":
        # Timeouts, for example, are of the whole request there.
        return _opened(given.url, client_options) if client_options.keys() <= {"allow_http"} else None
    url = _url_of(obj)
    if kind.__name__ not in _BUCKETS or url is None or given.credential_provider is not None:
        return None
    _, bucket = _BUCKETS[kind.__name__]
    options = {name: _plain(value) for name, value in given.config.items() if name != bucket}
    named = bool(_CREDENTIALS & options.keys()) or options.get("skip_signature") is True
    # Both libraries take this pair before they search elsewhere.
    if not named and not (kind.__name__ == "S3Store" and os.environ.keys() >= _KEY_PAIR):
        return None
    if client_options:
        options["client_options"] = client_options
    return _opened(f"{url}/", options)


def _opened(url: str, options: Mapping[str, Any]) -> Store | None:
    """Return the own store of `url`, or None if it lacks one of the options."""
    try:
        return from_url(url, **options)
    except (AiozarrError, ImportError, TypeError, ValueError):
        return None


def _url_of(obj: object) -> str | None:
    """Return the URL of a store of obstore's own classes, or None for any other object."""
    kind, given = type(obj), obj
    if not is_of_obstore(obj):
        return None
    config: Mapping[str, str] = getattr(given, "config", {})
    prefix = getattr(given, "prefix", None)
    if kind.__name__ in _BUCKETS:
        scheme, bucket = _BUCKETS[kind.__name__]
        root = f"{scheme}://{config[bucket]}" if bucket in config else None
        return root and (f"{root}/{prefix.strip('/')}" if prefix else root)
    if kind.__name__ == "LocalStore" and prefix is not None:
        return Path(prefix).absolute().as_uri()
    url = getattr(given, "url", None)
    return url if isinstance(url, str) and "@" not in url else None


def _plain(value: Any) -> Any:
    """Return an option as a caller writes it: obstore gives back flags as text."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
