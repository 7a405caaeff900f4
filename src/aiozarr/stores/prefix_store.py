"""The part of a store below a prefix, as a store of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

from aiozarr.errors import EraseError, LimitError, StoreError
from aiozarr.model import Entry, check_key, check_prefix
from aiozarr.stores.contract import Keys, Store, split_root, with_root
from aiozarr.stores.wrapper_store import StoreOperation, WrapperStore, entries_of

T = TypeVar("T")


class PrefixStore(WrapperStore):
    """A store whose `key` is `prefix/key` in the inner store.

    Keys are checked without and with the prefix, which counts toward their length. Closing it closes the inner store.

    Args:
        store: the inner store.
        prefix: with or without a `/` at its end; `""` is all of the store.

    Raises:
        InvalidKeyError: no key can begin with the prefix.
    """

    def __init__(self, store: Store, prefix: str) -> None:
        super().__init__(store)
        text: object = prefix
        slashed = f"{prefix}/" if isinstance(text, str) and prefix and not prefix.endswith("/") else prefix
        self._prefix = check_prefix(slashed, store=store.url)

    @property
    def prefix(self) -> str:
        """The prefix: `""`, or ending with `/`."""
        return self._prefix

    @property
    def url(self) -> str:
        """The inner store's URL of the prefix."""
        return self._store.url_of(self._prefix[:-1])

    def url_of(self, path: str) -> str:
        """Return the inner store's URL of `path` below the prefix."""
        return self._store.url_of((self._prefix + path).removesuffix("/"))

    @property
    def identity(self) -> Hashable:
        """The identity of the innermost store, with all prefixes in between."""
        inner = self._store.identity
        if not self._prefix:
            return inner
        if isinstance(inner, tuple) and len(inner) == 3 and inner[0] is PrefixStore:
            return (PrefixStore, inner[1], inner[2] + self._prefix)
        return (PrefixStore, inner, self._prefix)

    def object_identity(self, key: str) -> Hashable:
        """Return the inner store's identity of the object."""
        return self._store.object_identity(self._prefix + key)

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the inner store at the parent prefix; without a prefix, the parent of the inner store."""
        above, name = split_root(self._prefix)
        if not name:
            return self._store.parent_store()
        return (with_root(self, _prefix=above) if above else self._store), name

    def _settings(self) -> dict[str, Any]:
        return {"prefix": self._prefix}

    # --- keys ----------------------------------------------------------------------------------------------------

    def _inner_key(self, key: str) -> str:
        return check_key(self._prefix + check_key(key, store=self.url), store=self.url)

    def _inner_prefix(self, prefix: str) -> str:
        return check_prefix(self._prefix + check_prefix(prefix, store=self.url), store=self.url)

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        """Await an operation of the inner store; its errors name this store and its keys."""
        try:
            return await call()
        except LimitError as error:
            error.store, error.key = self.url, operation.key
            raise
        except StoreError as error:
            raise self._relocate(error, operation.key)  # noqa: B904  # the same error, now with this store and its key

    def _relocate(self, error: StoreError, key: str | None) -> StoreError:
        if isinstance(error, EraseError):
            skip = len(self._prefix)
            failures = {inner[skip:]: self._relocate(each, inner[skip:]) for inner, each in error.failures.items()}
            return EraseError.from_failures(failures, self.url)
        if key is None and error.key is not None:
            key = error.key.removeprefix(self._prefix)
        error.store, error.key = self.url, key
        return error

    # --- operations whose results name keys ----------------------------------------------------------------------

    async def stat(self, key: str) -> Entry | None:
        entry = await super().stat(key)
        return None if entry is None else replace(entry, key=key)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        inner, skip = self._inner_prefix(prefix), len(self._prefix)
        try:
            async with entries_of(self._store, inner) as entries:
                async for entry in entries:
                    yield replace(entry, key=entry.key[skip:])
        except StoreError as error:
            raise self._relocate(error, None)  # noqa: B904  # the same error, now with this store and its key

    async def list_dir(self, prefix: str) -> tuple[Keys, Keys]:
        skip = len(self._prefix)
        keys, prefixes = await super().list_dir(prefix)
        return [key[skip:] for key in keys], [each[skip:] for each in prefixes]

    async def probe_conditional_writes(self) -> bool:
        """Probe by a write below the prefix, unless the inner store was probed."""
        return await self._probe_below("")

    async def _probe_below(self, prefix: str) -> bool:
        inner, operation = self._prefix + prefix, StoreOperation("probe_conditional_writes")
        return await self._around(operation, lambda: self._store._probe_below(inner))
