"""The store over an object with obspec's methods (`get_async`, `put_async`, `list_async`, ...).

An object of obstore is replaced by aiozarr's own store if that is exactly equivalent.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast
from weakref import finalize, ref

from typing_extensions import Buffer

from aiozarr.common.fork_safe import SerialNumbers
from aiozarr.errors import (
    AiozarrError,
    ChangedError,
    LimitError,
    PreconditionFailedError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.model import (
    ByteRange,
    Entry,
    IfAbsent,
    Precondition,
    Suffix,
    Supports,
    Value,
    Version,
    check_key,
    check_prefix,
    resolve_range,
)
from aiozarr.stores.capabilities import ProbedStore
from aiozarr.stores.contract import Store, byte_view, check_max_bytes
from aiozarr.stores.obspec_errors import is_missing, is_of_obstore, translate
from aiozarr.stores.urls import from_url

_BUCKETS = {"S3Store": ("s3", "bucket"), "GCSStore": ("gs", "bucket"), "AzureStore": ("az", "container_name")}
_KEY_PAIR = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})
_CREDENTIALS = frozenset(
    {"access_key_id", "account_key", "sas_key", "service_account_key", "service_account", "bearer_token", "token"}
)
"""Options of obstore, one of which must determine the credentials: without one, both libraries search on their own."""


def from_obspec(obj: object, *, url: str | None = None, native: bool = True) -> Store:
    """Return a store over an object with obspec's methods.

    An obstore store is replaced by aiozarr's own client, with the same bucket, prefix and credentials, if all its
    options have the same meaning here. Other objects are used through their methods.

    Args:
        obj: an object with at least `get_async`, and further methods of obspec, such as `put_async`.
        url: the canonical URL of its root, without secrets, which messages name.
        native: whether aiozarr's own client may replace obstore stores.

    Raises:
        TypeError: `obj` has no `get_async`.
    """
    if isinstance(obj, Store):
        return obj
    if not hasattr(obj, "get_async"):
        raise TypeError(f"expected an object with obspec's method get_async, got {type(obj).__name__}")
    own = native_store(obj) if native else None
    return own or ObspecStore(cast("GetAsync", obj), url=url or _url_of(obj))


def native_store(obj: object) -> Store | None:
    """Return aiozarr's own store for a store of obstore, or None if it would differ in any way."""
    kind = type(obj)
    if not is_of_obstore(obj):
        return None
    given: Any = obj
    if kind.__name__ == "LocalStore":
        return from_url(given.prefix) if given.prefix else None
    client_options = {name: _plain(value) for name, value in (getattr(obj, "client_options", None) or {}).items()}
    if kind.__name__ == "HTTPStore":
        # For example, timeouts apply to the whole request there.
        return _opened(given.url, client_options) if client_options.keys() <= {"allow_http"} else None
    url = _url_of(obj)
    if kind.__name__ not in _BUCKETS or url is None or given.credential_provider is not None:
        return None
    scheme, bucket = _BUCKETS[kind.__name__]
    if not client_options.keys() <= {"allow_http"}:
        return None
    options = {name: _plain(value) for name, value in given.config.items() if name != bucket}
    named = bool(_CREDENTIALS & options.keys()) or options.get("skip_signature") is True
    # Both libraries take this pair before they search elsewhere.
    if not named and not (kind.__name__ == "S3Store" and os.environ.keys() >= _KEY_PAIR):
        return None
    try:
        return _opened(f"{url}/", _our_options(scheme, options))
    except (TypeError, ValueError):
        return None


def _our_options(scheme: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a bucket of obstore under our names.

    Raises:
        TypeError, ValueError: an option has no counterpart.
    """
    from aiozarr.stores.azure.address import AZURE_TABLE
    from aiozarr.stores.gcs.address import GCS_TABLE
    from aiozarr.stores.s3.address import S3_TABLE

    if "service_account_key" in options:
        options["token"] = json.loads(options.pop("service_account_key"))
    return {"s3": S3_TABLE, "gs": GCS_TABLE, "az": AZURE_TABLE}[scheme].from_obstore(options)


def _opened(url: str, options: Mapping[str, Any]) -> Store | None:
    """Return the own store of `url`, or None if it lacks one of the options."""
    try:
        return from_url(url, **options)
    except (AiozarrError, ImportError, TypeError, ValueError):
        return None


def _url_of(obj: object) -> str | None:
    """Return the URL of a store of obstore's own classes, or None for any other object."""
    kind, given = type(obj), obj
    if not is_of_obstore(obj):
        return None
    config: Mapping[str, str] = getattr(given, "config", {})
    prefix = getattr(given, "prefix", None)
    if kind.__name__ in _BUCKETS:
        scheme, bucket = _BUCKETS[kind.__name__]
        root = f"{scheme}://{config[bucket]}" if bucket in config else None
        return root and (f"{root}/{prefix.strip('/')}" if prefix else root)
    if kind.__name__ == "LocalStore" and prefix is not None:
        return Path(prefix).absolute().as_uri()
    url = getattr(given, "url", None)
    return url if isinstance(url, str) and "@" not in url else None


def _plain(value: Any) -> Any:
    """Return an option as a caller writes it, because obstore returns flags as text."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


DELETE_KEYS = 1000
"""Keys of one call of `delete_async`, as many as S3 deletes with one request."""

_numbers = SerialNumbers()
_numbers_of_objects: dict[int, int] = {}


def _number_of(obj: object) -> int:
    """Return the number of `obj`, the same for life, because stores over one object must share locks and caches."""
    number = _numbers_of_objects.get(id(obj))
    if number is None:
        number = _numbers_of_objects.setdefault(id(obj), _numbers.next())
        finalize(obj, _numbers_of_objects.pop, id(obj), None).atexit = False
    return number


class GetAsync(Protocol):
    """The method of obspec that makes an object readable. Its other methods are optional."""

    def get_async(self, path: str, *, options: Any = None) -> Any:
        """Return the object at `path`."""


class _ObjectKey:
    """Equal for equal objects. It does not keep them: they may hold their values in memory."""

    def __init__(self, obj: object) -> None:
        self._kind = type(obj)
        self._obj = ref(obj)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, _ObjectKey):
            return self is other
        one, two = self._obj(), other._obj()
        return one is not None and two is not None and (one is two or bool(one == two))

    def __hash__(self) -> int:
        return hash(self._kind)


class ObspecStore(ProbedStore):
    """The objects that `obj` reaches by obspec's methods.

    The methods are called on the loop of the I/O thread. Without `put_async` and `delete_async` the store cannot be
    written to, and without `list_async` it cannot list.

    Args:
        obj: an object with at least `get_async`.
        url: the canonical URL of the root, without secrets; by default one that names the class of `obj`, the same for
            each store over `obj`.
    """

    def __init__(self, obj: GetAsync, *, url: str | None = None) -> None:
        self._obj: Any = obj
        # Other objects reach web servers, or no server.
        self._kind = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az"}.get(type(obj).__name__, "http")
        self._url = (url or f"obspec://{type(obj).__name__}-{_number_of(obj)}").rstrip("/")
        self._identity: Hashable = (type(self), _ObjectKey(obj), self._url)
        # Stores in memory hold the buffer itself, which the caller may change afterwards.
        self._copies_values = is_of_obstore(obj) and type(obj).__name__ != "MemoryStore"
        has_put = hasattr(obj, "put_async") and hasattr(obj, "delete_async")
        self.supports = Supports(
            writable=has_put,
            listable=hasattr(obj, "list_async"),
            # obstore refuses suffixes of blobs in Azure, which has none.
            suffix_reads=type(obj).__name__ != "AzureStore",
            conditional_reads=True,
            conditional_writes=None if has_put else False,
            bounded_reads=True,
        )

    @property
    def url(self) -> str:
        """The URL of the root."""
        return self._url

    @property
    def identity(self) -> Hashable:
        """The object, and the URL."""
        return self._identity

    def __reduce__(self) -> tuple[Any, ...]:
        return (partial(type(self), self._obj, url=self._url), (), {"supports": self.supports})

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        check_key(key, store=self._url)
        if range is not None and range.length == 0:
            return await self._empty(key, if_match)
        options: dict[str, Any] = {}
        if range is not None:
            options["range"] = _obspec_range(range)
        if if_match is not None and if_match.etag is not None and not if_match.weak:
            options["if_match"] = if_match.etag
        try:
            result = await (self._obj.get_async(key, options=options) if options else self._obj.get_async(key))
            first, stop = result.range
            check_max_bytes(stop - first, max_bytes, store=self._url, key=key, range=range)
            data = byte_view(await result.buffer_async() if hasattr(result, "buffer_async") else await _joined(result))
        except LimitError:
            raise
        except Exception as error:
            if is_missing(error, self._kind):
                return None
            found = translate(error)
            if isinstance(found, PreconditionFailedError) and if_match is not None:
                raise self._changed(key) from error
            if range is not None and await self._is_empty(key, range):
                return await self._empty(key, if_match)
            raise self._located(found, key) from error
        version, size = _version(result.meta), result.meta.get("size")
        self._check_version(key, version, if_match)
        if range is not None and size is not None:
            selected = _cut(data, size, range, result.range)
            if selected is None:
                message = f"the store gave {data.nbytes} bytes of the {size}, and not those of the range"
                raise StoreError(message, store=self._url, key=key, range=range)
            data = selected
        return Value(data, version, size)

    async def stat(self, key: str) -> Entry | None:
        check_key(key, store=self._url)
        try:
            if hasattr(self._obj, "head_async"):
                meta = await self._obj.head_async(key)
            else:
                meta = (await self._obj.get_async(key, options={"head": True})).meta
        except Exception as error:
            found = translate(error)
            if is_missing(error, self._kind):
                return None
            if found.status != 404:
                raise self._located(found, key) from error
            # The response to a HEAD has no document, which would say what is missing.
            result = await self._unless_missing(key, lambda: self._obj.get_async(key, options={"range": (0, 1)}))
            meta = None if result is None else result.meta
        return None if meta is None else Entry(key, meta.get("size"), _version(meta))

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self._url)
        if not self.supports.listable:
            raise self._unsupported("scan")
        try:
            async for page in self._obj.list_async(prefix or None):
                for meta in page:
                    if meta["path"].startswith(prefix):
                        yield Entry(meta["path"], meta.get("size"), _version(meta))
        except Exception as error:
            # WebDAV has no collection without files. A 404 of a bucket's listing is of the bucket.
            if not is_missing(error, self._kind) or (self._kind != "http" and translate(error).status is not None):
                raise self._located(translate(error), prefix or None) from error

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        check_prefix(prefix, store=self._url)
        # obstore lists empty directories of a local disk as prefixes.
        is_local = is_of_obstore(self._obj) and type(self._obj).__name__ == "LocalStore"
        if is_local or not hasattr(self._obj, "list_with_delimiter_async"):
            return await super().list_dir(prefix)
        found = await self._unless_missing(prefix or None, lambda: self._obj.list_with_delimiter_async(prefix or None))
        if found is None:
            return [], []
        keys = sorted(meta["path"] for meta in found["objects"] if meta["path"].startswith(prefix))
        return keys, sorted(f"{name.rstrip('/')}/" for name in found["common_prefixes"])

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        check_key(key, store=self._url)
        if not self.supports.writable:
            raise self._unsupported("set")
        data = byte_view(value)
        if not isinstance(value, bytes) and not self._copies_values:
            data = memoryview(bytes(data))
        if precondition is not None and self.supports.conditional_writes is False:
            raise self._unsupported("set with a precondition")
        mode: dict[str, Any] = {}
        if precondition is not None:
            mode = {"mode": _mode(precondition), "use_multipart": False}
        try:
            result = await self._obj.put_async(key, data, **mode)
        except Exception as error:
            if precondition is not None and is_missing(error, self._kind):
                raise PreconditionFailedError("no version is stored", store=self._url, key=key) from error
            raise self._located(translate(error), key) from error
        return _version(result)

    async def erase(self, key: str) -> None:
        check_key(key, store=self._url)
        if not self.supports.writable:
            raise self._unsupported("erase")
        await self._unless_missing(key, lambda: self._obj.delete_async(key))

    async def erase_values(self, keys: Iterable[str]) -> None:
        keys = [check_key(key, store=self._url) for key in keys]
        if not self.supports.writable:
            raise self._unsupported("erase")
        for start in range(0, len(keys), DELETE_KEYS):
            some = keys[start : start + DELETE_KEYS]
            try:
                await self._obj.delete_async(some)
            except Exception as error:
                if not is_missing(error, self._kind):
                    raise self._located(translate(error), None) from error
                # A missing key may have ended the call before the others were deleted.
                for key in some:
                    await self.erase(key)

    # --- helpers -------------------------------------------------------------------------------------------------

    async def _unless_missing(self, key: str | None, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of `call`, or None if the object is not stored."""
        try:
            return await call()
        except Exception as error:
            if is_missing(error, self._kind):
                return None
            raise self._located(translate(error), key) from error

    async def _empty(self, key: str, if_match: Version | None) -> Value | None:
        """Return no bytes of an object, with its version and size from its metadata."""
        entry = await self.stat(key)
        if entry is None:
            return None
        self._check_version(key, entry.version, if_match)
        return Value(b"", entry.version, entry.size)

    async def _is_empty(self, key: str, range: ByteRange) -> bool:
        """Return whether the range has no bytes, which many servers refuse as not satisfiable."""
        entry = await self.stat(key)
        if entry is None or entry.size is None:
            return False
        start, stop = resolve_range(entry.size, range)
        return start >= stop

    def _check_version(self, key: str, version: Version | None, if_match: Version | None) -> None:
        if if_match is not None and version is not None and version != if_match:
            raise self._changed(key)

    def _changed(self, key: str) -> ChangedError:
        return ChangedError("the object was replaced meanwhile", store=self._url, key=key)

    def _located(self, error: StoreError, key: str | None) -> StoreError:
        error.store, error.key = self._url, key
        return error


async def _joined(result: AsyncIterator[Buffer]) -> bytes:
    """Return the body of a result that can only be iterated over."""
    return b"".join([bytes(memoryview(part)) async for part in result])


def _obspec_range(range: ByteRange) -> Any:
    if isinstance(range, Suffix):
        return {"suffix": range.length}
    return {"offset": range.start} if range.length is None else (range.start, range.start + range.length)


def _cut(data: memoryview, size: int, range: ByteRange, given: tuple[int, int]) -> memoryview | None:
    """Return the bytes of `range` from those that a store has returned for an object of `size` bytes.

    The lengths matter more than the range `given` by the store: obspec-utils' `AiohttpStore` names the requested range
    even if a server sent the whole object, and a range from 0 for the last bytes.

    Returns: the bytes, or None if the data do not match the range.
    """
    start, stop = resolve_range(size, range)
    if data.nbytes == stop - start:
        return data
    first, end = (0, size) if data.nbytes == size else given
    return data[start - first : stop - first] if first <= start and data.nbytes >= min(end, size) - first else None


def _mode(precondition: Precondition) -> Any:
    if isinstance(precondition, IfAbsent):
        return "create"
    version = precondition.version
    if version.weak:
        raise UnsupportedOperationError("a weak version cannot be used as a condition")
    members = {"e_tag": version.etag, "version": version.generation}
    return {name: value for name, value in members.items() if value is not None}


def _version(meta: Mapping[str, Any]) -> Version | None:
    etag, generation = meta.get("e_tag") or None, meta.get("version") or None
    return None if etag is None and generation is None else Version(etag, generation)
