"""Access to one node on the I/O thread, and the reading of its metadata documents.

The formats of earlier nodes are remembered, so that opening a node nearby requests the documents of one format first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from aiozarr.common.concurrency import gather_all, map_concurrently
from aiozarr.engine import Engine, run
from aiozarr.engine.open_store import Target, opened_store
from aiozarr.errors import (
    AiozarrError,
    LimitError,
    NodeNotFoundError,
    PermissionDeniedError,
    StoreError,
    StoreTimeoutError,
    UnauthenticatedError,
)
from aiozarr.metadata.format_rules import ancestors, check_path, document_write_order, key_prefix, rules_of
from aiozarr.metadata.formats import DOCUMENT_KEYS, PROBE_KEYS, likely_keys, parse_node, probe_keys, render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.model import CONVERSION_JOURNAL_KEY, JOURNAL_HEADER_KEY, Value
from aiozarr.schedule.events import Report, current_recorder
from aiozarr.schedule.requests import retry_delay
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import BlockingStore, Store
from aiozarr.stores.blocking import call_batches

if TYPE_CHECKING:
    from aiozarr.engine import ScheduledStore

MAX_SEARCHED_PREFIXES = 1000
"""Prefixes that are listed in search of a node, before a path without documents does not count as a group."""
MAX_SEARCHED_OBJECTS = 10_000
"""Objects directly in a folder, before it counts as a folder of other files; they are ten pages of a listing."""
LISTED_OBJECTS = 1000
"""Objects of a listing at any depth, before the folders of one level are listed instead; they are one page."""
T = TypeVar("T")
NodeMetadata: TypeAlias = ArrayMetadata | GroupMetadata
Documents: TypeAlias = Mapping[str, Value | None]
"""Metadata documents of one node by key relative to the node. None: the document is not stored."""


class NodeAccess(NamedTuple):
    """The path of one node with its store, engine and settings. Used on the I/O thread only."""

    engine: Engine
    store: Store
    path: str
    settings: Settings
    report: Report | None = None
    target_path: str | None = None
    """The path of the root of the caller's target, if a change begins at a group above it."""
    use_consolidated: bool = True
    """False to leave consolidated metadata unread, even damaged ones."""

    @property
    def scheduled(self) -> ScheduledStore:
        """The store with retries and budget."""
        return self.engine.scheduled(self.store, self.settings, self.report)

    @property
    def prefix(self) -> str:
        """The prefix of the node's keys."""
        return key_prefix(self.path)

    @property
    def url(self) -> str:
        """The canonical URL of the node."""
        return self.store.url_of(self.path)

    @property
    def reads_now(self) -> bool:
        """Whether documents may be read without requests: none are counted, and the store does not override reads."""
        store = self.store
        return (
            isinstance(store, BlockingStore)
            and type(store).fetch is BlockingStore.fetch
            and store.has_bounded_reads
            and self.report is None
            and self.settings.on_event is None
        )

    @property
    def changes_now(self) -> bool:
        """Whether a document may be read and replaced by one call of a thread, as `reads_now`."""
        store = self.store
        return self.reads_now and type(store).set is BlockingStore.set and store.supports.conditional_writes is True

    def sibling(self, path: str) -> NodeAccess:
        """Return the access to another node of the same store."""
        return self._replace(path=path)

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Return the lock of the node's documents, which tasks of this process hold to change them."""
        return self.engine.key_lock(self.store, self.prefix)


async def run_at_target(
    function: Callable[[NodeAccess, bool], Awaitable[T]],
    target: Target,
    path: str,
    *,
    zarr_format: int | None,
    storage_options: Mapping[str, Any] | None,
    settings: Settings | None,
) -> T:
    """Open the store of `target` and await `function(access, owns_store)` on the I/O thread.

    Args:
        function: gets the access to the node at `path`, and whether the store was made here.
        target: a URL, a local path, or a `Store`.
        path: the node's path below that.
        zarr_format: the format whose rules of paths apply.
        storage_options: options of the store, for a URL.
        settings: limits and policies.

    Raises:
        InvalidKeyError: `path` is not a valid path of a node.
    """
    path = check_path(path, zarr_format)
    settings = settings_or_default(settings)
    report = current_recorder()
    opened: list[Store] = []

    async def work(engine: Engine) -> T:
        async with opened_store(target, storage_options, settings) as (store, owned):
            opened.append(store)
            return await function(NodeAccess(engine, store, path, settings, report), owned)

    with timeouts_located(opened, path):
        return await run(work, timeout=settings.timeout)


@contextmanager
def timeouts_located(stores: Sequence[Store], path: str) -> Iterator[None]:
    """Add the first of `stores` and the node's path to a `StoreTimeoutError` that lacks them.

    The timeout of a whole operation has neither. `stores` may be filled while the context is open.
    """
    try:
        yield
    except StoreTimeoutError as error:
        if error.store is None and stores:
            error.store, error.key = stores[0].url, path or None
        raise


def check_format(zarr_format: object) -> None:
    """Check a `zarr_format` argument.

    Raises:
        ValueError: it is not 1, 2, 3 or None.
    """
    if zarr_format is not None and (isinstance(zarr_format, bool) or zarr_format not in DOCUMENT_KEYS):
        raise ValueError(f"zarr_format must be 1, 2, 3 or None, not {zarr_format!r}")


def implicit_group(zarr_format: int = 3) -> GroupMetadata:
    """Return the metadata of a group without a document (v3 core specification, "Explicit vs implicit groups")."""
    return GroupMetadata(zarr_format=zarr_format, attributes={}, extra={})


async def read_documents(access: NodeAccess, keys: Iterable[str]) -> Documents:
    """Fetch these documents of the node concurrently.

    A refusal (403, 401, 404 as an error) is raised only if none of the documents could be read.

    Raises:
        LimitError: a document is larger than `Settings.max_metadata_bytes`.
        StoreError: a document could not be read.
    """
    return (await read_each([(access, tuple(keys))]))[0]


async def read_each(
    requests: Sequence[tuple[NodeAccess, Sequence[str]]], *, ignored: tuple[type[AiozarrError], ...] = ()
) -> list[Documents]:
    """Fetch documents of several nodes concurrently, as `read_documents`. A node has none if its error is `ignored`."""

    async def request(access: NodeAccess, keys: Sequence[str]) -> Documents:
        try:
            return await _request_documents(access, keys)
        except ignored:
            return {}

    found = await read_now(requests)
    return await gather_all(request(*each) for each in requests) if found is None else found


async def _request_documents(access: NodeAccess, keys: Sequence[str]) -> Documents:
    scheduled = access.scheduled
    refusals: dict[str, StoreError] = {}

    async def fetch(key: str) -> Value | None:
        try:
            return await scheduled.fetch(access.prefix + key, max_bytes=access.settings.max_metadata_bytes)
        except StoreError as error:
            if not _is_refusal(error):
                if error.status is None:
                    # The server did not respond, so it does not matter which document was requested first.
                    error.key = None
                raise
            refusals[key] = error
            return None
        except LimitError as error:
            if error.limit != "max_metadata_bytes":  # readers of a cache get one error
                error.message = f"a metadata document exceeds Settings.max_metadata_bytes: {error.message}"
                error.limit = "max_metadata_bytes"
            raise

    values = await gather_all(fetch(key) for key in keys)
    if refusals and not any(value is not None for value in values):
        refusal = refusals[next(key for key in keys if key in refusals)]
        refusal.message = f"the metadata of {access.url} could not be read: {refusal.message}"
        raise refusal
    return dict(zip(keys, values, strict=True))


async def read_now(
    requests: Sequence[tuple[NodeAccess, Sequence[str]]], *, in_one_call: bool = False
) -> list[Documents] | None:
    """Read documents of nodes of a local store in one thread, without a request for each.

    Args:
        requests: the nodes, each with the keys of its documents.
        in_one_call: one call of a thread reads all of them, because few are stored.

    Returns: the documents of each node. None: each has to be requested, because the store overrides reads, the requests
    are counted, or one has failed and may be repeated.
    """
    if not all(access.reads_now for access, _ in requests):
        return None

    def read(*requests: tuple[NodeAccess, Sequence[str]]) -> list[Documents]:
        return [fetch_now(access, keys) for access, keys in requests]

    calls = [partial(read, *requests)] if in_one_call else [partial(read, each) for each in requests]
    futures = [*map(call_batches().start, calls)]
    try:
        return [*chain(*[await each for each in futures])]
    except LimitError:
        return None
    except StoreError as error:
        # Wait as after a failed request, so that a busy store can recover and a cancellation takes effect.
        delay = retry_delay(error, requests[0][0].settings)
    if delay is not None:
        await asyncio.sleep(delay)
    return None


def fetch_now(access: NodeAccess, keys: Sequence[str]) -> dict[str, Value | None]:
    """Read documents of a node whose store `reads_now`, in the calling thread."""
    store, prefix, max_bytes = access.store, access.prefix, access.settings.max_metadata_bytes
    assert isinstance(store, BlockingStore)
    return {key: store.fetch_now(prefix + key, max_bytes=max_bytes) for key in keys}


def parse_documents(access: NodeAccess, documents: Documents, zarr_format: int | None = None) -> NodeMetadata | None:
    """Parse the documents of the node.

    Returns: the metadata, or None if no document is stored.
    """
    data = {key: None if value is None else value.data for key, value in documents.items()}
    return parse_node(
        data,
        node=access.url,
        settings=access.settings,
        zarr_format=zarr_format,
        storage_transformers=None,
        use_consolidated=access.use_consolidated,
    )


async def read_explicit(access: NodeAccess, zarr_format: int | None = None) -> NodeMetadata | None:
    """Read the metadata of a node that has documents, of this format or, with None, of any.

    Returns: the metadata, or None if no document is stored.
    """
    return parse_documents(access, await read_documents(access, probe_keys(zarr_format)), zarr_format)


async def search_node(
    access: NodeAccess, zarr_format: int | None = None, *, may_be_implicit: bool = True
) -> tuple[NodeMetadata | None, NodeMetadata | None]:
    """Search for the node at a path, of this format or, with None, of any.

    Without a format, the documents of the format that was last seen nearby are requested first, and those of newer
    formats, or else the documents of all formats at once. The store is listed only if none of them is stored; if there
    are keys below the path, other documents, or the documents of arrays above it, are read. An implicit group has the
    format of a node below it.

    Args:
        access: the access to the node.
        zarr_format: the format, or None.
        may_be_implicit: whether a path without documents may be a group because a node is below it.

    Returns: the metadata, also of an implicit group, or None; and the node of another format if there is only that.
    """
    formats, wanted = formats_of(access.engine), probe_keys(zarr_format)
    seen = formats.find(access.store, access.path) if zarr_format is None else None
    first = wanted if seen is None else likely_keys(seen)
    try:
        documents = await read_documents(access, first)
    except StoreError as error:
        if not _is_refusal(error) or len(first) == len(wanted):
            raise
        # A refused probe is not an error if another one succeeds.
        first, documents = wanted, await read_documents(access, wanted)
    found = parse_documents(access, documents, zarr_format)
    if found is not None:
        formats.record(access.store, access.path, found.zarr_format)
        return found, None
    has_keys = await has_keys_below(access)
    if has_keys is False:
        return None, None
    probes: list[Coroutine[Any, Any, Any]] = [read_rest(access, documents, is_refusal_missing=zarr_format is not None)]
    probes += [_read_implicit_group(access)] if has_keys and may_be_implicit else []
    other = next((each for each in await gather_all(probes) if each is not None), None)
    return (other, None) if other is None or zarr_format in (None, other.zarr_format) else (None, other)


async def read_node(access: NodeAccess, zarr_format: int | None = None) -> NodeMetadata | None:
    """Read the metadata of a node. A node below a path without documents makes an implicit group.

    Returns: the metadata, or None if there is no node.
    """
    found, _ = await search_node(access, zarr_format)
    return found


async def read_child(access: NodeAccess, zarr_format: int, *, may_be_implicit: bool = True) -> NodeMetadata | None:
    """Read the metadata of a node below a group of this format. A node of another format counts, too.

    Returns: the metadata, or None if there is no node.
    """
    found, other = await search_node(access, zarr_format, may_be_implicit=may_be_implicit)
    return found or other


async def read_kind(access: NodeAccess, keys: Iterable[str]) -> NodeMetadata | None:
    """Read only these documents of the node, which are enough to see whether it is an array or a group."""
    return parse_documents(access, {**dict.fromkeys(probe_keys()), **await read_documents(access, keys)})


async def read_rest(
    access: NodeAccess, read: Collection[str], *, is_refusal_missing: bool = True
) -> NodeMetadata | None:
    """Read the documents of the node other than those with the keys `read`, none of which is stored.

    Returns: the metadata, or None if there are none. `is_refusal_missing`: also if the store refuses them.
    """
    try:
        return parse_documents(access, await read_documents(access, [key for key in probe_keys() if key not in read]))
    except StoreError as error:
        if is_refusal_missing and _is_refusal(error):
            return None
        raise


async def require_node(access: NodeAccess, zarr_format: int | None = None) -> NodeMetadata:
    """Read the metadata of a node that must exist.

    Raises:
        NodeNotFoundError: there is none. The message names a node of another format.
    """
    found, other = await search_node(access, zarr_format)
    if found is None:
        raise node_not_found_error(access.store, access.path, zarr_format, other)
    return found


def node_not_found_error(
    store: Store, path: str, zarr_format: int | None = None, other: NodeMetadata | None = None
) -> NodeNotFoundError:
    """Return the error of a missing node; `other` is the node of another format at the path."""
    url = store.url_of(path)
    message = f"there is no array and no group at {url}"
    if zarr_format is not None and other is not None:
        kind = "an array" if isinstance(other, ArrayMetadata) else "a group"
        message = f"there is nothing of Zarr format {zarr_format} at {url}, but {kind} of {other.zarr_format}"
    return NodeNotFoundError(message, url=url, path=path)


async def has_keys_below(access: NodeAccess) -> bool | None:
    """Return whether the store lists any key below the node, as `have_keys_below`."""
    return (await have_keys_below([access]))[0]


async def have_keys_below(accesses: Sequence[NodeAccess]) -> list[bool | None]:
    """Return for each node of one store whether any key is listed below it. Stops at the first key.

    None stands for a node below which the store cannot list, or refuses to.
    """
    store = accesses[0].store
    if not store.supports.listable:
        return [None] * len(accesses)
    if accesses[0].reads_now:
        from aiozarr.stores.local.store import LocalStore, has_keys

        if isinstance(store, LocalStore) and type(store).scan is LocalStore.scan:
            with suppress(StoreError):
                start = call_batches().start
                futures = [start(partial(has_keys, store, each.prefix)) for each in accesses]
                return [await each for each in futures]
    return await gather_all(map(_lists_any, accesses))


async def _lists_any(access: NodeAccess) -> bool | None:
    entries = access.scheduled.scan(access.prefix)
    try:
        async for _ in entries:
            return True
        return False
    except (PermissionDeniedError, UnauthenticatedError):
        return None
    finally:
        if isinstance(entries, AsyncGenerator):
            await entries.aclose()


def _is_refusal(error: StoreError) -> bool:
    """Return whether the store refuses one document but may serve others.

    A 404 raised as an error (after a redirect, for example) does not prove that the document is missing. One that a
    proxy sends while the server restarts is not a refusal.
    """
    return isinstance(error, PermissionDeniedError | UnauthenticatedError) or (
        error.status == 404 and not error.retryable
    )


async def _read_implicit_group(access: NodeAccess) -> NodeMetadata | None:
    """Read the group that a node below a path without documents implies (v3 core specification).

    Returns: the metadata, or None if there is no node below. Below an array, keys are chunks.
    """
    array_keys = [rules_of(number).array_key for number in DOCUMENT_KEYS]
    probes: list[Coroutine[Any, Any, Any]] = [unfinished_work(access)]
    probes += [read_kind(access.sibling(path), array_keys) for path in ancestors(access.path)]
    unfinished, *above = await gather_all(probes)
    if unfinished or any(isinstance(each, ArrayMetadata) for each in above):
        return None
    zarr_format = await find_format_below(access)
    return None if zarr_format is None else (await read_as_group(access, zarr_format))[0]


async def read_as_group(access: NodeAccess, zarr_format: int) -> tuple[NodeMetadata, bool]:
    """Read the documents of this format at a path with a node below, again: one that was missed once would be hidden.

    Returns: the metadata of the node, or else those of an implicit group with the attributes that are stored there; and
    whether it is implicit.
    """
    documents = await read_documents(access, rules_of(zarr_format).own_keys)
    stored = {key: value for key, value in documents.items() if value is not None}
    group = {key: Value(data, None, len(data)) for key, data in render_node(implicit_group(zarr_format)).items()}
    found = parse_documents(access, {**group, **stored}, zarr_format)
    assert found is not None
    return found, stored.keys() <= {rules_of(zarr_format).attributes_key}


async def unfinished_work(access: NodeAccess) -> str | None:
    """Return "copy" or "conversion" if the journal of one is stored at the path, or None.

    Documents are missing there.
    """
    keys = {"copy": JOURNAL_HEADER_KEY, "conversion": CONVERSION_JOURNAL_KEY}
    found = await gather_all(access.scheduled.fetch(access.prefix + key) for key in keys.values())
    return next((work for work, journal in zip(keys, found, strict=True) if journal is not None), None)


async def find_format_below(access: NodeAccess) -> int | None:
    """Return the format of a group above a node that is stored at or below a path, or None if there is no node.

    Searches by levels, in at most `MAX_SEARCHED_PREFIXES` folders.
    """
    level, left = [access.prefix], MAX_SEARCHED_PREFIXES
    while level and left:
        level, left = level[:left], left - min(left, len(level))
        found = await map_concurrently(lambda prefix: _folders_or_format(access, prefix), level)
        formats = [each for each in found if isinstance(each, int)]
        if formats:
            return formats[0]
        level = [folder for folders in found if not isinstance(folders, int) for folder in folders]
    return None


async def _folders_or_format(access: NodeAccess, prefix: str) -> list[str] | int:
    """Return the folders below a prefix in which a node may be stored, or the format of a group above one."""
    count, is_flat = 0, True
    async with aclosing(access.scheduled.scan(prefix)) as entries:
        async for entry in entries:
            zarr_format = _format_of_key(entry.key)
            if zarr_format is not None:
                return zarr_format
            count += 1
            is_flat = is_flat and "/" not in entry.key[len(prefix) :]
            if count == MAX_SEARCHED_OBJECTS or (count >= LISTED_OBJECTS and not is_flat):
                break
        else:
            return []
    if is_flat:
        return []
    keys, folders = await access.scheduled.list_dir(prefix)
    return next((each for each in map(_format_of_key, keys) if each is not None), folders)


def _format_of_key(key: str) -> int | None:
    """Return the format of a group above the node that `key` is a document of; attributes alone do not make a node."""
    if document_write_order(key) != 1:
        return None
    # Format 1 has no groups.
    return next(max(2, number) for number, keys in DOCUMENT_KEYS.items() if key.rpartition("/")[2] in keys)


MAX_PLACES = 4096
"""The number of last used nodes that are remembered. One takes about 300 bytes."""


class FormatMemory:
    """The formats of nodes that this process has opened or created. Used on the I/O thread only.

    A format is a hint that decides which documents are requested first, but never which node is found.
    """

    def __init__(self) -> None:
        self._formats: OrderedDict[Hashable, int] = OrderedDict()

    def find(self, store: Store, path: str) -> int | None:
        """Return the format that was last seen at a node, at the nearest node above it, or in its store."""
        found = self._find_in_store(store, (path, *reversed(ancestors(path))))
        parent = store.parent_store()
        while found is None and parent is not None:
            found = self._find_in_store(parent[0], ("",))
            parent = parent[0].parent_store()
        return found

    def record(self, store: Store, path: str, zarr_format: int) -> None:
        """Remember the format of a node, for itself, for all nodes below it and for its store."""
        for place in {_identity(store, path), _identity(store, "")}:
            self._formats[place] = zarr_format
            self._formats.move_to_end(place)
        while len(self._formats) > MAX_PLACES:
            self._formats.popitem(last=False)

    def _find_in_store(self, store: Store, paths: Iterable[str]) -> int | None:
        for path in paths:
            place = _identity(store, path)
            if place in self._formats:
                self._formats.move_to_end(place)
                return self._formats[place]
        return None


def _identity(store: Store, path: str) -> Hashable:
    # The identity of a document is equal for all stores that reach it, whatever their URLs.
    return store.object_identity(key_prefix(path) + PROBE_KEYS[0])


_memories: WeakKeyDictionary[Engine, FormatMemory] = WeakKeyDictionary()


def formats_of(engine: Engine) -> FormatMemory:
    """Return the format memory of an engine."""
    found = _memories.get(engine)
    return _memories.setdefault(engine, FormatMemory()) if found is None else found
