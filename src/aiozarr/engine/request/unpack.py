"""What a worker does with what a request has brought: decode a chunk, scatter it, and tell those who wait for it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.request.flight import Flight, Sink
from aiozarr.engine.work.decode import decode_apart, decode_into, decode_unpadded
from aiozarr.engine.work.pool import Work, run_quietly
from aiozarr.engine.work.run import Run, run_for
from aiozarr.errors import CodecError
from aiozarr.grid.projection import Part
from aiozarr.model import Range


class Unpack(Work):
    """Decode one flight's bytes and scatter them; `data` None: nothing is stored."""

    __slots__ = ("chunk", "data", "flight", "refused")

    def __init__(self, flight: Flight, data: Buffer | None) -> None:
        super().__init__(flight.pipeline.spec.nbytes)
        self.flight = flight
        self.data = data
        self.chunk: NDArray[Any] | None = None
        self.refused: dict[Sink, BaseException] | None = None

    def run_from(self, batch: Sequence[Work], at: int) -> int:
        run = None if at + 1 == len(batch) else run_for(self.flight.pipeline)
        done = 0 if run is None else self._run_with(batch[at : at + run.count], run)
        return done or super().run_from(batch, at)

    def _run_with(self, works: Sequence[Work], run: Run) -> int:
        """Decode this chunk and those behind it together, as far as that can be; return how many of `works`."""
        bodies: list[Buffer] = []
        parts: list[Part] = []
        out = None
        for work in works:
            # Each is asked for itself: a read that is observed wants to know the time of its chunks.
            if type(work) is not type(self) or work.data is None:
                break
            sink = work.only_sink(self.flight.pipeline)
            if sink is None or (out is not None and sink.out is not out):
                break
            out = sink.out
            bodies.append(work.data)
            parts.append(sink.projection)
        places = None if out is None else run.places(out, parts, 0, len(parts))
        if places is None:
            return 0
        count = places.count
        starts = list(accumulate([memoryview(body).nbytes for body in bodies[: count - 1]], initial=0))
        if not run.decode(memoryview(b"".join(bodies[:count])), starts, places):
            # One by one: all of them, or the rest would be tried together again for each.
            for work in works[:count]:
                run_quietly(work)
        return count

    def only_sink(self, pipeline: CodecPipeline) -> Sink | None:
        """Return who alone waits for the chunk, where `pipeline` decodes it and nobody keeps it; None otherwise."""
        flight = self.flight
        if flight.pipeline is not pipeline or flight.keepers is not None or flight.late or len(flight.sinks) != 1:
            return None
        sink = flight.sinks[0]
        return None if sink.waiter.gave_up else sink

    def run(self) -> None:
        flight, data = self.flight, self.data
        if flight.late:
            flight.sinks += flight.take_late()
        for sink in flight.sinks:
            if not sink.waiter.gave_up:
                break
        else:
            # Whoever has given up waits for this to end, and others' chunks wait behind it.
            self.refused = {sink: CancelledError() for sink in flight.sinks}
            return
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
