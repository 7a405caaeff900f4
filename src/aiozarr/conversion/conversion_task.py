"""Tasks of a conversion: each reads one region of one array and writes it to another, in any process.

A pass has the tasks between two arrays, with all that executes them. Without I/O.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import prod
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.conversion.regions import Bounds, RegionGrid
from aiozarr.engine import Engine, run, run_blocking
from aiozarr.errors import AiozarrError, CopyError
from aiozarr.hierarchy import Array, internal
from aiozarr.hierarchy.internal import Casting
from aiozarr.metadata.formats import render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.schedule.events import network_requests, record
from aiozarr.settings import Settings
from aiozarr.stores import Store

CAST_BYTES = 4 << 20
"""Bytes of a region that are cast at once, in memory that is not reused."""
MAX_OPEN_ARRAYS = 64
"""Arrays that a worker process keeps open. Tasks of one array run one after the other."""


class TaskResult(NamedTuple):
    """The cost of one task.

    Attributes:
        number: number of the task in its stage.
        requests: requests over a network, with repetitions.
        bytes_read: bytes that were received.
        bytes_written: bytes that were sent.
    """

    number: int
    requests: int
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True)
class ArrayLocation:
    """The location of an array that a task reads or writes.

    Attributes:
        store: its store.
        path: the path of its chunks.
        documents: the path of its documents, which are elsewhere until the conversion has ended.
        zarr_format: the format of its documents.
    """

    store: Store
    path: str
    documents: str
    zarr_format: int

    @property
    def done_prefix(self) -> str:
        """The prefix of the marks of done tasks, which name their numbers."""
        return f"{self.documents}/done/"

    async def open(self, mode: internal.Mode, settings: Settings) -> Array:
        """Read the documents, and return the array."""

        async def read(engine: Engine) -> Array:
            access = internal.NodeAccess(engine, self.store, self.documents, settings)
            metadata = await internal.read_explicit(access, self.zarr_format)
            if not isinstance(metadata, ArrayMetadata):
                raise internal.node_not_found_error(self.store, self.documents, self.zarr_format)
            # The documents are elsewhere until the end, so the first write must not look for them beside the chunks.
            return Array(self.store, self.path, metadata, internal.HandleOptions(settings, mode, checks_document=False))

        return await run(read)


class RegionBuffers:
    """Memory of regions, which tasks reuse.

    Finished writes may stay referenced until the next garbage collection, which does not count the memory of arrays.
    Without reuse, a conversion would hold the values of many tasks.
    """

    def __init__(self) -> None:
        self._free: list[NDArray[Any]] = []

    @contextmanager
    def region(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[NDArray[Any] | None]:
        """Yield an array of undefined elements, or None for elements of variable length."""
        size = prod(shape) * dtype.itemsize
        if not size or dtype.hasobject or dtype.kind == "T":
            yield None
            return
        try:
            memory = self._free.pop()
        except IndexError:  # tasks on several loops may use it
            memory = np.empty(size, np.uint8)
        if len(memory) < size:
            memory = np.empty(size, np.uint8)
        try:
            yield memory[:size].view(dtype).reshape(shape)
            # Not after an error or a cancellation, because a write into it may still be running.
            self._free.append(memory)
        finally:
            del memory


@dataclass(frozen=True)
class ConversionTask:
    """One region of one pass of a conversion. It writes whole stored objects, so it may be repeated at any time.

    No two tasks of a pass write one object, so they need no locks. A task can be pickled, in less than 2 kB for stores
    with few options, and runs in any process that reaches both stores.

    Attributes:
        number: number of the task in its pass.
        source: the array to read.
        destination: the array to write.
        region: start and stop per dimension of the destination.
        offset: the first element of the destination in the source.
        casting: the rule of casts.
        item_size: bytes of an element of the source.
        settings: limits and policies. A callback stays in the process of the plan.
        token: identifies the execution. Arrays that are open in a process belong to one execution.
    """

    number: int
    source: ArrayLocation
    destination: ArrayLocation
    region: Bounds
    offset: tuple[int, ...]
    casting: internal.Casting
    item_size: int
    settings: Settings
    token: str

    @property
    def nbytes(self) -> int:
        """Bytes of the region's elements."""
        return self.item_size * prod([stop - start for start, stop in self.region])

    def run(self) -> TaskResult:
        """Read the region, write it, and store a mark, by which `ConversionPlan.finish` knows that the task has run.

        The call blocks, so that any executor or scheduler can make it in a worker.

        Raises:
            NodeNotFoundError: the conversion was not prepared, or has ended.
            TypeError, OverflowError, ValueError: the rule of casts refuses a value.
            StoreError, CodecError, LimitError: as `View.read` and `View.write`.
        """
        return run_blocking(self._run_marked)

    async def _run_marked(self) -> TaskResult:
        result = await self.run_unmarked()
        store, key = self.destination.store, f"{self.destination.done_prefix}{self.number}"

        async def store_mark(engine: Engine) -> None:
            await internal.NodeAccess(engine, store, "", self.settings).scheduled.set(key, b"")

        await run(store_mark)
        return result

    async def run_unmarked(self) -> TaskResult:
        """Read the region and write it, for a caller that records itself that the task has run."""
        source = await _open_once(self.token, self.source, "r", self.settings)
        destination = await _open_once(self.token, self.destination, "r+", self.settings)
        return await self.run_between(source, destination, _buffers)

    async def run_between(self, source: Array, destination: Array, buffers: RegionBuffers) -> TaskResult:
        """Run the task with arrays that are open already."""
        inside = tuple([slice(start, stop) for start, stop in self.region])
        outside = tuple([slice(each.start + at, each.stop + at) for each, at in zip(inside, self.offset, strict=True)])
        with record() as report:
            # The ellipsis keeps the block of an array without dimensions an array.
            view = source[(*outside, ...)]
            is_cast = view.dtype != destination.dtype
            with (
                buffers.region(view.shape, view.dtype) as memory,
                buffers.region(view.shape, destination.dtype) if is_cast else nullcontext() as cast_memory,
            ):
                block = await view.read(out=memory)
                if cast_memory is not None:
                    block = await self._cast(block, cast_memory, [each.start for each in outside])
                await destination[(*inside, ...)].write(block, casting=self.casting)
        return TaskResult(self.number, network_requests(report), report.bytes_fetched, report.bytes_written)

    async def _cast(self, block: NDArray[Any], memory: NDArray[Any], origin: list[int]) -> NDArray[Any]:
        """Cast a region into reused memory, in a worker, with little additional memory."""

        def cast() -> None:
            steps = max(1, block.nbytes // CAST_BYTES) if block.ndim else 1
            start = 0
            for source, result in zip(
                np.array_split(np.atleast_1d(block), steps), np.array_split(np.atleast_1d(memory), steps), strict=True
            ):
                # Errors name the index in the source.
                index = [origin[0] + start, *origin[1:]] if origin else [0]
                result[...] = internal.convert_values(source, memory.dtype, self.casting, origin=index)
                start += len(source)

        async def work(engine: Engine) -> None:
            await engine.run_in_worker(cast, block.nbytes)

        await run(work)
        return memory


def run_task(task: ConversionTask) -> TaskResult | Exception:
    """Run a task in a worker of an executor. Return its error, because not every executor can pickle every error."""
    try:
        return run_blocking(task.run_unmarked)
    except Exception as error:
        return portable_error(error)


def portable_error(error: Exception) -> Exception:
    """Return an error that can be pickled, without the errors that caused it."""
    error.__cause__ = error.__context__ = error.__traceback__ = None
    if isinstance(error, AiozarrError) or type(error).__module__ == "builtins":
        try:
            pickle.dumps(error)
            return error
        except Exception:  # whatever the failure, the error cannot be pickled, and only its text is passed on
            pass
    return CopyError(f"{type(error).__name__}: {error}")


_open_arrays: dict[tuple[int, str, str, str], Array] = {}
_lock = ForkSafeLock()
_buffers = RegionBuffers()


async def _open_once(token: str, location: ArrayLocation, mode: internal.Mode, settings: Settings) -> Array:
    """Return the array of a location, opened once per process and execution."""
    # A forked child must not use the connections of its parent.
    key = (os.getpid(), token, location.store.url_of(location.documents), mode)
    with _lock:
        found = _open_arrays.get(key)
    if found is None:
        found = await location.open(mode, settings)
        with _lock:
            while len(_open_arrays) >= MAX_OPEN_ARRAYS:
                del _open_arrays[next(iter(_open_arrays))]
            _open_arrays[key] = found
    return found


@dataclass(frozen=True)
class ConversionStage:
    """One pass over one array.

    Attributes:
        array: path of the array, relative to the destination; "" is the destination itself.
        number: 0, or more behind intermediate arrays.
        stages: number of passes of this array.
        shape: shape of the array.
        objects: shape of the largest stored object that the pass writes.
        region: shape of the largest region of a task.
        tasks: number of tasks.
        nbytes: bytes of the elements that the pass writes.
        bytes_read: bytes of the elements that it reads, with repetitions, before compression.
        requests: requests at most: chunks read, with repetitions, and objects written.
        amplification: the ratio of elements read to elements of the array.
        memory: bytes of one task's values.
    """

    array: str
    number: int
    stages: int
    shape: tuple[int, ...]
    objects: tuple[int, ...]
    region: tuple[int, ...]
    tasks: int
    nbytes: int
    bytes_read: int
    requests: int
    amplification: float
    memory: int


@dataclass(frozen=True)
class ArrayPass:
    """One pass: its `ConversionStage`, and the locations of its arrays, from which its tasks are made."""

    stage: ConversionStage
    grid: RegionGrid
    source: ArrayLocation
    destination: ArrayLocation
    documents: ArrayMetadata
    offset: tuple[int, ...]
    item_size: int

    @property
    def is_last(self) -> bool:
        """True for the pass that writes the result and no intermediate array."""
        return self.stage.number == self.stage.stages - 1


@dataclass(frozen=True)
class ConversionWork:
    """The stages of a conversion, with the data from which tasks and the documents of the result are made.

    It can be pickled if the stores can. `ConversionPlan` describes its public attributes.
    """

    source: str
    destination: str
    arrays: int
    groups: int
    stages: tuple[ConversionStage, ...]
    max_memory: int
    notes: Mapping[str, str]
    # The stores of the result and of intermediate arrays, the passes of the stages, and the result's nodes by path.
    _store: Store = field(repr=False)
    _temporary: Store = field(repr=False)
    _passes: tuple[ArrayPass, ...] = field(repr=False)
    _nodes: Mapping[str, ArrayMetadata | GroupMetadata] = field(repr=False)
    # The rule of casts applies to the last pass of an array. The token identifies the execution.
    _casting: Casting = field(repr=False)
    _settings: Settings = field(repr=False)
    _token: str = field(default_factory=lambda: uuid4().hex, compare=False, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that all passes write."""
        return sum([stage.nbytes for stage in self.stages])

    @property
    def bytes_read(self) -> int:
        """Bytes of the elements that all passes read, with repetitions."""
        return sum([stage.bytes_read for stage in self.stages])

    @property
    def requests(self) -> int:
        """Requests of all passes at most."""
        return sum([stage.requests for stage in self.stages])

    def tasks(self, stage: int | None = None) -> Iterator[ConversionTask]:
        """Iterate over the tasks of one of `stages`, or of all in order. A stage begins when the previous one ended."""
        for each in self._passes if stage is None else (self._passes[stage],):
            casting: Casting = self._casting if each.is_last else "checked"
            shared = (each.offset, casting, each.item_size, self._settings, self._token)
            for number, region in enumerate(each.grid):
                yield ConversionTask(number, each.source, each.destination, region, *shared)

    def fingerprint(self) -> str:
        """Return a text that is equal for plans of equal tasks, sources and results."""
        facts: list[Any] = [self.source, self.destination, self._casting]
        for path, metadata in self._nodes.items():
            kept = metadata if isinstance(metadata, ArrayMetadata) else replace(metadata, consolidated=None)
            facts += [path, *[data.decode() for data in render_node(kept).values()]]
        for each in self._passes:
            region, source = each.stage.region, repr(each.grid.source)
            facts += [each.stage.array, each.stage.number, region, source, each.offset, each.source.store.url]
            # Includes intermediate arrays, because a later version may encode them in another way.
            facts += [data.decode() for data in render_node(each.documents).values()]
        return sha256(json.dumps(facts).encode()).hexdigest()
