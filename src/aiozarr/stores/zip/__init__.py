"""The zip store, with both of its kinds: who has this has either."""

from aiozarr.stores.zip.base import ZipMode, ZipStore
from aiozarr.stores.zip.local import LocalZipStore
from aiozarr.stores.zip.remote import RemoteZipStore

__all__ = ["LocalZipStore", "RemoteZipStore", "ZipMode", "ZipStore"]
