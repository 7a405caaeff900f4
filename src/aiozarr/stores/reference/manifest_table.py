"""The references of VirtualiZarr's `ManifestStore`, whose manifests are columns already."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Hashable, Iterable, Mapping
from typing import Any
from urllib.parse import urlparse

import numpy as np

from aiozarr.model import Entry
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.contract import Store
from aiozarr.stores.obspec_store import from_obspec
from aiozarr.stores.reference.columns import MISSING, KeyFamily, Reference, ReferenceColumns, Target, split_chunk_key
from aiozarr.stores.reference.guard import longest_prefix
from aiozarr.stores.reference.reference_opening import check_resolve, store_of_table
from aiozarr.stores.reference.table import Found, LoadedReferences, ReferenceTable
from aiozarr.stores.reference.target_stores import TargetStore
from aiozarr.stores.urls import from_url

_MISSING_PATH, _INLINED_PATH = "", "__inlined__"


def from_manifest_store(store: Any, *, resolve: Mapping[str, Mapping[str, Any] | Store | None] | None = None) -> Store:
    """Return a read-only store of the arrays in a VirtualiZarr `ManifestStore`.

    Objects are read from the stores of its registry, through aiozarr's own clients if these support the same options.
    Ranges of one object are merged into few requests.

    Args:
        store: the `ManifestStore`.
        resolve: as in `aiozarr.stores.from_references`, for locations that the registry does not have, or instead of
            its stores.

    Raises:
        TypeError: an argument has another type.
    """
    members = getattr(store, "__dict__", {})
    if not {"_group", "_registry"} <= members.keys():
        raise TypeError(f"expected a VirtualiZarr ManifestStore, not {type(store).__name__}")
    return store_of_table(
        ManifestTable(members["_group"], members["_registry"], tuple(check_resolve(resolve))),
        url="manifests://",
        identity=("manifests", os.urandom(16)),
        open_url=from_url,
        resolve=resolve,
    )


class ManifestTable(ReferenceTable):
    """The references of a `ManifestStore`; those of an array become columns when the first is needed.

    Args:
        group: its root group.
        registry: its registry of stores.
        named: prefixes of URLs that the user has named, whose stores are found by the URL.
    """

    def __init__(self, group: Any, registry: Any, named: Iterable[str]) -> None:
        from zarr.core.buffer import default_buffer_prototype

        self._registry = registry
        self._named = named
        self._stores: dict[int, TargetStore] = {}
        self._documents = LoadedReferences()
        self._manifests: dict[KeyFamily, Any] = {}
        self._arrays: dict[KeyFamily, LoadedReferences] = {}
        pending = [("", group)]
        while pending:
            path, node = pending.pop()
            prefix = f"{path}/" if path else ""
            document = node.metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"].to_bytes()
            self._documents.add_single(f"{prefix}zarr.json", document)
            if hasattr(node, "manifest"):
                self._add_array(prefix, node)
            else:
                pending += [(prefix + name, child) for name, child in {**node.arrays, **node.groups}.items()]

    def _add_array(self, prefix: str, node: Any) -> None:
        manifest = node.manifest
        dimensions = len(node.metadata.shape)
        key = prefix + node.metadata.chunk_key_encoding.encode_chunk_key((0,) * dimensions)
        split = split_chunk_key(key)
        if dimensions and split is not None:
            self._manifests[split[0]] = manifest
        elif () in vars(manifest)["_inlined"]:
            self._documents.add_single(key, bytes(vars(manifest)["_inlined"][()]))
        elif (entry := manifest.get_entry(())) is not None:
            self._documents.add_single(key, Reference(self._target(entry["path"]), entry["offset"], entry["length"]))

    def unloaded_part(self, key: str) -> Hashable:
        split = split_chunk_key(key)
        return None if split is None or split[0] not in self._manifests or split[0] in self._arrays else split[0]

    async def load(self, part: Hashable) -> None:
        assert isinstance(part, KeyFamily)
        if part not in self._arrays:
            self._arrays[part] = await in_thread(lambda: self._load_array(part))

    def _load_array(self, family: KeyFamily) -> LoadedReferences:
        manifest, loaded = self._manifests[family], LoadedReferences()
        own = vars(manifest)
        paths, numbers = np.unique(own["_paths"].ravel(), return_inverse=True)
        objects = np.full(len(paths), MISSING, np.int32)
        for number, path in enumerate(paths.tolist()):
            if path not in (_MISSING_PATH, _INLINED_PATH):
                objects[number] = len(loaded.targets)
                loaded.targets.append(self._target(path))
        for place, data in own["_inlined"].items():
            loaded.add_single(family.prefix + family.separator.join(map(str, place)), bytes(data))
        starts, lengths = [each.ravel().astype(np.int64) for each in (own["_offsets"], own["_lengths"])]
        grid = manifest.shape_chunk_grid
        loaded.add_columns(ReferenceColumns(family, grid, None, objects[numbers.ravel()], starts, lengths))
        return loaded

    def _target(self, url: str) -> Target:
        """Return the object of a URL, as `ManifestStore` finds it; the URL itself if no registered store has it."""
        if longest_prefix(url, self._named):
            return url
        try:
            store, _ = self._registry.resolve(url)
        except ValueError:
            return url
        target = self._stores.get(id(store))
        if target is None:
            target = self._stores.setdefault(id(store), TargetStore(from_obspec(store)))
        prefix = str(store.prefix) if getattr(store, "prefix", None) else urlparse(getattr(store, "url", "")).path
        return target, urlparse(url).path.lstrip("/").removeprefix(prefix.lstrip("/")).lstrip("/")

    def find(self, key: str) -> Found | None:
        split = split_chunk_key(key)
        loaded = None if split is None else self._arrays.get(split[0])
        return (loaded or self._documents).find(key)

    async def scan(self, prefix: str) -> AsyncIterator[Entry]:
        async for entry in self._documents.scan(prefix):
            yield entry
        for family in self._manifests:
            if family.prefix.startswith(prefix) or prefix.startswith(family.prefix):
                await self.load(family)
                async for entry in self._arrays[family].scan(prefix):
                    yield entry

    async def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
        keys, prefixes = await self._documents.list_dir(prefix)
        for family in self._manifests:
            rest = family.prefix[len(prefix) :]
            if family.prefix.startswith(prefix) and "/" in rest:
                prefixes.add(f"{prefix}{rest.partition('/')[0]}/")
            elif family.prefix.startswith(prefix) or prefix.startswith(family.prefix):
                await self.load(family)
                for found, names in zip((keys, prefixes), await self._arrays[family].list_dir(prefix), strict=True):
                    found.update(names)
        return keys, prefixes
