"""The store contract: bytes under keys, each operation a coroutine (v3 specification, "Abstract store interface")."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote
from weakref import ref

import numpy as np
from typing_extensions import Buffer

from aiozarr.errors import UnsupportedOperationError
from aiozarr.model import (
    ByteRange,
    Entry,
    Precondition,
    Range,
    Supports,
    Value,
    Version,
    check_key,
    check_prefix,
)
from aiozarr.stores.tasks import map_bounded

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


# Inside the class, `list` is the operation of that name.
Keys: TypeAlias = list[str]


class Store(ABC):
    """A mapping from keys to bytes.

    A subclass implements `fetch`, and of `set`, `erase` and `scan` what its `supports` claims; everything else follows
    from those and may be overridden where the backend has something better. Keys are checked at the edge
    (`aiozarr.model.check_key`). A store may be used from any number of tasks, threads and event loops: what belongs to
    a loop, such as connections, is kept per loop.
    """

    supports: Supports

    @property
    @abstractmethod
    def url(self) -> str:
        """The canonical URL of the store's root, without secrets."""

    def url_of(self, path: str) -> str:
        """Return the URL of what lies below `path`, which has no slash at its end: the one that opens it from anywhere.

        The path is percent-encoded, as in the web's URLs. A store whose URLs are taken as they are, such as those of
        buckets, overrides this.
        """
        return f"{self.url.rstrip('/')}/{quote(path)}" if path else self.url

    @property
    def origin(self) -> Hashable:
        """Whom requests go to and as whom, (origin, credentials): stores with equal origins share one budget."""
        # Budgets outlive their stores, and whose address is another's by now may go on with its budget.
        return (type(self), id(self)) if type(self).identity is Store.identity else self.identity

    @property
    def identity(self) -> Hashable:
        """Equal for stores that hold the same values under the same keys; caches and single flight go by it."""
        return (type(self), _Itself(self))

    def place_of(self, key: str) -> Hashable:
        """What tells the object of `key` from all others, whatever store it is seen from, as far as that is known.

        Partial writes to a store without conditional writes take turns by it.
        """
        return (self.identity, key)

    def rooted_above(self) -> tuple[Store, str] | None:
        """Return the store whose root is one level above this one's, and the name that this root has there.

        None: nothing is above, or it cannot be had. Nothing is asked for here. Where consolidated metadata above the
        root have copies of what a change concerns, it is through that store that they are found and kept true.
        """
        return None

    # --- reading -------------------------------------------------------------------------------------------------

    @abstractmethod
    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        """Return the bytes of `key` in `range` (None: all), or None where nothing is stored.

        Raises:
            ChangedError: the stored value does not have the version `if_match`.
            StoreError: the bytes could not be had.
        """

    async def get(self, key: str) -> Buffer | None:
        """Return the whole value of `key`, or None where nothing is stored."""
        value = await self.fetch(key)
        return None if value is None else value.data

    async def get_partial_values(self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[Buffer | None]:
        """Return the bytes of each `(key, (start, length | None))`, in order; None where nothing is stored.

        At most 64 of them are fetched at a time.
        """

        async def fetch(wanted: tuple[str, tuple[int, int | None]]) -> Buffer | None:
            key, (start, length) = wanted
            value = await self.fetch(key, Range(start, length))
            return None if value is None else value.data

        return await map_bounded(fetch, tuple(key_ranges))

    async def exists(self, key: str) -> bool:
        """Return whether a value is stored under `key`."""
        return await self.stat(key) is not None

    async def stat(self, key: str) -> Entry | None:
        """Return size and version of `key`, or None where nothing is stored."""
        value = await self.fetch(key)
        return None if value is None else Entry(key, value.size, value.version)

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `value` under `key`, whole or not at all, and return its version (None: the store tells none).

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
        """
        raise self._unsupported("set")

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        """Store each value at its `start` inside the value of its key; bytes before it that do not exist become zero.

        Raises:
            ValueError: ranges of one key overlap; nothing was written.
        """
        for key, parts in _parts_by_key(key_start_values, self.url).items():
            current = await self.get(key)
            merged = bytearray() if current is None else bytearray(current)
            for start, part in parts:
                merged.extend(bytes(max(0, start + len(part) - len(merged))))
                merged[start : start + len(part)] = part
            await self.set(key, merged)

    async def erase(self, key: str) -> None:
        """Remove `key`; a key that is not stored is no error."""
        raise self._unsupported("erase")

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`."""
        for key in keys:
            await self.erase(key)

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix` (`""`, or ending with `/`)."""
        await self.erase_values([entry.key async for entry in self.scan(prefix)])

    # --- listing -------------------------------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all objects whose keys start with `prefix`, in no promised order, as the listing streams in."""
        raise self._unsupported("scan")

    async def list(self) -> Keys:
        """Return all keys."""
        return await self.list_prefix("")

    async def list_prefix(self, prefix: str) -> Keys:
        """Return all keys that start with `prefix`."""
        return [entry.key async for entry in self.scan(prefix)]

    async def list_dir(self, prefix: str) -> tuple[Keys, Keys]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""
        check_prefix(prefix, store=self.url)
        keys: set[str] = set()
        prefixes: set[str] = set()
        async for entry in self.scan(prefix):
            name, slash, _ = entry.key[len(prefix) :].partition("/")
            (prefixes if slash else keys).add(prefix + name + slash)
        return sorted(keys), sorted(prefixes)

    # --- what the backend can do ---------------------------------------------------------------------------------

    async def probe_conditional_writes(self) -> bool:
        """Return whether preconditions of `set` hold against other writers; where nobody knows, find it out.

        A store that says None in `supports.conditional_writes` overrides this with an attempt, after which `supports`
        knows it and nothing is left behind.
        """
        return bool(self.supports.conditional_writes)

    async def _probe_below(self, prefix: str) -> bool:
        """Find it out for the part of this store below `prefix`, which may have no right to write beside it."""
        return await self.probe_conditional_writes()

    # --- life ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:  # noqa: B027  # closing nothing is the right default
        """Close what the store holds open. Closing twice is no error; a closed store may refuse further work."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and self._sameness == other._sameness

    @property
    def _sameness(self) -> object:
        """What equal stores have equal: their values, and for a wrapper how it wraps them."""
        return self.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _unsupported(self, operation: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"{type(self).__name__} cannot {operation}", store=self.url)


class _Itself:
    """Equals what is made of the same object, and nothing that comes to lie at its address when it is gone."""

    __slots__ = ("_hash", "_of")

    def __init__(self, of: object) -> None:
        self._of = ref(of)
        self._hash = id(of)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, _Itself):
            return self is other
        found = self._of()
        return found is not None and found is other._of()

    def __hash__(self) -> int:
        return self._hash


def byte_view(value: Buffer) -> memoryview:
    """Return the bytes of `value` as a flat memoryview, without a copy; arrays of any item type give their memory.

    Raises:
        TypeError: `value` has no buffer, or its bytes do not lie together in C order.
    """
    view = memoryview(value)
    if not view.c_contiguous:
        raise TypeError("a value must be a C-contiguous buffer; copy it first")
    if view.nbytes == 0:
        return memoryview(b"")
    if view.ndim == 1 and view.format == "B":
        return view
    # `memoryview.cast` refuses big-endian and complex items, and `PickleBuffer.raw` crashes CPython 3.11 and 3.12 once
    # its result is caught in a cycle; numpy takes every item type.
    return np.frombuffer(view, np.uint8).data


S = TypeVar("S", bound=Store)


def rooted_at(store: S, **root: Any) -> S:
    """Return a store like `store`, which shares all it has, but for these attributes, which say where its root is."""
    other = object.__new__(type(store))
    vars(other).update(vars(store), **root)
    return other


def directory_url(url: str) -> str:
    """Return `url` as that of a directory: what ends in `.zip` would open an archive, but for a slash behind it."""
    return f"{url}/" if url.lower().endswith(".zip") else url


def split_root(root: str) -> tuple[str, str]:
    """Return the root above `root`, which ends with `/`, and the name of `root` in it; `""` where there is none."""
    above, _, name = root.removesuffix("/").rpartition("/")
    return f"{above}/" if above else "", name


def _parts_by_key(
    key_start_values: Iterable[tuple[str, int, Buffer]], store: str
) -> dict[str, list[tuple[int, memoryview]]]:
    """Group the values by key, in order of their starts, once all of them are known to be valid."""
    parts: dict[str, list[tuple[int, memoryview]]] = {}
    for key, start, value in key_start_values:
        if start < 0:
            raise ValueError(f"a partial value needs a start of at least 0, not {start}")
        parts.setdefault(check_key(key, store=store), []).append((start, byte_view(value)))
    for key, of_key in parts.items():
        of_key.sort(key=lambda part: (part[0], len(part[1])))
        for (start, view), (following, _) in pairwise(of_key):
            if start + len(view) > following:
                raise ValueError(f"partial values of key {key!r} overlap at byte {following}")
    return parts
