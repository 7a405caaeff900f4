"""One keep-alive connection that carries one request at a time and receives bodies in place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from aiozarr.errors import AiozarrError, ShortReadError, StoreError
from aiozarr.stores.lane.head import HEAD_LIMIT, Head
from aiozarr.stores.lane.judge import NOTE_BYTES, Accept, Verdict, Want, judge, over_limit

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.stores.lane.head import Headers
    from aiozarr.stores.lane.pool import Pool


class Answer:
    """What came back: status, headers, the verdict on them, and the body as far as the verdict wanted it."""

    __slots__ = ("body", "headers", "status", "verdict")

    def __init__(self, status: int, headers: Headers, verdict: Verdict, body: Buffer) -> None:
        self.status = status
        self.headers = headers
        self.verdict = verdict
        self.body = body


class Reply(Protocol):
    """Who waits for an answer: a future, or whoever has better things to do with it than to wake a task."""

    def done(self) -> bool:
        """Return whether nobody waits any more."""
        ...

    def set_result(self, answer: Answer, /) -> None:
        """The answer has come."""

    def set_exception(self, error: BaseException, /) -> None:
        """None has come."""


class StaleConnectionError(Exception):
    """A kept connection turned out to be closed before any byte of the answer came: the request may be sent again."""


class BodyCutError(StoreError):
    """The connection was closed before an answer came, while a body went up: there may have been an answer."""

    retryable = True


_IDLE: Final = 0
_HEAD: Final = 1
_FILL: Final = 2  # a body of known length, received in place
_DECODE: Final = 3  # a chunked body
_UNTIL_CLOSE: Final = 4

_NOTHING = Want()
_EMPTY = memoryview(b"")
_NONE = bytearray()  # nobody appends to it


class Connection(asyncio.BufferedProtocol):
    """The protocol behind one socket.

    Heads are received in a buffer that all connections of a pool share: the loop asks for the buffer, fills it and
    reports in one synchronous step, so nobody else can be writing there.

    Attributes:
        received: bytes of the present answer so far; the pool's sweep looks at its progress.
        mark_tick, mark_received: the sweep's tick and `received` when it last saw progress.
        patience: ticks of the sweep for which a body may go up unseen: buffers take it, and do not tell what has left.
        idle_since: the sweep's tick at which the connection became idle.
        used: True once an answer was received whole: the server may since have closed the connection.
    """

    __slots__ = (
        "_body",
        "_gathered",
        "_head",
        "_partial",
        "_pool",
        "_reply",
        "_state",
        "_transport",
        "_verdict",
        "_view",
        "_want",
        "idle_since",
        "mark_received",
        "mark_tick",
        "patience",
        "received",
        "used",
    )

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._state = _IDLE
        self._reply: Reply | None = None
        self._partial = _NONE
        self._body: Buffer = _EMPTY
        self._gathered = _NONE
        self._view = _EMPTY
        self._head: Head | None = None
        self._verdict: Verdict | None = None
        self._want = _NOTHING
        self.used = False
        self.received = 0
        self.mark_tick = 0
        self.mark_received = 0
        self.patience = 0
        self.idle_since = 0

    # --- the pool's side -----------------------------------------------------------------------------------------

    def start(self, request: bytes, want: Want, reply: Reply, body: memoryview = _EMPTY) -> None:
        """Send `request` and the bytes of `body` behind it, which stay as they are; `reply` gets the answer.

        Raises:
            StaleConnectionError, StoreError: the connection is closed already.
        """
        self.received = 0
        if self._transport is None or self._transport.is_closing():
            raise self._loss(None)
        self._reply = reply
        self._want = want
        self._state = _HEAD
        self.mark_received = 0
        self.mark_tick = self._pool.tick
        self._transport.write(request)
        if body:
            self.patience = self._pool.patience(len(body))
            self._transport.write(body)

    def carries(self, reply: Reply) -> bool:
        return self._reply is reply

    @property
    def busy(self) -> bool:
        return self._reply is not None

    def abort(self, error: BaseException | None = None) -> None:
        """Close at once; an answer still waited for fails with `error` (None: nobody waits any more)."""
        reply, self._reply = self._reply, None
        if reply is not None and error is not None and not reply.done():
            reply.set_exception(error)
        self._drop_body()
        if self._transport is not None:
            self._transport.abort()
        self._pool.discard(self)

    # --- the loop's side -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._state == _FILL:
            return self._view
        return self._pool.head_view

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        if self._state == _FILL:
            self._view = self._view[nbytes:]
            if not self._view:
                self._finish(self._body, True)
            return
        try:
            if self._state == _HEAD:
                self._feed_head(nbytes)
            else:
                self._feed_rest(nbytes)
        except StoreError as error:
            self.abort(error)
        except MemoryError as error:  # the length was announced, and allowed, and yet is too much for this machine
            self.abort(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._reply is not None:
            if self._state == _UNTIL_CLOSE and exc is None:
                self._finish_gathered(False)
                return
            self.abort(self._loss(exc))
        else:
            self._pool.discard(self)

    # --- the answer ----------------------------------------------------------------------------------------------

    def _feed_rest(self, nbytes: int) -> None:
        if self._state == _DECODE:
            self._decode(self._pool.head_view[:nbytes])
        elif self._state == _UNTIL_CLOSE:
            self._gathered += self._pool.head_view[:nbytes]
            self._check_gathered()
        else:
            self.abort()  # nobody asked: the connection is out of step

    def _feed_head(self, nbytes: int) -> None:
        buffer, view, stop = self._pool.head_buffer, self._pool.head_view, nbytes
        if self._partial:
            buffer = self._partial + view[:nbytes]
            view, stop = memoryview(buffer), len(buffer)
        start = 0
        while (end := buffer.find(b"\r\n\r\n", start, stop)) >= 0:
            head = Head(bytes(view[start : end + 4]))
            start = end + 4
            if head.status >= 200:
                self._begin(head, view[start:stop])
                return
            # An interim answer (RFC 9110, section 15.2): the real one follows.
        self._partial = bytearray(view[start:stop])
        if len(self._partial) > HEAD_LIMIT or self.received > 2 * HEAD_LIMIT:
            raise StoreError(f"the head of the answer is longer than {HEAD_LIMIT} bytes")

    def _begin(self, head: Head, rest: memoryview) -> None:
        self._head = head
        self._verdict = verdict = judge(self._want, head.status, head.headers)
        length = head.length
        if isinstance(verdict, Accept) and length is not None and len(rest) == length and not self._want.head:
            self._finish(bytes(rest), True)  # most answers are small, and come in one piece
        elif isinstance(verdict, AiozarrError):
            self.abort(verdict)
        elif self._want.head or head.status in (204, 304):
            self._finish(b"", not rest)
        elif head.chunked:
            self._state = _DECODE
            self._gathered = bytearray()
            self._decode(rest)
        elif length is None:
            self._state = _UNTIL_CLOSE
            self._gathered = bytearray(rest)
            self._check_gathered()
        elif len(rest) >= length:
            self._finish(bytes(rest[:length]), len(rest) == length)
        elif not isinstance(verdict, Accept) and length > NOTE_BYTES:
            self._finish(bytes(rest[:NOTE_BYTES]), False)
        else:
            body = self._memory(verdict, head.headers, length)
            body[: len(rest)] = rest
            self._body = body
            self._view = body[len(rest) :]
            self._state = _FILL

    def _memory(self, verdict: Verdict, headers: Headers, length: int) -> memoryview:
        """Return what the socket is to fill: whoever sent the request may have a place for the body."""
        receive = self._want.receive
        if receive is not None and isinstance(verdict, Accept):
            given = receive(verdict, headers)
            if given is not None and len(given) == length:
                return given
        return self._pool.bodies.take(length)

    def _decode(self, data: memoryview) -> None:
        assert self._head is not None
        self._head.decode(data, self._gathered)
        if self._head.ended:
            self._finish_gathered(not self._head.out_of_step)
        elif self.received > 2 * HEAD_LIMIT + 8 * len(self._gathered):
            raise StoreError("the answer's chunks and trailers are longer than what they carry")
        else:
            self._check_gathered()

    def _check_gathered(self) -> None:
        if not isinstance(self._verdict, Accept):
            if len(self._gathered) > NOTE_BYTES:
                self._finish(bytes(self._gathered[:NOTE_BYTES]), False)
        elif len(self._gathered) > self._verdict.limit:
            self.abort(over_limit(len(self._gathered), self._verdict.limit))

    def _finish_gathered(self, reusable: bool) -> None:
        verdict = self._verdict
        if isinstance(verdict, Accept):
            got = len(self._gathered)
            if got > verdict.limit:
                self.abort(over_limit(got, verdict.limit))
                return
            if verdict.exact not in (None, got):
                self.abort(ShortReadError(f"the answer has {got} bytes in place of {verdict.exact}"))
                return
        self._finish(self._gathered, reusable)

    def _finish(self, body: Buffer, reusable: bool) -> None:
        head, verdict, reply = self._head, self._verdict, self._reply
        assert head is not None
        assert verdict is not None
        self._reply = None
        self._state = _IDLE
        if self.patience and head.status >= 300:
            # Who refuses a body need not have waited for it, nor take its rest for what it is.
            reusable = False
        self._drop_body()
        if reusable and head.keeps_alive:
            self.used = True
            self._pool.release(self)
        else:
            self.abort()
        # Last of all: whoever gets it may send the next request at once, by this connection.
        if reply is not None and not reply.done():
            reply.set_result(Answer(head.status, head.headers, verdict, body))

    def _drop_body(self) -> None:
        """Forget the buffers and who gives them, so that an idle connection holds none."""
        self._want = _NOTHING
        self._head = self._verdict = None
        self._body = self._view = _EMPTY
        self.patience = 0
        self._gathered = self._partial = _NONE

    def _loss(self, error: Exception | None) -> Exception:
        if self.received == 0:
            if self.used:
                return StaleConnectionError()
            kind = BodyCutError if self.patience else StoreError
            loss = kind("the connection was closed before an answer came", retryable=True)
        elif self._state in (_HEAD, _UNTIL_CLOSE):
            loss = StoreError("the connection was closed within the answer", retryable=True)
        else:
            loss = ShortReadError("the connection was closed within the body")
        loss.__cause__ = error
        return loss
