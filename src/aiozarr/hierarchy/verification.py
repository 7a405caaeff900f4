"""`verify`: reads and decodes every stored chunk of the arrays of a tree, and names the bad ones by key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from aiozarr.common.concurrency import ByteSemaphore, for_each
from aiozarr.common.progress import Progress, ProgressCallback, ProgressLike, shown_progress
from aiozarr.engine import Engine, bind_callback, run
from aiozarr.engine.open_store import Target
from aiozarr.errors import AiozarrError, CodecError, LimitError, MetadataError, MissingChunkError, StoreError
from aiozarr.hierarchy.array import Array, make_array
from aiozarr.hierarchy.group import Group
from aiozarr.hierarchy.info import kind_of_key
from aiozarr.hierarchy.members import NodeError
from aiozarr.hierarchy.open import open as open_node
from aiozarr.metadata.format_rules import join_path
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores.wrapper_store import entries_of

if TYPE_CHECKING:
    from aiozarr.engine import ArrayLayout
    from aiozarr.hierarchy.view import View

Problem = Literal["chunk", "shard", "store", "outside"]

CONCURRENT_OBJECTS = 64
"""Stored objects that are read at a time; fewer if they are large."""
CONCURRENT_ARRAYS = 16
"""Arrays whose objects are listed at a time, because listings take most of the time for many small arrays."""
MAX_BYTES = 256 << 20
"""Decoded bytes in memory at a time."""
GHOST = "the listing names this object, and the store says that it is not stored"
STREAM_BYTES = 64 << 20
"""A larger object is decoded chunk by chunk, and never held in memory as a whole."""


@dataclass(frozen=True)
class BadObject:
    """One finding of `verify`.

    Attributes:
        array: path of the array.
        key: key of the stored object, relative to the target.
        problem: "chunk": cannot be decoded; "shard": its index is bad; "store": cannot be read; "outside": no chunk of
            the grid has this key, as after the array was made smaller, or if another program wrote chunks with another
            separator (no error).
        range: the bytes of an inner chunk in the object; None for all of it.
        error: the text of the error.
    """

    array: str
    key: str
    problem: Problem
    range: str | None
    error: str


@dataclass
class VerifyReport:
    """The result of `verify`.

    Attributes:
        arrays: number of arrays.
        objects: number of stored objects that were decoded.
        missing: number of chunks that are not stored; None if the store cannot list.
        bytes: bytes of the decoded elements.
        bad: objects that cannot be read or decoded, and nodes whose documents cannot be read.
        outside: chunks that are never read, because the grid does not contain their keys; these are not errors.
        other: number of objects below the arrays that are neither chunks nor metadata documents.
    """

    arrays: int = 0
    objects: int = 0
    missing: int | None = 0
    bytes: int = 0
    bad: list[BadObject] = field(default_factory=list)
    outside: list[BadObject] = field(default_factory=list)
    other: int = 0


async def verify(
    target: Target,
    path: str = "",
    *,
    progress: ProgressLike = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> VerifyReport:
    """Read and decode every stored chunk of an array, or of all arrays below a group.

    Shard indexes are checked, and the checksums of codecs that have one. Without a checksum in the data, a changed
    chunk that still decodes is not found.

    Args:
        target: a URL, a local path, or a `Store`.
        path: the node's path inside `target`.
        progress: called with `Progress`, stored objects and decoded bytes; True draws a progress bar (needs the extra
            `cli`).
        storage_options: options of the store, for a URL.
        settings: limits and policies.

    Returns:
        the counts, and every bad object.

    Raises:
        NodeNotFoundError: there is no node.
        StoreError: the store could not be read or listed.
        UnknownSchemeError, InvalidKeyError, TypeError, ValueError: as `open`.
    """
    settings = settings_or_default(settings)
    report = VerifyReport()

    async def work(engine: Engine) -> VerifyReport:
        async with open_node(target, path, storage_options=storage_options, settings=settings) as node:
            async for _ in Verification(node, report, callback).run():
                pass
        return report

    with shown_progress(progress, "verifying") as shown:
        callback = bind_callback(shown)
        return await run(work, timeout=settings.timeout, callback=callback)


class Verification:
    """Reads every stored object of an array, or of all arrays below a group. Used on the I/O thread only.

    If the store cannot list, all objects of the grid are requested.

    Args:
        node: the array or group.
        report: the result, which grows meanwhile.
        progress: called with `Progress` after each object.
    """

    def __init__(self, node: Array | Group, report: VerifyReport, progress: ProgressCallback | None) -> None:
        self._node = node
        self._report = report
        self._progress = progress
        self._objects = self._bytes = 0
        self._slots = asyncio.Semaphore(CONCURRENT_OBJECTS)
        self._memory = ByteSemaphore(MAX_BYTES)
        self._found: asyncio.Queue[list[BadObject] | BaseException | None] = asyncio.Queue(CONCURRENT_OBJECTS)

    async def run(self) -> AsyncGenerator[BadObject, None]:
        """Yield bad objects in the order in which they are found."""
        producer = asyncio.create_task(self._produce())
        try:
            while (item := await self._found.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                for bad in item:
                    (self._report.outside if bad.problem == "outside" else self._report.bad).append(bad)
                    yield bad
        finally:
            producer.cancel()
            await asyncio.wait([producer])

    async def _produce(self) -> None:
        try:
            async with aclosing(_arrays_of(self._node)) as batches:
                async for batch in batches:
                    await for_each(self._verify_array, batch, concurrency=CONCURRENT_ARRAYS)
        except (Exception, BaseExceptionGroup) as error:
            first: BaseException = error
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            await self._found.put(first)
        else:
            await self._found.put(None)

    async def _verify_array(self, named: tuple[str, Array | NodeError]) -> None:
        path, array = named
        if isinstance(array, Exception):
            await self._found.put([BadObject(path, getattr(array, "key", None) or path, "store", None, str(array))])
            return
        self._report.arrays += 1
        self._objects += prod(array._layout.grid.shape)
        self._bytes += array.nbytes
        async with asyncio.TaskGroup() as group, aclosing(_stored_objects(array, path, self._report)) as objects:
            async for each in objects:
                if isinstance(each, BadObject):
                    await self._found.put([each])
                    continue
                await self._slots.acquire()
                group.create_task(self._verify_object(array, path, each))

    async def _verify_object(self, array: Array, path: str, coords: tuple[int, ...]) -> None:
        try:
            view = array.blocks[coords] if coords else array[...]
            async with self._memory.hold(min(view.nbytes, STREAM_BYTES)):
                bad = await _verify_object(array, path, coords, view)
            if not any(each.error == GHOST for each in bad):
                self._report.objects += 1
                self._report.bytes += view.nbytes
            if self._progress is not None:
                done, done_bytes = self._report.objects, self._report.bytes
                self._progress(Progress(done, max(done, self._objects), done_bytes, max(done_bytes, self._bytes)))
            if bad:
                await self._found.put(bad)
        finally:
            self._slots.release()


async def _arrays_of(
    node: Array | Group,
) -> AsyncGenerator[list[tuple[str, Array | NodeError]], None]:
    """Yield the arrays at and below a node with their paths, in batches; an error in place of an unreadable one."""
    if isinstance(node, Array):
        yield [(node.path, node)]
        return
    async with aclosing(node._levels(None)) as levels:
        async for batch in levels:
            found: list[tuple[str, Array | NodeError]] = []
            for listed in batch:
                if isinstance(listed.metadata, ArrayMetadata):
                    try:
                        path = join_path(node.path, listed.name, None)
                        found.append((listed.name, node._child(make_array, path, listed.metadata)))
                    except (MetadataError, LimitError) as error:
                        found.append((listed.name, error))
                elif isinstance(listed.metadata, Exception):
                    found.append((listed.name, listed.metadata))
            yield found


async def _stored_objects(
    array: Array, path: str, report: VerifyReport
) -> AsyncGenerator[tuple[int, ...] | BadObject, None]:
    """Yield the coordinates of the objects to read, and objects outside of the grid."""
    layout = array._layout
    shape = layout.grid.shape
    if not _is_listed(array):
        report.missing = None
        for each in product(*map(range, shape)):
            yield each
        return
    stored = 0
    prefix = f"{array.path}/" if array.path else ""
    async with entries_of(array.store, prefix) as entries:
        async for entry in entries:
            kind = kind_of_key(entry.key[len(prefix) :], shape, layout.key_encoding)
            if entry.fault:
                stored += not isinstance(kind, str)
                yield BadObject(path, entry.key, "store", None, entry.fault)
            elif not isinstance(kind, str):
                stored += 1
                yield kind
            elif kind in _UNREAD:
                yield BadObject(path, entry.key, "outside", None, _UNREAD[kind].format(shape))
            else:
                report.other += kind == "other"
    if report.missing is not None:
        report.missing += prod(shape) - stored


def _is_listed(array: Array) -> bool:
    """Return whether a listing names the objects to read, which must then be stored."""
    return array._chunk_store.supports.listable and not array.metadata.storage_transformers


_UNREAD = {
    "outside": "the grid of {} chunks has none of this key",
    "misnamed": "the chunk key encoding of the array writes keys of another form, so this chunk is never read",
}


async def _verify_object(array: Array, path: str, coords: tuple[int, ...], view: View) -> list[BadObject]:
    """Read one stored object, and each inner chunk individually if it is a shard with an error."""
    if _is_listed(array):
        view._settings = replace(view._settings, missing_chunks="raise")
    error = await _read_error(view)
    if error is None:
        return []
    layout = array._layout
    key = (f"{array.path}/" if array.path else "") + layout.key_encoding.encode(coords)
    first = _bad(path, key, error, layout)
    if layout.shard is None or first.problem != "chunk":
        return [first]
    found: dict[BadObject, None] = {}
    for inner in _inner_views(view, layout.shard.inner_shape):
        if (error := await _read_error(inner)) is not None:
            found[_bad(path, key, error, layout)] = None
    return list(found) or [first]


async def _read_error(view: View) -> AiozarrError | None:
    try:
        if view.nbytes > STREAM_BYTES:
            async for _ in view.stream(prefetch=4):
                pass
        else:
            await view.read()
    except MissingChunkError as error:
        error.message = GHOST
        return error
    except (CodecError, LimitError, StoreError) as error:
        if isinstance(error, StoreError) and error.status in (401, 403):
            raise  # the store cannot be read at all, which says nothing about the chunks
        return error
    return None


def _inner_views(view: View, inner_shape: tuple[int, ...]) -> Iterator[View]:
    starts = [range(0, length, step) for length, step in zip(view.shape, inner_shape, strict=True)]
    for corner in product(*starts):
        yield view[tuple([slice(start, start + step) for start, step in zip(corner, inner_shape, strict=True)])]


def _bad(path: str, key: str, error: AiozarrError, layout: ArrayLayout) -> BadObject:
    byte_range: Any = getattr(error, "range", None)
    problem: Problem = "store" if isinstance(error, StoreError | MissingChunkError) else "chunk"
    if problem == "chunk" and layout.shard is not None and byte_range is not None:
        problem = "shard" if byte_range.length == layout.shard.index_nbytes else "chunk"
    return BadObject(path, key, problem, None if byte_range is None else str(byte_range), error.message)
