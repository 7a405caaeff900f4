"""One chunk on its way: fetched once, decoded once in a worker thread, scattered to every reader that waits for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.chunk_cache import ChunkCache
from aiozarr.engine.pool import Work
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.grid.box import box_around
from aiozarr.grid.projection import Part
from aiozarr.grid.reorder import assign
from aiozarr.model import Range
from aiozarr.schedule.scheduler import Call


class Token:
    """A hashable value whose hash is computed once: thousands of chunks of one shard are looked up by it."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Hashable) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and self.value == other.value


class Waiter(Protocol):
    """Who waits for a chunk. `landed` or `failed` is called on the I/O loop, once per sink."""

    def landed(self, sink: Sink) -> None:
        """The sink's elements are in place."""

    def failed(self, sink: Sink, error: BaseException) -> None:
        """They are not, because of `error`."""

    def missing(self, sink: Sink, key: str) -> BaseException | None:
        """Nothing is stored under `key`; return an error where that is one, None to read the fill value. Any thread."""

    def adopt(self, request: Call) -> None:
        """Send `request`, which another reader has left unsent."""

    def unpadded(self, sink: Sink) -> CodecPipeline | None:
        """Return the codecs of the chunk if only its part inside the array was stored; None: no such leniency."""


class Sink:
    """Where one reader wants which of a chunk's elements; `origin` is the waiter's own note."""

    __slots__ = ("flight", "origin", "out", "projection", "waiter")

    def __init__(self, waiter: Waiter, out: NDArray[Any], projection: Part, origin: Any = None) -> None:
        self.waiter = waiter
        self.out = out
        self.projection = projection
        self.origin = origin
        self.flight: Flight | None = None


class Flight:
    """A chunk that is being fetched, and the sinks that wait for it.

    Lives on the loop until its bytes are dispatched; then `sinks` are a worker's, and those who join are `late`.

    Attributes:
        token: what equal requests have in common; readers join by it.
        start, stop: where the chunk's bytes lie in the answer of its request; `stop` None: to the end.
        request: the request that fetches it.
        keepers: the caches that the decoded chunk goes to, and its name there.
        late: sinks that have come since, if any. A worker that begins takes them along; a deque is safe between
            threads.
    """

    __slots__ = ("dispatched", "keepers", "late", "pipeline", "request", "sinks", "start", "stop", "token")

    def __init__(self, token: Hashable, pipeline: CodecPipeline, sink: Sink) -> None:
        self.token = token
        self.pipeline = pipeline
        self.sinks = [sink]
        sink.flight = self
        self.start = 0
        self.stop: int | None = None
        self.request: Request | None = None
        self.dispatched = False
        self.keepers: dict[ChunkCache, Hashable] | None = None
        self.late: deque[Sink] | None = None

    def join(self, sink: Sink) -> None:
        """Another reader wants the chunk too."""
        sink.flight = self
        if not self.dispatched:
            self.sinks.append(sink)
        elif self.late is None:
            self.late = deque((sink,))
        else:
            self.late.append(sink)

    def take_late(self) -> list[Sink]:
        """Return the late ones, who are then the caller's."""
        taken: list[Sink] = []
        late = self.late
        while late:
            taken.append(late.popleft())
        return taken

    def take_sinks(self) -> list[Sink]:
        """Return all who wait, who are then the caller's."""
        taken, self.sinks = self.sinks + self.take_late(), []
        return taken


class Request(Protocol):
    """What a flight knows of the request that carries it."""

    key: str

    @property
    def store_url(self) -> str:
        """The store's URL, without secrets."""
        ...

    @property
    def start(self) -> int | None:
        """Where the request's range begins in the object; None for a whole object."""
        ...

    def may_carry(self, key: str, place: Hashable) -> bool:
        """Return whether it is for the object at `place`, whose key, seen from some root, is `key`."""
        ...

    def landed(self, flight: Flight, chunk: NDArray[Any] | None) -> None:
        """A worker is done with `flight`, which nobody joins any more; `chunk` is kept, if there is one."""

    def unpack(self, work: Work) -> None:
        """Hand `work` to a worker."""

    def unpacked(self) -> None:
        """One of the request's flights has been decoded."""


class Unpack(Work):
    """Decode one flight's bytes and scatter them; `data` None: nothing is stored."""

    __slots__ = ("chunk", "data", "flight", "refused")

    def __init__(self, flight: Flight, data: Buffer | None) -> None:
        super().__init__(flight.pipeline.spec.nbytes)
        self.flight = flight
        self.data = data
        self.chunk: NDArray[Any] | None = None
        self.refused: dict[Sink, BaseException] | None = None

    def run(self) -> None:
        flight, data = self.flight, self.data
        if flight.late:
            flight.sinks += flight.take_late()
        if data is None:
            self._fill()
            return
        try:
            try:
                if flight.keepers is None:
                    decode_into(flight.pipeline, data, flight.sinks)
                else:
                    self.chunk = decode_apart(flight.pipeline, data, flight.sinks)
            except CodecError as error:
                sink = flight.sinks[0]
                if not decode_unpadded(sink.waiter.unpadded(sink), error, data, flight.sinks):
                    raise
        except CodecError as error:
            request = flight.request
            assert request is not None
            error.store, error.key = request.store_url, request.key
            if request.start is not None:
                stop = flight.start + memoryview(data).nbytes if flight.stop is None else flight.stop
                error.range = Range(request.start + flight.start, stop - flight.start)
            raise

    def _fill(self) -> None:
        """Give each reader what its own settings say of what is not stored."""
        flight = self.flight
        fill = flight.pipeline.spec.fill_value
        assert flight.request is not None
        for sink in flight.sinks:
            error = sink.waiter.missing(sink, flight.request.key)
            if error is None:
                sink.projection.fill(sink.out, fill)
            else:
                self.refused = self.refused or {}
                self.refused[sink] = error

    def finished(self) -> None:
        flight, error, refused = self.flight, self.error, self.refused
        request = flight.request
        assert request is not None
        request.landed(flight, self.chunk)
        sinks, flight.sinks = flight.sinks, []
        late = flight.take_late() if flight.late else []
        if error is not None:
            sinks, late = sinks + late, []
        elif self.chunk is not None:
            for sink in late:
                sink.flight = None
                request.unpack(Serve(sink, self.chunk))
            late = []
        for sink in sinks:
            failure = error if refused is None else refused.get(sink)
            if failure is None:
                sink.waiter.landed(sink)
            else:
                sink.waiter.failed(sink, failure)
            # No cycle may keep the reader's array alive until the garbage collector comes by.
            sink.flight = None
        self.chunk = self.refused = None
        if late:
            # They have come while the worker was at it: the bytes are here. Nobody else comes.
            flight.sinks = late
            request.unpack(Unpack(flight, self.data))
            return
        self.data = None
        flight.request = None
        request.unpacked()


class Serve(Work):
    """Give one reader its elements of a chunk that is decoded already."""

    __slots__ = ("chunk", "sink")

    def __init__(self, sink: Sink, chunk: NDArray[Any]) -> None:
        super().__init__(sink.projection.size * chunk.dtype.itemsize)
        self.sink = sink
        self.chunk = chunk

    def run(self) -> None:
        projection = self.sink.projection
        projection.scatter(self.sink.out, projection.gather(self.chunk))

    def finished(self) -> None:
        if self.error is None:
            self.sink.waiter.landed(self.sink)
        else:
            self.sink.waiter.failed(self.sink, self.error)


class Fill(Work):
    """Put the fill value where nothing is stored."""

    __slots__ = ("fill_value", "sinks")

    def __init__(self, sinks: list[Sink], fill_value: NDArray[Any]) -> None:
        super().__init__(sum([sink.projection.size for sink in sinks]) * fill_value.dtype.itemsize)
        self.sinks = sinks
        self.fill_value = fill_value

    def run(self) -> None:
        for sink in self.sinks:
            sink.projection.fill(sink.out, self.fill_value)

    def finished(self) -> None:
        for sink in self.sinks:
            if self.error is None:
                sink.waiter.landed(sink)
            else:
                sink.waiter.failed(sink, self.error)


class _Scratch(threading.local):
    """One block per thread that chunks decode into before they are scattered."""

    pipeline: CodecPipeline | None = None
    array: NDArray[Any] | None = None

    def array_of(self, pipeline: CodecPipeline) -> NDArray[Any]:
        if self.pipeline is pipeline and self.array is not None:
            return self.array
        spec = pipeline.spec
        if self.array is None or not _same_block(self.array, spec):
            self.array = np.empty(spec.shape, spec.dtype)
        self.pipeline = pipeline
        return self.array


def _same_block(array: NDArray[Any], spec: ArraySpec) -> bool:
    return array.shape == spec.shape and array.dtype == spec.dtype


_scratch = _Scratch()


class Target(Protocol):
    """Where elements of a chunk go."""

    @property
    def out(self) -> NDArray[Any]:
        """The array they go to."""
        ...

    @property
    def projection(self) -> Part:
        """Which elements, and where in `out`."""
        ...


def decode_unpadded(pipeline: CodecPipeline | None, error: CodecError, data: Buffer, sinks: Sequence[Target]) -> bool:
    """Decode a chunk whose decoding has failed with `error` by `pipeline`, for its part inside the array alone.

    Some writers do not store what of a chunk lies behind the array's end. Returns False where that does not explain it.
    """
    if pipeline is None or isinstance(error, ChecksumError):
        return False
    try:
        decode_into(pipeline, data, sinks)
    except CodecError:
        return False
    return True


MAX_BOXES = 16
"""Readers of one chunk beyond whom it is not looked for what they want of it: it will be most of it."""


def decode_into(pipeline: CodecPipeline, data: Buffer, sinks: Sequence[Target]) -> None:
    """Decode one chunk and put its elements where the sinks want them, from the decoder itself where it can."""
    spec, regions = pipeline.spec, pipeline.regions
    window, box, whole = None, None, False
    if len(sinks) == 1:
        sink = sinks[0]
        projection = sink.projection
        window = projection.window(sink.out)
        if window is not None:
            whole = window.shape == spec.shape and window.dtype == spec.dtype and projection.straight
            if whole and window.flags.c_contiguous and (regions is None or not regions.reorders):
                chunk = pipeline.decode(data, out=window)
                if chunk is not window:
                    window[...] = chunk
                return
    if regions is not None:
        if regions.decodes_parts and not whole and len(sinks) <= MAX_BOXES:
            box = box_around([sink.projection for sink in sinks])
        chunk = regions.decode(data, _scratch.array_of(pipeline), box)
    else:
        # Strings and other objects would be kept alive by the block, and are made anew anyway.
        chunk = pipeline.decode(data, out=None if spec.is_variable else _scratch.array_of(pipeline))
    if window is not None:
        assign(window, chunk if whole else sinks[0].projection.gather(chunk))
        return
    for sink in sinks:
        sink.projection.scatter(sink.out, sink.projection.gather(chunk))


def decode_apart(pipeline: CodecPipeline, data: Buffer, sinks: Sequence[Target]) -> NDArray[Any]:
    """Decode one chunk into memory of its own, as `decode_into` otherwise; return it, read-only."""
    spec = pipeline.spec
    block = np.empty(spec.shape, spec.dtype)
    chunk = pipeline.decode(data, out=block)
    if chunk is not block:
        # What the codecs have returned may be a part of something larger.
        assign(block, chunk)
    block.flags.writeable = False
    for sink in sinks:
        sink.projection.scatter(sink.out, sink.projection.gather(block))
    return block
