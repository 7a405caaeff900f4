"""One chunk on its way, and the readers who wait for it: fetched once, decoded once, scattered to each of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Protocol
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.cache.chunks import ChunkCache
from aiozarr.engine.work.pool import Work
from aiozarr.grid.projection import Part
from aiozarr.schedule.call import Call


class Token:
    """Stands for a value: as long as it is used, there is one for all equal values.

    So it is hashed and compared as fast as can be: every chunk of an array is looked up by it, four times.
    """

    __slots__ = ("__weakref__", "value")

    value: Hashable

    def __new__(cls, value: Hashable) -> Token:
        made = _tokens.get(value)
        if made is None:
            made = super().__new__(cls)
            made.value = value
            made = _tokens.setdefault(value, made)
        return made


_tokens: WeakValueDictionary[Hashable, Token] = WeakValueDictionary()


class Waiter(Protocol):
    """Who waits for a chunk. `landed` or `failed` is called on the I/O loop, once per sink."""

    def landed(self, sink: Sink) -> None:
        """The sink's elements are in place."""

    def failed(self, sink: Sink, error: BaseException) -> None:
        """They are not, because of `error`."""

    @property
    def gave_up(self) -> bool:
        """True once nobody looks at the sinks any more. Any thread."""
        ...

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

    def __init__(self, token: Hashable, pipeline: CodecPipeline, sink: Sink | None) -> None:
        self.token = token
        self.pipeline = pipeline
        self.sinks: list[Sink] = []
        if sink is not None:
            self.sinks.append(sink)
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
