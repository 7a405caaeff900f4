"""VirtualiZarr's manifests as stores: `from_manifest_store`."""

from aiozarr.stores.reference.manifest_table import from_manifest_store

__all__ = ["from_manifest_store"]
