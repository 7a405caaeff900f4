"""Reads through caches of fsspec. After a failed transfer they may report a missing, a truncated or a zero file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from aiozarr.errors import StoreError


def method_of(fs: Any, name: str) -> Callable[..., Any]:
    """Return the method `name` of a blocking file system; for a cache, a variant that handles failures."""
    from fsspec.implementations.cached import CachingFileSystem

    if name in _METHODS and isinstance(fs, CachingFileSystem):
        return lambda path, **arguments: _METHODS[name](fs, path, **arguments)
    method: Callable[..., Any] = getattr(fs, name)
    return method


def _info(fs: Any, path: str, **arguments: Any) -> Mapping[str, Any]:
    """Ask the file system below: `filecache` and `blockcache` use the listing of the directory, which HTTP lacks."""
    info: Mapping[str, Any] = method_of(fs.fs, "info")(path, **arguments)
    return {**info, "size": None} if fs.compression else info


def _cat_file(fs: Any, path: str, **arguments: Any) -> Any:
    """Read through the cache; a failure of the file system below is raised unchanged."""
    from fsspec.implementations.cached import WholeFileCacheFileSystem

    path = fs._strip_protocol(path)
    if isinstance(fs, WholeFileCacheFileSystem):
        if not fs._check_file(path):
            # A cache reports any failure as a missing file.
            method_of(fs.fs, "info")(path) if fs.compression else _download(fs, path)
        try:
            return fs.cat_file(path, **arguments)
        except FileNotFoundError as error:
            raise _lost() from error
        except Exception:
            _forget(fs, path)
            raise
    try:
        return fs.cat_file(path, **arguments)
    except Exception:
        # Blocks are marked as cached before they are received: the next reader would get zeros.
        _forget(fs, path)
    return method_of(fs.fs, "cat_file")(path, **arguments)


def _download(fs: Any, path: str) -> None:
    """Download the whole file into the cache, or nothing: a truncated transfer leaves no file."""
    from fsspec.implementations.cached import SimpleCacheFileSystem

    fs._mkcache()
    with tempfile.TemporaryDirectory(dir=fs.storage[-1], prefix="part-") as folder:
        part = os.path.join(folder, "part")
        try:
            fs.fs.get_file(path, part)
        except FileNotFoundError as error:
            if error.filename == part:
                raise _lost() from error
            raise
        except FileExistsError:
            method_of(fs.fs, "info")(path)  # the memory file system raises it for a path below a file
            raise
        if not os.path.isfile(part):
            if method_of(fs.fs, "info")(path).get("type") == "directory":
                raise IsADirectoryError(path)
            raise StoreError("the file system downloaded no file")
        if isinstance(fs, SimpleCacheFileSystem):
            os.replace(part, os.path.join(fs.storage[-1], fs._mapper(path)))
        else:
            os.replace(part, fs._make_local_details(path))
            fs.save_cache()


def _forget(fs: Any, path: str) -> None:
    """Remove the file from the cache."""
    from fsspec.implementations.cached import SimpleCacheFileSystem

    with contextlib.suppress(Exception):  # the folder may be read-only, or missing
        if isinstance(fs, SimpleCacheFileSystem):
            os.remove(os.path.join(fs.storage[-1], fs._mapper(path)))
        else:
            fs.pop_from_cache(path)


def _lost() -> StoreError:
    """Return the error for a file that is missing in the cache itself."""
    return StoreError("the cache lost a file", retryable=True)


_METHODS: dict[str, Callable[..., Any]] = {"info": _info, "cat_file": _cat_file}
