"""One chunk on its way: fetched once, decoded once in a worker thread, scattered to every reader that waits for it."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.pool import Work
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.grid.projection import Part
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
    """A chunk that is being fetched, and the sinks that wait for it. Lives on the loop until its bytes are dispatched.

    Attributes:
        token: what equal requests have in common; readers join by it.
        start, stop: where the chunk's bytes lie in the answer of its request; `stop` None: to the end.
        request: the request that fetches it.
    """

    __slots__ = ("dispatched", "pipeline", "request", "sinks", "start", "stop", "token")

    def __init__(self, token: Hashable, pipeline: CodecPipeline, sink: Sink) -> None:
        self.token = token
        self.pipeline = pipeline
        self.sinks = [sink]
        sink.flight = self
        self.start = 0
        self.stop: int | None = None
        self.request: Request | None = None
        self.dispatched = False

    def join(self, sink: Sink) -> None:
        """Another reader wants the chunk too."""
        self.sinks.append(sink)
        sink.flight = self


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

    def unpacked(self) -> None:
        """One of the request's flights has been decoded."""


class Unpack(Work):
    """Decode one flight's bytes and scatter them; `data` None: nothing is stored."""

    __slots__ = ("data", "flight")

    def __init__(self, flight: Flight, data: Buffer | None) -> None:
        super().__init__(flight.pipeline.spec.nbytes)
        self.flight = flight
        self.data = data

    def run(self) -> None:
        flight = self.flight
        if self.data is None:
            fill = flight.pipeline.spec.fill_value
            for sink in flight.sinks:
                sink.projection.fill(sink.out, fill)
            return
        try:
            try:
                decode_into(flight.pipeline, self.data, flight.sinks)
            except CodecError as error:
                sink = flight.sinks[0]
                if not decode_unpadded(sink.waiter.unpadded(sink), error, self.data, flight.sinks):
                    raise
        except CodecError as error:
            request = flight.request
            assert request is not None
            error.store, error.key = request.store_url, request.key
            if request.start is not None:
                stop = flight.start + memoryview(self.data).nbytes if flight.stop is None else flight.stop
                error.range = Range(request.start + flight.start, stop - flight.start)
            raise
        finally:
            self.data = None

    def finished(self) -> None:
        flight = self.flight
        error = self.error
        for sink in flight.sinks:
            if error is None:
                sink.waiter.landed(sink)
            else:
                sink.waiter.failed(sink, error)
            # No cycle may keep the reader's array alive until the garbage collector comes by.
            sink.flight = None
        flight.sinks.clear()
        request, flight.request = flight.request, None
        assert request is not None
        request.unpacked()


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


def decode_into(pipeline: CodecPipeline, data: Buffer, sinks: Sequence[Target]) -> None:
    """Decode one chunk and put its elements where the sinks want them, from the decoder itself where it can."""
    spec = pipeline.spec
    if len(sinks) == 1:
        sink = sinks[0]
        region = sink.projection.window(sink.out)
        if (
            region is not None
            and region.shape == spec.shape
            and region.flags.c_contiguous
            and region.dtype == spec.dtype
            and sink.projection.straight
        ):
            chunk = pipeline.decode(data, out=region)
            if chunk is not region:
                region[...] = chunk
            return
    # Strings and other objects would be kept alive by the block, and are made anew anyway.
    chunk = pipeline.decode(data, out=None if spec.is_variable else _scratch.array_of(pipeline))
    for sink in sinks:
        sink.projection.scatter(sink.out, sink.projection.gather(chunk))
