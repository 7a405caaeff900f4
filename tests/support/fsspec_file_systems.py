"""File systems of fsspec that check how they are called: on which loop, and by how many threads at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from typing import Any, ClassVar

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem

Files = dict[str, bytes]


def listed(files: Files, directories: set[str], path: str) -> list[dict[str, Any]]:
    """Return the result of `ls` for `path`."""
    below = f"{path}/" if path else ""
    found: dict[str, dict[str, Any]] = {}
    for name, data in files.items():
        if name.startswith(below):
            first, slash, _ = name[len(below) :].partition("/")
            size = 0 if slash else len(data)
            found[first] = {"name": below + first, "size": size, "type": "directory" if slash else "file"}
    for name in directories:
        if name.startswith(below) and name != path:
            first = name[len(below) :].partition("/")[0]
            found.setdefault(first, {"name": below + first, "size": 0, "type": "directory"})
    if not found and path and path not in directories:
        raise FileNotFoundError(path)
    return list(found.values())


class AsyncFiles(AsyncFileSystem):
    """An asynchronous file system whose calls must all be on one loop; `space` says which files it sees."""

    protocol = "asyncfiles"
    spaces: ClassVar[dict[str, Files]] = defaultdict(dict)

    def __init__(self, space: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.files = self.spaces[space]
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.under_way = 0

    async def _visit(self) -> None:
        self.loops.add(asyncio.get_running_loop())
        assert len(self.loops) == 1, "attached to a different loop"
        self.under_way += 1
        try:
            await asyncio.sleep(0.0005)
        finally:
            self.under_way -= 1

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        await self._visit()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][start:end]

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        await self._visit()
        self.files[path] = value

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._visit()
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(path)

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        await self._visit()
        if path in self.files:
            return {"name": path, "size": len(self.files[path]), "type": "file"}
        listed(self.files, set(), path)
        return {"name": path, "size": 0, "type": "directory"}

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        await self._visit()
        found = listed(self.files, set(), path)
        return found if detail else [one["name"] for one in found]


class Tree(AbstractFileSystem):
    """A blocking file system with directories that must be there, which no two threads may use at once."""

    protocol = "sftp"  # so that it is taken for a known one, whose empty directories may be removed
    spaces: ClassVar[dict[str, tuple[Files, set[str]]]] = defaultdict(lambda: ({}, set()))

    def __init__(self, space: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.files, self.directories = self.spaces[space]
        self.thread = threading.Lock()

    def _enter(self) -> None:
        assert self.thread.acquire(blocking=False), "two threads at once"
        time.sleep(0)
        self.thread.release()

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self._enter()
        if path in self.directories:
            raise IsADirectoryError(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][start:end]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self._enter()
        above = path.rpartition("/")[0]
        if above and above not in self.directories:
            raise FileNotFoundError(path)
        if path in self.directories:
            raise IsADirectoryError(path)
        self.files[path] = value

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._enter()
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            directory = "/".join(parts[:count])
            if directory in self.files:
                raise NotADirectoryError(directory)
            self.directories.add(directory)

    def rmdir(self, path: str) -> None:
        self._enter()
        if any(name.startswith(f"{path}/") for name in (*self.files, *self.directories)):
            raise OSError("not empty")
        self.directories.discard(path)

    def rm_file(self, path: str) -> None:
        self._enter()
        if path not in self.files:
            raise OSError(f"no file: {path}")
        del self.files[path]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        self._enter()
        if path in self.files:
            return {"name": path, "size": len(self.files[path]), "type": "file"}
        if path in self.directories:
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        self._enter()
        found = listed(self.files, self.directories, path)
        return found if detail else [one["name"] for one in found]
