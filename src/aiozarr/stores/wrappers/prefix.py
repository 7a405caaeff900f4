"""The part of a store below a prefix, as a store of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from typing_extensions import Buffer

from aiozarr.errors import EraseError, StoreError
from aiozarr.model import ByteRange, Entry, Precondition, Value, Version, check_key, check_prefix
from aiozarr.stores.contract import Keys, Store, rooted_at, split_root
from aiozarr.stores.wrappers.base import WrapperStore, entries_of

T = TypeVar("T")


class PrefixStore(WrapperStore):
    """`key` here is `prefix/key` in the inner store.

    Keys are checked as given and with the prefix, whose bytes count. Closing it closes the inner store.

    Args:
        store: the store to see a part of.
        prefix: with or without a `/` behind it; `""` is all of the store.

    Raises:
        InvalidKeyError: the prefix could not be the beginning of a key.
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
        """The inner store's URL, and the prefix."""
        return self._store.url_of(self._prefix[:-1])

    def url_of(self, path: str) -> str:
        """Return the inner store's URL of the path there."""
        return self._store.url_of((self._prefix + path).removesuffix("/"))

    @property
    def identity(self) -> Hashable:
        """The innermost store's, and all prefixes on the way there."""
        inner = self._store.identity
        if not self._prefix:
            return inner
        if isinstance(inner, tuple) and len(inner) == 3 and inner[0] is PrefixStore:
            return (PrefixStore, inner[1], inner[2] + self._prefix)
        return (PrefixStore, inner, self._prefix)

    def place_of(self, key: str) -> Hashable:
        """The inner store's place of the key there."""
        return self._store.place_of(self._prefix + key)

    def rooted_above(self) -> tuple[Store, str] | None:
        """Return the inner store at the prefix above; below no prefix, what is above the inner store."""
        above, name = split_root(self._prefix)
        if not name:
            return self._store.rooted_above()
        return (rooted_at(self, _prefix=above) if above else self._store), name

    def _settings(self) -> dict[str, Any]:
        return {"prefix": self._prefix}

    # --- keys ----------------------------------------------------------------------------------------------------

    def _inner(self, key: str) -> str:
        return check_key(self._prefix + check_key(key, store=self.url), store=self.url)

    def _inner_prefix(self, prefix: str) -> str:
        return check_prefix(self._prefix + check_prefix(prefix, store=self.url), store=self.url)

    def _outer(self, keys: Iterable[str]) -> Keys:
        skip = len(self._prefix)
        return [key[skip:] for key in keys]

    async def _here(self, call: Callable[[], Awaitable[T]], key: str | None) -> T:
        """Await an operation of the inner store; its errors speak of this store and its keys."""
        try:
            return await call()
        except StoreError as error:
            raise self._located(error, key)  # noqa: B904  # the same error, now with its place here

    def _located(self, error: StoreError, key: str | None) -> StoreError:
        if isinstance(error, EraseError):
            skip = len(self._prefix)
            failures = {inner[skip:]: self._located(each, inner[skip:]) for inner, each in error.failures.items()}
            return EraseError.of(failures, self.url)
        if key is None and error.key is not None:
            key = error.key.removeprefix(self._prefix)
        error.store, error.key = self.url, key
        return error

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        inner = self._inner(key)
        return await self._here(lambda: self._store.fetch(inner, range, if_match=if_match), key)

    async def get(self, key: str) -> Buffer | None:
        inner = self._inner(key)
        return await self._here(lambda: self._store.get(inner), key)

    async def get_partial_values(self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[Buffer | None]:
        inner = [(self._inner(key), part) for key, part in key_ranges]
        return await self._here(lambda: self._store.get_partial_values(inner), None)

    async def exists(self, key: str) -> bool:
        inner = self._inner(key)
        return await self._here(lambda: self._store.exists(inner), key)

    async def stat(self, key: str) -> Entry | None:
        inner = self._inner(key)
        entry = await self._here(lambda: self._store.stat(inner), key)
        return None if entry is None else replace(entry, key=key)

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        inner = self._inner(key)
        return await self._here(lambda: self._store.set(inner, value, precondition=precondition), key)

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        inner = [(self._inner(key), start, value) for key, start, value in key_start_values]
        await self._here(lambda: self._store.set_partial_values(inner), None)

    async def erase(self, key: str) -> None:
        inner = self._inner(key)
        await self._here(lambda: self._store.erase(inner), key)

    async def erase_values(self, keys: Iterable[str]) -> None:
        inner = [self._inner(key) for key in keys]
        await self._here(lambda: self._store.erase_values(inner), None)

    async def erase_prefix(self, prefix: str) -> None:
        inner = self._inner_prefix(prefix)
        await self._here(lambda: self._store.erase_prefix(inner), prefix)

    async def probe_conditional_writes(self) -> bool:
        """Find it out by writing below the prefix, where the inner store does not know."""
        return await self._probe_below("")

    async def _probe_below(self, prefix: str) -> bool:
        return await self._here(lambda: self._store._probe_below(self._prefix + prefix), None)

    # --- listing -------------------------------------------------------------------------------------------------

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        inner, skip = self._inner_prefix(prefix), len(self._prefix)
        try:
            async with entries_of(self._store, inner) as entries:
                async for entry in entries:
                    yield replace(entry, key=entry.key[skip:])
        except StoreError as error:
            raise self._located(error, None)  # noqa: B904  # the same error, now with its place here

    async def list(self) -> Keys:
        return await self.list_prefix("")

    async def list_prefix(self, prefix: str) -> Keys:
        inner = self._inner_prefix(prefix)
        return self._outer(await self._here(lambda: self._store.list_prefix(inner), prefix))

    async def list_dir(self, prefix: str) -> tuple[Keys, Keys]:
        inner = self._inner_prefix(prefix)
        keys, prefixes = await self._here(lambda: self._store.list_dir(inner), prefix)
        return self._outer(keys), self._outer(prefixes)
