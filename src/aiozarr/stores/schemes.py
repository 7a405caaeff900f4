"""The schemes of all stores that aiozarr reaches over HTTP, and the modules that open their URLs.

A scheme in `REMOTE_STORES` gets everything that stores on servers have. The URL of a file whose name ends with `.zip`
is opened as an archive, the timeouts of `Settings` hold for the store, and OpenTelemetry describes its requests as
requests over HTTP.
"""

from __future__ import annotations

from aiozarr.errors import UnknownSchemeError

BUCKET_CLIENTS = {
    **dict.fromkeys(("s3", "s3a"), "aiozarr.stores.s3.bucket_client"),
    **dict.fromkeys(("gs", "gcs"), "aiozarr.stores.gcs.bucket_client"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "aiozarr.stores.azure.bucket_client"),
}
"""The schemes of buckets, and the module whose function `open_bucket` opens their URLs. It is imported only then."""

REMOTE_STORES = {
    **dict.fromkeys(("http", "https"), ("aiozarr.stores.http.store", "HTTPStore")),
    **dict.fromkeys(BUCKET_CLIENTS, ("aiozarr.stores.bucket.store", "ObjectStore")),
}
"""The schemes, and the module and name of the class that opens their URLs. The module is imported only then."""

_CACHES = frozenset({"simplecache", "filecache", "blockcache", "cached"})


def refuse_cache(protocol: str) -> None:
    """Refuse the protocols of fsspec's caches.

    Raises:
        UnknownSchemeError: `protocol` is one of them.
    """
    if protocol in _CACHES:
        raise UnknownSchemeError(
            f"{protocol}:: is not supported, because fsspec's caches return values that were replaced; give the URL "
            "alone with the storage option cache_directory, as in storage_options={'cache_directory': "
            "'/var/cache/zarr'}, or wrap the store in aiozarr.stores.CacheStore"
        )
