"""What one read shares with others: chunks that are on their way, and those that are kept from earlier reads."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.desk import Desk
from aiozarr.engine.request.flight import Flight, Sink
from aiozarr.engine.request.terms import DEFAULT_TERMS, ending_terms
from aiozarr.engine.request.unpack import Serve
from aiozarr.settings import Settings

if TYPE_CHECKING:
    from aiozarr.engine.read.job import ReadJob

MAX_SERVING = 256
"""Chunks from the cache that one read has before the workers; it begins no more before half of them are in place."""


def may_be_kept(pipeline: CodecPipeline) -> bool:
    """Return whether the bytes of a decoded chunk are known: those of objects, such as strings, lie elsewhere."""
    return not (pipeline.spec.is_variable or pipeline.spec.dtype.hasobject)


class Sharing:
    """One read takes chunks from the cache, and joins those that are on their way.

    Attributes:
        shared: chunks that come by another reader's request.
        cached: chunks that were at hand.
    """

    def __init__(self, desk: Desk, settings: Settings) -> None:
        terms = ending_terms(settings)
        self._desk = desk
        self._seconds = settings.chunk_cache_seconds
        self._cache = desk.chunk_caches.of(settings.chunk_cache_bytes)
        self._terms = None if terms == DEFAULT_TERMS else terms
        self._serving = 0
        self.shared = self.cached = 0

    @property
    def keeps(self) -> bool:
        """Return whether decoded chunks are kept for later reads."""
        return self._cache is not None

    @property
    def is_busy(self) -> bool:
        """Return whether the workers have enough of what was at hand."""
        return self._serving >= MAX_SERVING

    def on_terms(self, token: Hashable) -> Hashable:
        """Return what readers share a request by: `token`, and settings where they are not the defaults."""
        return token if self._terms is None else (token, self._terms)

    def flies(self, token: Hashable) -> bool:
        """Return whether the chunk of `token` is on its way."""
        return self.on_terms(token) in self._desk.flights

    def serve(self, job: ReadJob, sink: Sink, token: Hashable) -> bool:
        """Give `sink` the chunk of `token` if it is at hand; return whether it is."""
        if self._cache is None:
            return False
        chunk = self._cache.get(token, asyncio.get_running_loop().time() - self._seconds)
        if chunk is None:
            return False
        job.expect(sink)
        self._serving += 1
        self.cached += 1
        self._desk.pool.submit(_ServeReader(job, sink, chunk), job.line)
        return True

    def served(self, job: ReadJob) -> None:
        """A chunk that was at hand is in place."""
        self._serving -= 1
        if self._serving in (0, MAX_SERVING // 2):
            job.proceed()

    def wait_for(
        self, job: ReadJob, sink: Sink, token: Hashable, pipeline: CodecPipeline, *, keep: bool = True
    ) -> Flight | None:
        """Join the flight of `token`; where there is none, begin it and return it: its bytes are still to fetch.

        `keep`: the chunk may be kept, because its token tells whether it is still what is stored.
        """
        job.expect(sink)
        flying = self.on_terms(token)
        found = self._desk.flights.get(flying)
        if found is None:
            flight = self._desk.flights[flying] = Flight(flying, pipeline, sink)
        else:
            flight = found
            flight.join(sink)
            self.shared += 1
        cache = self._cache
        if cache is not None and keep and may_be_kept(pipeline) and cache.fits(pipeline.spec.nbytes):
            if flight.keepers is None:
                flight.keepers = {}
            flight.keepers[cache] = token
        return flight if found is None else None


class _ServeReader(Serve):
    """Give a chunk from the cache to a read, which goes on when few of them are left."""

    __slots__ = ("job",)

    def __init__(self, job: ReadJob, sink: Sink, chunk: NDArray[Any]) -> None:
        super().__init__(sink, chunk)
        self.job = job

    def finished(self) -> None:
        super().finished()
        self.job.sharing.served(self.job)
