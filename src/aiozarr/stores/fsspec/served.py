"""Which instance of a file system does the work: one whose coroutines run on a loop that lives on."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from aiozarr.stores.fsspec.traits import is_async


def served(fs: Any) -> Any:
    """Return the instance that serves for `fs`.

    Where `fs` was made with `asynchronous=True`, its connections belong to whatever loop uses it first; then, and where
    its loop does not run, it is a twin by the same arguments, which lives on fsspec's own loop.
    """
    from fsspec.asyn import get_loop

    if not is_async(fs):
        return fs
    if not fs.asynchronous:
        loop = fs.loop
        if loop is get_loop() or loop.is_running():
            return fs
    return made_again(fs)


def made_again(value: Any) -> Any:
    """Return a file system by the same arguments as `value`, on fsspec's own loop; other values come back as they are.

    File systems among the arguments are made again too.
    """
    from fsspec import AbstractFileSystem

    if isinstance(value, Mapping):
        return {name: made_again(each) for name, each in value.items()}
    if not isinstance(value, AbstractFileSystem):
        return value
    options = {name: each for name, each in value.storage_options.items() if name not in ("asynchronous", "loop")}
    if type(value).__name__ == "AsyncFileSystemWrapper":
        options["asynchronous"] = False  # it would take the running loop for a reason to be asynchronous
    return type(value)(*map(made_again, value.storage_args), **made_again(options))


def fingerprint_of(fs: Any) -> str:
    """Return what tells `fs` from file systems by other arguments, in this process, without telling them.

    fsspec's own token also says which thread has made a file system, and not which file systems it stands on.
    """
    return sha256(_described(fs).encode("utf-8", "backslashreplace")).hexdigest()


def _described(value: Any) -> str:
    from fsspec import AbstractFileSystem

    if isinstance(value, AbstractFileSystem):
        kind = type(value)
        if kind.protocol == "memory" and value.__dict__.get("store") is not None:
            return f"{kind.__qualname__}@{id(value)}"  # one that shares nothing
        options = {name: each for name, each in value.storage_options.items() if name not in ("asynchronous", "loop")}
        options.pop("skip_instance_cache", None)
        return f"{kind.__module__}.{kind.__qualname__}({_described(value.storage_args)}, {_described(options)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{name!r}: {_described(each)}' for name, each in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    return f"{type(value).__qualname__} {value!r}"
