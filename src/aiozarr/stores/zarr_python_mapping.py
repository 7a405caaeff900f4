"""Maps zarr-python's stores to the engine's: to a native store if that is exactly equivalent, else to an adapter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.stores.contract import Store
from aiozarr.stores.prefix_store import PrefixStore
from aiozarr.stores.zarr_python_store import AdaptedStore, BufferStore

_mapped: dict[int, tuple[ref[Any], Store | None]] = {}
_lock = ForkSafeLock()


def engine_store(store: Any, loop: asyncio.AbstractEventLoop) -> Store:
    """Return the store that the engine reads and writes in place of `store`, a store of zarr-python.

    Args:
        store: the store of zarr-python.
        loop: the loop that it belongs to, on which an adapter calls it.
    """
    found = _mapped.get(id(store))
    if found is None or found[0]() is not store:
        found = _remember(store, native_store(store))
    return AdaptedStore(store, loop) if found[1] is None else found[1]


def _remember(store: Any, native: Store | None) -> tuple[ref[Any], Store | None]:
    number = id(store)
    # By the argument, because a module has lost its names when the interpreter exits.
    forget = partial(_mapped.pop, number, None)
    entry = (ref(store, lambda _: forget()), native)
    with _lock:
        _mapped[number] = entry
    return entry


def native_store(store: Any) -> Store | None:
    """Return a store of aiozarr that reaches the same objects with the same rights, or None if that is not certain.

    Only zarr-python's own classes count, because subclasses may have overridden anything.
    """
    kind = type(store)
    mapping = _NATIVE.get(f"{kind.__module__}.{kind.__qualname__}")
    if mapping is None:
        return None
    try:
        return mapping(store)
    except (TypeError, ValueError, ImportError, OSError, AttributeError):
        # aiozarr's own client lacks an option, or does not run on this system.
        return None


def from_zarr(target: Any) -> Store:
    """Return a store for a store of zarr-python, or for the location of its `Group` or `Array`.

    A store without an equivalent is called on the loop of zarr-python's blocking functions.
    """
    from zarr.core.sync import _get_loop

    place = getattr(target, "store_path", None)
    store = target if place is None else place.store
    found = native_store(store) or AdaptedStore(store, _get_loop())
    path = "" if place is None else place.path.strip("/")
    if not path:
        return found
    return found.child_store(path) or PrefixStore(found, path)


def _from_local(store: Any) -> Store | None:
    from aiozarr.stores.local.store import LocalStore

    return LocalStore(store.root)


def _from_memory(store: Any) -> Store | None:
    # Another mapping may make new buffers at each access.
    return BufferStore(store._store_dict) if type(store._store_dict) is dict else None


def _from_zip(store: Any) -> Store | None:
    """Return the store of an archive. One that zarr-python has open for writing has no directory yet."""
    from aiozarr.stores.zip import ZipStore

    if not (store.read_only and getattr(store, "_zmode", "r") == "r" and isinstance(store.path, str | os.PathLike)):
        return None
    return ZipStore(store.path)


def _from_fsspec(store: Any) -> Store | None:
    """Use aiozarr's own client if it knows all options of the file system, else that on zarr-python's loop."""
    from zarr.storage._fsspec import ALLOWED_EXCEPTIONS

    from aiozarr.stores.fsspec.store import FsspecStore

    fs = store.fs
    scheme = _OWN_CLIENTS.get(f"{type(fs).__module__}.{type(fs).__qualname__}")
    if scheme is None or "?" in store.path or tuple(store.allowed_exceptions) != ALLOWED_EXCEPTIONS:
        return None
    if not fs.storage_args:
        options = {name: value for name, value in fs.storage_options.items() if name not in _LOOP_OPTIONS}
        try:
            return _from_url(f"{scheme}{store.path}", options)
        except (TypeError, ValueError, ImportError):
            pass
    return FsspecStore(fs, path=store.path)


def _from_obstore(store: Any) -> Store | None:
    """Use aiozarr's own client if it has all options of obstore's store, else the store's methods."""
    from aiozarr.stores.obspec_store import from_obspec

    return from_obspec(store.store)


def _from_url(url: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.urls import from_url

    # Without the slash a name that ends with .zip would open an archive.
    return from_url(url if url.endswith("/") else f"{url}/", **options)


def _own(store: Any) -> Store | None:
    inner: Store = store.inner
    return inner


def _from_icechunk(store: Any) -> Store | None:
    """Use the session's references if it is read-only; a writable session may change."""
    from aiozarr.stores.reference.icechunk_table import from_session

    return from_session(store) if store.session.read_only else None


def _from_manifests(store: Any) -> Store | None:
    from aiozarr.stores.reference.manifest_table import from_manifest_store

    return from_manifest_store(store)


_LOOP_OPTIONS = frozenset({"asynchronous", "loop", "skip_instance_cache", "batch_size"})
_OWN_CLIENTS = {
    "s3fs.core.S3FileSystem": "s3://",
    "gcsfs.core.GCSFileSystem": "gs://",
    "fsspec.implementations.http.HTTPFileSystem": "",
}
_NATIVE: dict[str, Callable[[Any], Store | None]] = {
    "aiozarr.integrations.zarr.Store": _own,
    "zarr.storage._local.LocalStore": _from_local,
    "zarr.storage._memory.MemoryStore": _from_memory,
    "zarr.storage._zip.ZipStore": _from_zip,
    "zarr.storage._fsspec.FsspecStore": _from_fsspec,
    "zarr.storage._obstore.ObjectStore": _from_obstore,
    "icechunk.store.IcechunkStore": _from_icechunk,
    "virtualizarr.manifests.store.ManifestStore": _from_manifests,
}
