"""The zip store, with both of its kinds: who has this has either."""

from aiozarr.stores.zip_base import ZipMode, ZipStore
from aiozarr.stores.zip_local import LocalZipStore
from aiozarr.stores.zip_remote import RemoteZipStore

__all__ = ["LocalZipStore", "RemoteZipStore", "ZipMode", "ZipStore"]
