"""The store in a bucket of a cloud: keys below a prefix, handed to the service that the URL names."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from aiozarr.errors import EraseError, InvalidKeyError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, Precondition, Range, Supports, Value, Version, check_key, check_prefix
from aiozarr.stores.contract import Store, byte_view, directory_url, rooted_at, split_root
from aiozarr.stores.http.prompt import PromptRead
from aiozarr.stores.http.read import WebStore
from aiozarr.stores.lane import Accept, Answer, Connection, Want
from aiozarr.stores.lane.head import Headers
from aiozarr.stores.object.answers import NO_ANSWER, is_page
from aiozarr.stores.object.probe import conditions_hold
from aiozarr.stores.object.service import PAGE, Service
from aiozarr.stores.object.services import open_service

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FIRST_BYTE = Range(0, 1)


class ObjectStore(WebStore):
    """Values of a bucket, below a prefix: `s3://bucket/prefix`.

    A 404 of the object itself says that the value is missing; a missing bucket, a refusal and a redirect are errors.
    After a fork, a process whose parent used a client library that cannot be used any more gets `ForkedProcessError`.
    """

    _raw: ClassVar[bool] = True
    _whole: ClassVar[Want] = Want(raw=True)

    def __init__(self, url: str, **storage_options: Any) -> None:
        """Describe the store; nothing is connected before the first operation.

        Args:
            url: `s3://bucket/prefix`; the prefix is taken as it is, without percent-encoding.
            storage_options: see "Storage options" in the documentation; fsspec's and obstore's names are known too.
                What is not given is looked for as the cloud's own tools do: environment, profiles, roles.

        Raises:
            TypeError: an unknown option; the message lists the known ones.
            ValueError: the URL or an option is not valid, or options contradict each other.
            InvalidKeyError: the prefix is none that this cloud can store.
        """
        self._service: Service
        self._service, self._root = open_service(url, storage_options)
        self._check_storable(self._root)
        self._given = dict(storage_options)
        self.supports = self._service.supports

    @property
    def url(self) -> str:
        """The bucket's URL and the prefix, as they are; with a slash behind `.zip`, which would name an archive."""
        return self.url_of("")

    def url_of(self, path: str) -> str:
        """Return the URL of `path`: not percent-encoded, as none of a bucket is."""
        return directory_url(f"{self._service.url}/{self._root}{path}".rstrip("/"))

    @property
    def origin(self) -> Hashable:
        """The server, and what tells these credentials from others."""
        return self._service.origin

    @property
    def identity(self) -> Hashable:
        """Server, bucket, prefix, and what tells these credentials from others."""
        return (type(self), self._service.identity, self._root)

    def place_of(self, key: str) -> Hashable:
        """Server, bucket, and the full key."""
        return (ObjectStore, self._service.identity, self._root + key)

    def rooted_above(self) -> tuple[Store, str] | None:
        """Return the store of the prefix above; it shares this one's connections, which closing either closes."""
        root, name = split_root(self._root)
        return (rooted_at(self, _root=root), name) if name else None

    def __reduce__(self) -> tuple[Any, ...]:
        # Secrets that were given travel; those that were found are found again on the other side.
        return (_open, (type(self), self.url, self._given, self.supports))

    # --- reading -------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, key: str, want: Want) -> Answer:
        return await self._service.ask(method, self._full(key), want)

    def _begin(self, key: str, want: Want, read: PromptRead) -> Connection | None:
        return self._service.begin(self._full(key), want, read)

    def prepare(self, requests: int) -> None:
        self._service.prepare(requests)

    async def _follow(self, key: str, want: Want, answer: Answer, read: PromptRead) -> Answer:
        return await self._service.follow(self._full(key), want, answer, read)

    def _lacks(self, answer: Answer) -> bool:
        return self._service.lacks(answer)

    def _version(self, headers: Headers) -> Version | None:
        return self._service.version(headers)

    def _value(self, answer: Answer, accept: Accept, byte_range: ByteRange | None) -> Value:
        value = super()._value(answer, accept, byte_range)
        if value.version is None and is_page(bytes(memoryview(answer.body)[:100])):  # the clouds tell versions
            raise StoreError(NO_ANSWER, status=answer.status)
        return value

    async def _stat(self, key: str) -> Entry | None:
        """The first byte, where a HEAD could not tell a missing object from a missing bucket."""
        if self._service.head_tells:
            return await super()._stat(key)
        answer = await self._ask("GET", key, Want(_FIRST_BYTE, raw=True))
        if answer.status == 416:  # it has no first byte
            answer = await self._ask("HEAD", key, Want(head=True))
        if isinstance(answer.verdict, Accept):
            value = self._value(answer, answer.verdict, _FIRST_BYTE)
            return Entry(key, value.size, value.version)
        if answer.status == 404 and self._lacks(answer):
            return None
        raise self._error(answer)

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `value` under `key`, whole or not at all, and return its version.

        Raises:
            PreconditionFailedError: `precondition` does not hold; nothing was written.
            UnsupportedOperationError: the server was found to ignore conditions, or the version is a weak one.
            StoreError: the value could not be stored, or no answer came, and then it may be stored.
        """
        check_key(key, store=self.url)
        if precondition is not None and self.supports.conditional_writes is False:
            raise UnsupportedOperationError("this server ignores conditions of writes", store=self.url, key=key)
        return await self._put(key, value, precondition)

    async def _put(self, key: str, value: Buffer, precondition: Precondition | None) -> Version | None:
        with self._at(key):
            return await self._service.put(self._full(key), byte_view(value), precondition)

    async def erase(self, key: str) -> None:
        """Remove `key`; a key that is not stored is no error."""
        check_key(key, store=self.url)
        with self._at(key):
            await self._service.delete(self._full(key))

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`, a thousand in a request where the cloud can.

        Raises:
            EraseError: some could not be removed, which it names, after all others were.
            StoreError: nothing could be removed.
        """
        await self._erase([check_key(key, store=self.url) for key in keys])

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, page by page as the listing streams in.

        Raises:
            EraseError: some could not be removed, which it names, after all others were.
            StoreError: the listing failed, or nothing could be removed.
        """
        check_prefix(prefix, store=self.url)
        failed: dict[str, StoreError] = {}
        async for page in self._pages(prefix):
            failed |= await self._erase_page([entry.key for entry in page])
        self._raise(failed)

    async def _erase(self, keys: list[str]) -> None:
        failed: dict[str, StoreError] = {}
        for start in range(0, len(keys), PAGE):
            failed |= await self._erase_page(keys[start : start + PAGE])
        self._raise(failed)

    async def _erase_page(self, keys: list[str]) -> dict[str, StoreError]:
        if not keys:
            return {}
        with self._at(None):
            failed = await self._service.delete_many([self._full(key) for key in keys])
        skip = len(self._root)
        return {key[skip:]: self._located(error, key[skip:], None) for key, error in failed.items()}

    def _raise(self, failed: Mapping[str, StoreError]) -> None:
        if failed:
            raise EraseError.of(failed, self.url)

    # --- listing -------------------------------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all objects whose keys start with `prefix`, as the pages of the listing stream in."""
        check_prefix(prefix, store=self.url)
        return self._entries(prefix)

    async def _entries(self, prefix: str) -> AsyncIterator[Entry]:
        async for page in self._pages(prefix):
            for entry in page:
                yield entry

    async def _pages(self, prefix: str) -> AsyncIterator[list[Entry]]:
        skip = len(self._root)
        with self._at(None):
            async for page in self._service.pages(self._root + prefix):
                yield [Entry(entry.key[skip:], entry.size, entry.version) for entry in page] if skip else [*page]

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it."""
        check_prefix(prefix, store=self.url)
        skip = len(self._root)
        with self._at(None):
            keys, prefixes = await self._service.list_dir(self._root + prefix)
        return sorted(key[skip:] for key in keys), sorted(name[skip:] for name in prefixes)

    # --- what this server can do ---------------------------------------------------------------------------------

    async def probe_conditional_writes(self) -> bool:
        """Return whether the server heeds conditions of writes, found out once by writing; no object is left behind.

        Some servers answer 200 and ignore the condition; others refuse the right version too, so a write that must
        succeed is part of the probe. The clouds' own servers are trusted.
        """
        return await self._probe_below("")

    async def _probe_below(self, prefix: str) -> bool:
        if self.supports.conditional_writes is None:
            key = f"{prefix}__aiozarr_probe_{secrets.token_hex(8)}"
            try:
                holds = await conditions_hold(lambda value, condition: self._put(key, value, condition))
            finally:
                await self.erase(key)
            self.supports = replace(self.supports, conditional_writes=holds)
        return bool(self.supports.conditional_writes)

    # --- keys and life -------------------------------------------------------------------------------------------

    def _full(self, key: str) -> str:
        """Return the object's key in the bucket, if the cloud can store it."""
        self._check_storable(key)
        return self._root + key

    def _check_storable(self, key: str) -> None:
        unstorable = self._service.unstorable.search(key)
        if unstorable is not None:
            found = unstorable[0]
            words = "no part of a key ends with a dot" if found == "." else f"keys hold no {found!r}"
            reason = f"in this object store {words}: see character {unstorable.start() + 1}"
            raise InvalidKeyError(reason, store=self.url, key=key)

    @contextmanager
    def _at(self, key: str | None) -> Iterator[None]:
        """Add to errors what a service does not know: the store, and the key in it."""
        try:
            yield
        except StoreError as error:
            raise self._located(error, key, None)  # noqa: B904  # the same error, now with its place

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other store uses; the store can be used again."""
        await self._service.aclose()


def _open(kind: type[ObjectStore], url: str, options: Mapping[str, Any], supports: Supports) -> ObjectStore:
    store = kind(url, **options)
    store.supports = supports
    return store
