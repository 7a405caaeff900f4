"""The zip store with its two classes: on the local disk, and in another store."""

from aiozarr.stores.zip.local_zip import LocalZipStore
from aiozarr.stores.zip.remote_zip import RemoteZipStore
from aiozarr.stores.zip.zip_store import ZipMode, ZipStore

__all__ = ["LocalZipStore", "RemoteZipStore", "ZipMode", "ZipStore"]
