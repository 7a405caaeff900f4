"""The store contract: bytes under keys, each operation a coroutine (v3 specification, "Abstract store interface")."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import ref

from aiozarr.common.concurrency import map_concurrently
from aiozarr.errors import LimitError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, Precondition, Range, Supports, Value, Version, check_key, check_prefix

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer


_UNESCAPED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/"
_CONDITIONAL_ERASES = ("erase_if_match", "erase_if_match_now")

# Inside the class, `list` is the operation of that name.
Keys: TypeAlias = list[str]


class Store(ABC):
    """A mapping from keys to bytes.

    A subclass implements `url` and `fetch`, and each of `set`, `erase` and `scan` that its `supports` claims. It may
    override the other primitive operations if the backend has a cheaper way. The derived operations call the primitive
    ones and are not overridden.

    Every operation checks its keys (`aiozarr.stores.check_key`). A store may be used from several tasks, threads and
    event loops at once, so resources of a loop, such as connections, are stored per loop.
    """

    supports: Supports

    @property
    @abstractmethod
    def url(self) -> str:
        """The canonical URL of the store's root, without secrets."""

    # --- primitive operations ------------------------------------------------------------------------------------

    @abstractmethod
    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        """Read `key`, or its bytes in `range`.

        Pass `max_bytes` only if `has_bounded_reads` is True.

        Returns:
            The bytes, their version and the object's size, or None if the key is not stored.

        Raises:
            ChangedError: the stored value does not have the version `if_match`.
            LimitError: the result has more than `max_bytes` bytes. No more than that was received or unpacked.
            StoreError: the bytes could not be read.
        """

    async def stat(self, key: str) -> Entry | None:
        """Return size and version of `key`, or None if nothing is stored."""
        value = await self.fetch(key)
        return None if value is None else Entry(key, value.size, value.version)

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `value` under `key`, whole or not at all.

        Returns: the version, or None if the store has no versions.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
        """
        raise self._unsupported("set")

    async def erase(self, key: str) -> None:
        """Remove `key`. A missing key is not an error."""
        raise self._unsupported("erase")

    async def erase_if_match(self, key: str, version: Version) -> None:
        """Remove `key` if its value has this version. Call it only if `has_conditional_erases` is True.

        Raises:
            PreconditionFailedError: another value is stored, or none; nothing was removed.
        """
        raise self._unsupported("erase by version")

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`."""
        for key in keys:
            await self.erase(key)

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix` (`""`, or ending with `/`)."""
        await self.erase_values([entry.key async for entry in self.scan(prefix)])

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all objects whose keys start with `prefix`, in any order, while the listing is received.

        An entry with a `fault` is not an object: something is stored there that cannot be read.
        """
        raise self._unsupported("scan")

    async def list_dir(self, prefix: str) -> tuple[Keys, Keys]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""
        check_prefix(prefix, store=self.url)
        keys: set[str] = set()
        prefixes: set[str] = set()
        async for entry in self.scan(prefix):
            name, slash, _ = entry.key[len(prefix) :].partition("/")
            (prefixes if slash else keys).add(prefix + name + slash)
        return sorted(keys), sorted(prefixes)

    async def probe_conditional_writes(self) -> bool:
        """Return whether preconditions of `set` hold against other writers.

        A store whose `supports.conditional_writes` is None overrides this with a trial write. The trial leaves no
        object behind, and `supports` has its result afterwards.
        """
        return bool(self.supports.conditional_writes)

    async def aclose(self) -> None:  # noqa: B027  # closing nothing is the right default
        """Release connections and open files. It may be called twice. A closed store may refuse further calls."""

    # --- derived operations --------------------------------------------------------------------------------------

    async def get(self, key: str) -> Buffer | None:
        """Return the whole value of `key`, or None if nothing is stored."""
        value = await self.fetch(key)
        return None if value is None else value.data

    async def get_partial_values(self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[Buffer | None]:
        """Return the bytes of each `(key, (start, length | None))`, in order; None if nothing is stored.

        At most 64 of them are fetched at a time.
        """

        async def fetch(key_range: tuple[str, tuple[int, int | None]]) -> Buffer | None:
            key, (start, length) = key_range
            value = await self.fetch(key, Range(start, length))
            return None if value is None else value.data

        return await map_concurrently(fetch, tuple(key_ranges))

    async def exists(self, key: str) -> bool:
        """Return whether a value is stored under `key`."""
        return await self.stat(key) is not None

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

    async def list(self) -> Keys:
        """Return all keys."""
        return await self.list_prefix("")

    async def list_prefix(self, prefix: str) -> Keys:
        """Return all keys that start with `prefix`."""
        return [entry.key async for entry in self.scan(prefix) if not entry.fault]

    # --- identity ------------------------------------------------------------------------------------------------

    def url_of(self, path: str) -> str:
        """Return the URL of the node or object at `path`, which has no slash at its end.

        The path is percent-encoded, as in URLs of the web. A store whose URLs are not decoded, such as a bucket,
        overrides this.
        """
        return f"{self.url.removesuffix('/')}/{percent_encoded(path.encode())}" if path else self.url

    @property
    def server(self) -> str | None:
        """The URL of the server that requests are sent to, without secrets; None for a store without one."""
        return None

    @property
    def origin(self) -> Hashable:
        """The server and the credentials of requests. Stores with equal origins share one budget."""
        # Budgets outlive their stores. A new store at the address of a dead one may continue with its budget.
        return (type(self), id(self)) if type(self).identity is Store.identity else self.identity

    @property
    def identity(self) -> Hashable:
        """Equal for stores with the same values under the same keys. Caches and single flight use it as a key."""
        return (type(self), _InstanceKey(self))

    def object_identity(self, key: str) -> Hashable:
        """Return a hashable identity of the stored object, equal for all stores that are known to reach it.

        It is the lock key of partial writes to a store without conditional writes.
        """
        return (self.identity, key)

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the store whose root is one level above this root, and the name of this root in it.

        No request is made.

        Returns:
            The store and the name, or None if the root has no parent or the parent cannot be reached.

        Groups above the root may hold consolidated metadata of nodes in this store. A change updates them through the
        parent store.
        """
        return None

    def child_store(self, path: str) -> Store | None:
        """Return a store of this kind whose root is at `path` below this root; closing either closes both.

        Returns: the store, or None if only a `PrefixStore` is possible.

        Raises:
            InvalidKeyError: `path` is not a valid key.
        """
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and self._equality_key == other._equality_key

    @property
    def _equality_key(self) -> object:
        """Equal for equal stores: the identity, and for a wrapper its class and settings."""
        return self.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # --- for subclasses ------------------------------------------------------------------------------------------

    _takes_max_bytes = True
    _erases_by_version = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A subclass may override how values are erased and not know that they are also erased by version.
        cls._erases_by_version = _definer(cls, *_CONDITIONAL_ERASES) <= _definer(cls, "erase", "erase_now")
        # A subclass may override a read of a store with bounded reads and not know the keyword.
        cls._takes_max_bytes = takes_max_bytes(cls)
        supports = getattr(cls, "supports", None)
        if isinstance(supports, Supports) and supports.bounded_reads and not cls._takes_max_bytes:
            cls.supports = replace(supports, bounded_reads=False)

    @property
    def has_bounded_reads(self) -> bool:
        """True if reads accept `max_bytes`: the store supports it, and every reading method has the keyword."""
        return self.supports.bounded_reads and self._takes_max_bytes

    @property
    def has_conditional_erases(self) -> bool:
        """True if `erase_if_match` works: the store supports it, and its class overrides both ways of erasing."""
        return self.supports.conditional_erases and self._erases_by_version

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _probe_below(self, prefix: str) -> bool:
        """Probe conditional writes below `prefix` of this store, because the caller may not write elsewhere."""
        return await self.probe_conditional_writes()

    def _unsupported(self, operation: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"{type(self).__name__} cannot {operation}", store=self.url)


class _InstanceKey:
    """Equal for one object only, even after its end, when another object may have its address."""

    __slots__ = ("_hash", "_of")

    def __init__(self, of: object) -> None:
        self._of = ref(of)
        self._hash = id(of)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, _InstanceKey):
            return self is other
        found = self._of()
        return found is not None and found is other._of()

    def __hash__(self) -> int:
        return self._hash


def percent_encoded(path: bytes) -> str:
    """Return `path` as a part of a URL, with the characters escaped that `urllib.parse.quote` escapes."""
    if not path.translate(None, _UNESCAPED):
        return path.decode()
    # Imported here because most paths need no escapes, and the import takes 2 ms.
    from urllib.parse import quote

    return quote(path)


def byte_view(value: Buffer) -> memoryview:
    """Return the bytes of `value` as a flat memoryview, without a copy; arrays of any item type give their memory.

    Raises:
        TypeError: `value` has no buffer, or is not contiguous in C order.
    """
    view = memoryview(value)
    if not view.c_contiguous:
        raise TypeError("a value must be a C-contiguous buffer; copy it first")
    if view.nbytes == 0:
        return memoryview(b"")
    if view.ndim == 1 and view.format == "B":
        return view
    with suppress(TypeError, ValueError):
        return view.cast("B")
    # `memoryview.cast` refuses big-endian and complex items, and `PickleBuffer.raw` crashes CPython 3.11 and 3.12 once
    # its result is caught in a cycle; numpy takes every item type. Buffers of such items come from numpy.
    import numpy as np

    return np.frombuffer(view, np.uint8).data


def check_max_bytes(
    nbytes: int, max_bytes: int | None, *, store: str, key: str, range: ByteRange | None = None
) -> None:
    """Check that a result of `nbytes` bytes is within `max_bytes`.

    Raises:
        LimitError: it is larger.
    """
    if max_bytes is not None and nbytes > max_bytes:
        raise too_large(nbytes, max_bytes, store=store, key=key, range=range)


def too_large(
    nbytes: int | None, max_bytes: int, *, store: str, key: str, range: ByteRange | None = None
) -> LimitError:
    """Return the error for a result of `nbytes` bytes, or of more than `max_bytes` bytes if its size is not known."""
    found = f"{nbytes} bytes" if nbytes is not None else f"more than {max_bytes} bytes"
    message = f"the value has {found}, and at most {max_bytes} are expected"
    return LimitError(message, limit="max_bytes", value=nbytes, allowed=max_bytes, store=store, key=key, range=range)


def _definer(kind: type[Store], *methods: str) -> int:
    """Return the position among the bases of the class that defines one of these methods, 0 for the class itself."""
    bases = kind.__mro__
    return next((at for at, base in enumerate(bases) if any(name in vars(base) for name in methods)), len(bases))


def takes_max_bytes(kind: type[Store]) -> bool:
    """Return whether all reads of a class of stores have the keyword `max_bytes`."""
    reads = (getattr(kind, name, None) for name in ("fetch", "fetch_now", "_read_now", "_fetch_nowait", "_fetch_into"))
    return all(read is None or _has_keyword(read, "max_bytes") for read in reads)


def _has_keyword(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(each.name == name or each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


S = TypeVar("S", bound=Store)


def with_root(store: S, **root: Any) -> S:
    """Return a store like `store` that shares all its state except for the attributes `root`, which locate its root."""
    other = object.__new__(type(store))
    vars(other).update(vars(store), **root)
    return other


def directory_url(url: str) -> str:
    """Return `url` as the URL of a directory. A URL that ends with `.zip` gets a slash, or it would open an archive."""
    return f"{url}/" if url.lower().endswith(".zip") else url


def split_root(root: str) -> tuple[str, str]:
    """Return the parent of `root`, which ends with `/` or is `""`, and the name of `root` in it."""
    above, _, name = root.removesuffix("/").rpartition("/")
    return f"{above}/" if above else "", name


def _parts_by_key(
    key_start_values: Iterable[tuple[str, int, Buffer]], store: str
) -> dict[str, list[tuple[int, memoryview]]]:
    """Validate all values, then return them by key, in order of their starts."""
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
