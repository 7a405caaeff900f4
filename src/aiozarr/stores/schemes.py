"""The schemes of object stores. The clients themselves are imported when a URL of their scheme is opened."""

from __future__ import annotations

BUCKET_CLIENTS = {
    "s3": "aiozarr.stores.s3.bucket_client",
    "s3a": "aiozarr.stores.s3.bucket_client",
    **dict.fromkeys(("gs", "gcs"), "aiozarr.stores.gcs.bucket_client"),
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), "aiozarr.stores.azure.bucket_client"),
}
"""The schemes of URLs, and the module whose function `open_bucket` opens them. It is imported only then."""
