"""Which service opens which URLs; its module is imported only then."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiozarr.stores.object.service import Service

SERVICES = {
    "s3": "aiozarr.stores.s3.service",
    "s3a": "aiozarr.stores.s3.service",
    **dict.fromkeys(("gs", "gcs"), "aiozarr.stores.gcs.service"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "aiozarr.stores.azure.service"),
}
"""The schemes of URLs, and the module whose function `open_service` opens them."""


def open_service(url: str, storage_options: Mapping[str, Any]) -> tuple[Service, str]:
    """Return the service of the bucket that `url` is in, and the root below it: `""`, or a prefix ending with `/`.

    Raises:
        ValueError: the URL or an option is not valid, or options contradict each other.
        TypeError: an unknown option; the message lists the known ones.
    """
    scheme, separator, _ = url.partition("://")
    module = SERVICES.get(scheme.lower())
    if not separator or module is None:
        known = ", ".join(f"{name}://" for name in SERVICES)
        raise ValueError(f"an object store's URL is scheme://bucket/path, and its scheme one of {known}")
    found: tuple[Service, str] = import_module(module).open_service(url, storage_options)
    return found
