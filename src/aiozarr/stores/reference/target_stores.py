"""The objects that references name: finds their stores, and checks that they exist and do not change."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from aiozarr.errors import AiozarrError, ChangedError, DanglingReferenceError, StoreError
from aiozarr.model import ByteRange, Entry, Range, Supports, Value, Version
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.capabilities import FetchCallback, NowaitStore, PendingFetch
from aiozarr.stores.contract import Store
from aiozarr.stores.reference.columns import Target
from aiozarr.stores.reference.guard import WEB, ReferenceGuard, is_local, local_path, longest_prefix, split_location
from aiozarr.stores.wrapper_store import WrapperStore

MAX_CACHED_TARGETS = 1 << 16
"""URLs whose store and key are in memory."""

OpenURL: TypeAlias = Callable[..., Store]
"""Opens the store of a URL; storage options are keywords."""


class TargetStore(WrapperStore, NowaitStore):
    """Objects that references name.

    An object that is missing, or that ends before the range that a reference names, is an error. All ranges of one
    object are of the version that came first, for as long as this store lives.

    Args:
        store: the store of the objects.
        immutable: True if its objects never change, so that no version needs to be remembered.
    """

    def __init__(self, store: Store, *, immutable: bool = False) -> None:
        super().__init__(store)
        self._immutable = immutable
        self._first: dict[str, tuple[Version | None, int | None]] = {}

    @property
    def supports(self) -> Supports:  # type: ignore[override]  # as in the base class
        """The capabilities of the inner store, except for writes."""
        return replace(super().supports, writable=False, conditional_writes=False, conditional_erases=False)

    async def fetch(
        self,
        key: str,
        range: ByteRange | None = None,
        *,
        if_match: Version | None = None,
        max_bytes: int | None = None,
        clips: bool = False,
    ) -> Value:
        """Fetch as every store does; `clips`: the range may end beyond the object, which is referenced as a whole."""
        bound = {} if max_bytes is None else {"max_bytes": max_bytes}
        try:
            value = await self._store.fetch(key, range, if_match=self._condition(key, if_match), **bound)
            return self.checked(key, None if clips else range, value)
        except StoreError as error:
            raise self.named(error, key)  # noqa: B904  # the same error, now with its target

    def _fetch_nowait(
        self,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        callback: FetchCallback,
        *,
        max_bytes: int | None = None,
    ) -> PendingFetch | None:
        if not isinstance(self._store, NowaitStore):
            return None
        bound = {} if max_bytes is None else {"max_bytes": max_bytes}
        checked = _CheckedCallback(self, key, range, callback)
        return self._store._fetch_nowait(key, range, self._condition(key, if_match), checked, **bound)

    def _preconnect(self, requests: int) -> None:
        if isinstance(self._store, NowaitStore):
            self._store._preconnect(requests)

    async def stat(self, key: str) -> Entry:
        try:
            entry = await self._store.stat(key)
            if entry is None:
                raise self._missing(key)
        except StoreError as error:
            raise self.named(error, key)  # noqa: B904  # the same error, now with its target
        return entry

    def _condition(self, key: str, if_match: Version | None) -> Version | None:
        version = if_match or self._first.get(key, (None, None))[0]
        if version is None or version.weak or not self._store.supports.conditional_reads:
            return None
        return version

    def checked(self, key: str, range: ByteRange | None, value: Value | None) -> Value:
        """Return `value` if the reference is valid for it.

        Raises:
            DanglingReferenceError: there is no such object, or it ends before the range does.
            ChangedError: it is of another version than the one that came first.
        """
        if value is None:
            raise self._missing(key)
        here = (value.version, value.size)
        version, size = here if self._immutable else self._first.setdefault(key, here)
        if (None not in (version, value.version) and version != value.version) or (
            None not in (size, value.size) and size != value.size
        ):
            reason = "the object was replaced since references to it were first read"
            raise ChangedError(reason, store=self.url, key=key, range=range)
        if isinstance(range, Range) and range.length is not None and memoryview(value.data).nbytes < range.length:
            reason = "the object is shorter than the references to it say"
            raise DanglingReferenceError(reason, store=self.url, key=key, range=range)
        return value

    def _missing(self, key: str) -> DanglingReferenceError:
        return DanglingReferenceError("a referenced object is missing", store=self.url, key=key)

    def _settings(self) -> dict[str, Any]:
        return {"immutable": self._immutable}

    def named(self, error: StoreError, key: str) -> StoreError:
        """Return `error`, which names the object."""
        error.target = error.target or self._store.url_of(key)
        return error


class _CheckedCallback:
    """Receives the outcome of a request and passes it on, checked."""

    def __init__(self, store: TargetStore, key: str, range: ByteRange | None, callback: FetchCallback) -> None:
        self._store = store
        self._key = key
        self._range = range
        self._callback = callback

    def fetched(self, value: Value | None) -> None:
        """Check the response."""
        try:
            checked = self._store.checked(self._key, self._range, value)
        except StoreError as error:
            self._callback.failed(self._store.named(error, self._key))
        else:
            self._callback.fetched(checked)

    def failed(self, error: Exception) -> None:
        """Pass on the error with the name of the object."""
        self._callback.failed(self._store.named(error, self._key) if isinstance(error, StoreError) else error)


class _Place(NamedTuple):
    """The location of the object of a URL.

    Attributes:
        root: the URL or path of the root of the store.
        key: the key there.
        prefix: the prefix of the URL that the user has named, or `""`.
        access: the store, or the storage options that open it.
    """

    root: str
    key: str
    prefix: str
    access: Store | Mapping[str, Any]


class TargetResolver:
    """Finds the stores of URLs, and opens each of them once.

    Args:
        guard: the locations that may be read.
        open_url: opens the store of a URL or a path.
        resolve: for prefixes of URLs, the storage options of their stores, or the stores.
        own_options: storage options of the origin of the document.
        protocol_options: storage options of the protocol that is chosen for all targets.
    """

    def __init__(
        self,
        guard: ReferenceGuard,
        open_url: OpenURL,
        resolve: Mapping[str, Any],
        own_options: Mapping[str, Any],
        protocol_options: Mapping[str, Any],
    ) -> None:
        self._guard = guard
        self._open_url = open_url
        self._resolve = {prefix: {} if access is None else access for prefix, access in resolve.items()}
        self._own_options = own_options
        self._protocol_options = protocol_options
        self._stores: dict[tuple[str, str], TargetStore] = {}
        self._targets: dict[str, tuple[TargetStore, str]] = {}

    @property
    def stores(self) -> list[TargetStore]:
        """The stores that are open."""
        return list(self._stores.values())

    def opened(self, target: Target) -> tuple[TargetStore, str] | None:
        """Return the store and the key of a target, if its store is open."""
        if not isinstance(target, str):
            return cast("tuple[TargetStore, str]", target)
        found = self._targets.get(target)
        if found is None:
            with suppress(AiozarrError):  # `open` raises it
                place = self._place(target)
                store = self._stores.get((place.root, place.prefix))
                found = None if store is None else self._note(target, store, place.key)
        return found

    async def open(self, target: Target) -> tuple[TargetStore, str]:
        """Return the store and the key of a target.

        Raises:
            PermissionDeniedError: the document may not name it.
            UnknownSchemeError, TypeError, ValueError: no store can be made for it.
        """
        # Packages are imported and configuration files read.
        opened = self.opened(target)
        return await in_thread(lambda: self._open(str(target))) if opened is None else opened

    def _open(self, url: str) -> tuple[TargetStore, str]:
        place = self._place(url)
        made = place.access if isinstance(place.access, Store) else self._open_url(place.root, **place.access)
        return self._note(url, self._stores.setdefault((place.root, place.prefix), TargetStore(made)), place.key)

    def _note(self, url: str, store: TargetStore, key: str) -> tuple[TargetStore, str]:
        if len(self._targets) >= MAX_CACHED_TARGETS:
            self._targets.clear()
        self._targets[url] = (store, key)
        return store, key

    def _place(self, url: str) -> _Place:
        guard = self._guard
        guard.check(url)
        prefix = longest_prefix(url, self._resolve)
        access = self._resolve.get(prefix, self._own_options)
        given_store = isinstance(access, Store)
        if is_local(url, guard.protocol):
            root = os.path.realpath(local_path(prefix)) if given_store else "/"
            key = os.path.relpath(os.path.realpath(local_path(url)), root)
            return _Place(root, key, prefix, access if given_store else {})
        scheme, mark, rest = url.partition("://") if "://" in url else (guard.protocol or "", "://", url)
        scheme = scheme.lower()
        if scheme == guard.protocol and not prefix:
            access = self._protocol_options
        _, server, path = split_location(f"{scheme}{mark}{rest}")
        path_start, key, query = split_location(prefix)[2][1:], path[1:], ""
        if scheme in WEB:
            key, question, query = key.partition("?")
            key, path_start, query = unquote(key), unquote(path_start), question + query
        if given_store:
            return _Place(prefix, key[len(path_start) :].lstrip("/"), prefix, access)
        return _Place(f"{scheme}://{server}/{query}", key, prefix, access)

    async def aclose(self) -> None:
        """Close the stores that were opened here."""
        stores, self._stores = self._stores, {}
        self._targets.clear()
        for (_, prefix), store in stores.items():
            if not isinstance(self._resolve.get(prefix), Store):
                await store.aclose()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_stores": {}, "_targets": {}}
