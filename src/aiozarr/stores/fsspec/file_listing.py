"""Lists files as keys: by one flat listing if the file system has it, else by a walk over directories."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import unquote

from aiozarr.concurrency import map_concurrently
from aiozarr.errors import InvalidKeyError
from aiozarr.model import Entry, check_key
from aiozarr.stores.fsspec.errors import is_missing_file, is_missing_in_listing
from aiozarr.stores.fsspec.file_system_calls import FileSystemCalls
from aiozarr.stores.fsspec.object_reads import size_in
from aiozarr.stores.fsspec.traits import FileSystemTraits

CONCURRENCY = 16
"""Directories that are listed at once."""


class FileLister:
    """Lists files below the root at `base`."""

    def __init__(self, calls: FileSystemCalls, traits: FileSystemTraits, base: str) -> None:
        self._calls, self._traits, self._base = calls, traits, base

    async def scan(self, prefix: str) -> AsyncGenerator[list[Entry], None]:
        """Iterate over the files whose keys start with `prefix`: page by page, directory by directory."""
        if self._traits.flat:
            found = await self._list("find", prefix, {})
            yield [entry for info in found.values() if (entry := self._entry(info, prefix)) is not None]
            return
        pending = [prefix]
        while pending:
            some, pending = pending[:CONCURRENCY], pending[CONCURRENCY:]
            for infos, above in zip(
                await map_concurrently(self._level, some, concurrency=CONCURRENCY), some, strict=True
            ):
                yield [entry for info in infos if (entry := self._entry(info, above)) is not None]
                pending += [name for info in infos if (name := self._directory(info, above)) is not None]

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes one level below it."""
        infos = await self._level(prefix)
        keys = {entry.key for info in infos if (entry := self._entry(info, prefix)) is not None}
        prefixes = {name for info in infos if (name := self._directory(info, prefix)) is not None}
        return sorted(key for key in keys if "/" not in key[len(prefix) :]), sorted(prefixes)

    async def _level(self, prefix: str) -> list[Mapping[str, Any]]:
        return list(await self._list("ls", prefix, []))

    async def _list(self, method: str, prefix: str, nothing: Any) -> Any:
        path = (self._base + prefix).rstrip("/") or self._base
        try:
            return await self._calls.read(method, path, detail=True, fresh=True)
        except Exception as error:
            if is_missing_file(error) or is_missing_in_listing(error):
                return nothing
            raise

    def _entry(self, info: Mapping[str, Any], prefix: str) -> Entry | None:
        """Return the entry of a file below `prefix`, or None for directories, their markers and invalid keys."""
        key = self._key(info, prefix)
        if key is None or info.get("type", "file") == "directory":
            return None
        return Entry(key, size_in(info) if self._traits.sizes else None)

    def _directory(self, info: Mapping[str, Any], prefix: str) -> str | None:
        if info.get("type") != "directory":
            return None
        key = self._key({**info, "name": str(info["name"]).rstrip("/")}, prefix)
        return None if key is None else f"{key}/"

    def _key(self, info: Mapping[str, Any], prefix: str) -> str | None:
        # Some file systems return names with the slash of their root, some without.
        name, base = str(info["name"]).lstrip("/"), self._base.lstrip("/")
        if not name.startswith(base):
            return None
        key = unquote(name[len(base) :]) if self._traits.encoded else name[len(base) :]
        if not key.startswith(prefix):
            return None
        try:
            return check_key(key)
        except InvalidKeyError:
            return None
