"""Reads and decodes every stored chunk of an array, and names the bad ones by key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from aiozarr.errors import AiozarrError, CodecError, LimitError, StoreError

if TYPE_CHECKING:
    from aiozarr.engine import ArrayLayout
    from aiozarr.hierarchy import Array, View

Problem = Literal["chunk", "shard", "store", "outside"]

CONCURRENT_OBJECTS = 16
"""Stored objects that are read at a time; large ones fewer, by their bytes."""
MAX_BYTES = 256 << 20
"""Decoded bytes in memory at a time."""
STREAM_BYTES = 64 << 20
"""A larger object is decoded chunk by chunk, and not held as a whole."""


@dataclass(frozen=True)
class BadObject:
    """One finding.

    Attributes:
        array: path of the array.
        key: key of the stored object, relative to the target.
        problem: "chunk": cannot be decoded; "shard": its index is bad; "store": cannot be read; "outside": no chunk of
            the grid has this key, as after the array was made smaller (no error).
        range: the bytes of an inner chunk in the object; None for all of it.
        error: the text of the error.
    """

    array: str
    key: str
    problem: Problem
    range: str | None
    error: str


@dataclass
class VerifyCounts:
    """Totals of a verification; `bytes` are those of decoded elements."""

    arrays: int = 0
    objects: int = 0
    missing: int | None = 0
    bad: int = 0
    outside: int = 0
    bytes: int = 0


async def verify_array(
    array: Array, path: str, counts: VerifyCounts, progress: Callable[[], None]
) -> AsyncGenerator[BadObject, None]:
    """Read every stored object of `array`, and yield what is bad.

    Only stored objects are read where the store can list. Otherwise the whole grid is.
    """
    layout = array._layout
    counts.arrays += 1
    memory = asyncio.Semaphore(_concurrency(layout))
    found: asyncio.Queue[list[BadObject] | BaseException | None] = asyncio.Queue(CONCURRENT_OBJECTS)

    async def verify_one(coords: tuple[int, ...]) -> None:
        try:
            view = array.blocks[coords] if coords else array[...]
            bad = await _verify_object(array, path, coords, view)
            counts.objects += 1
            counts.bytes += view.nbytes
            progress()
            if bad:
                await found.put(bad)
        finally:
            memory.release()

    async def produce() -> None:
        try:
            async with asyncio.TaskGroup() as group, aclosing(_stored_objects(array, path, counts)) as objects:
                async for each in objects:
                    if isinstance(each, BadObject):
                        await found.put([each])
                        continue
                    await memory.acquire()
                    group.create_task(verify_one(each))
        except BaseExceptionGroup as errors:
            await found.put(errors.exceptions[0])
        except Exception as error:
            await found.put(error)
        else:
            await found.put(None)

    producer = asyncio.create_task(produce())
    try:
        while (item := await found.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            for bad in item:
                if bad.problem == "outside":
                    counts.outside += 1
                else:
                    counts.bad += 1
                yield bad
    finally:
        producer.cancel()
        await asyncio.wait([producer])


def _concurrency(layout: ArrayLayout) -> int:
    nbytes = max(1, min(layout.largest.spec.nbytes, STREAM_BYTES))
    return max(1, min(CONCURRENT_OBJECTS, MAX_BYTES // nbytes))


async def _stored_objects(
    array: Array, path: str, counts: VerifyCounts
) -> AsyncGenerator[tuple[int, ...] | BadObject, None]:
    """Yield the coordinates of the objects to read, and objects outside of the grid."""
    layout, store = array._layout, array._chunk_store
    shape = layout.grid.shape
    if not store.supports.listable or array.metadata.storage_transformers:
        counts.missing = None
        for each in product(*map(range, shape)):
            yield each
        return
    stored = 0
    prefix = f"{array.path}/" if array.path else ""
    async for entry in array.store.scan(prefix):
        coords = layout.key_encoding.decode(entry.key[len(prefix) :], len(shape))
        if coords is None:
            continue
        if is_in_grid(coords, shape):
            stored += 1
            yield coords
        else:
            yield BadObject(path, entry.key, "outside", None, f"the grid of {shape} chunks has none of this key")
    if counts.missing is not None:
        counts.missing += prod(shape) - stored


def is_in_grid(coords: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a grid of this shape has a chunk at `coords`."""
    return all([number < length for number, length in zip(coords, shape, strict=True)])


async def _verify_object(array: Array, path: str, coords: tuple[int, ...], view: View) -> list[BadObject]:
    """Read one stored object, and of a shard with an error each inner chunk by itself."""
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
    except (CodecError, LimitError, StoreError) as error:
        if isinstance(error, StoreError) and error.status in (401, 403):
            raise  # nothing can be read: that says nothing about the chunks
        return error
    return None


def _inner_views(view: View, inner_shape: tuple[int, ...]) -> Iterator[View]:
    starts = [range(0, length, step) for length, step in zip(view.shape, inner_shape, strict=True)]
    for corner in product(*starts):
        yield view[tuple([slice(start, start + step) for start, step in zip(corner, inner_shape, strict=True)])]


def _bad(path: str, key: str, error: AiozarrError, layout: ArrayLayout) -> BadObject:
    byte_range: Any = getattr(error, "range", None)
    problem: Problem = "store" if isinstance(error, StoreError) else "chunk"
    if problem == "chunk" and layout.shard is not None and byte_range is not None:
        problem = "shard" if byte_range.length == layout.shard.index_nbytes else "chunk"
    return BadObject(path, key, problem, None if byte_range is None else str(byte_range), error.message)
