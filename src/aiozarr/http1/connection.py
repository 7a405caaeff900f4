"""One keep-alive connection, which serves one request at a time and receives bodies in place."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from aiozarr.errors import AiozarrError, ShortReadError, StoreError
from aiozarr.http1.response_check import (
    MAX_ERROR_BODY_BYTES,
    MAX_HEAD_BYTES,
    Accept,
    Expectation,
    ParsedHead,
    ResponseAction,
    check_response,
    over_limit,
    parse_leniently,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.http1.buffer_pool import BufferPool
    from aiozarr.http1.response_check import BodyPieces, Headers


@dataclass(slots=True, eq=False)
class Response:
    """A response: status, headers, the action that the check chose for it, and the body that this action received.

    After redirects to other servers, `responder` is the origin of the one that sent it.
    """

    status: int
    headers: Headers
    action: ResponseAction
    body: Buffer
    responder: str | None = None


class ResponseReceiver(Protocol):
    """Receives the response to one request: a future, or an object that needs no task to be woken."""

    def done(self) -> bool:
        """Return whether the response is not needed any more."""
        ...

    def set_result(self, response: Response, /) -> None:
        """Accept the response."""

    def set_exception(self, error: Exception, /) -> None:
        """Accept the error that came instead of a response."""


class StaleConnectionError(Exception):
    """A kept connection was closed before the first byte of the response: the request may be sent again."""


class BodyCutError(StoreError):
    """The connection was closed while a body was uploaded, before a response came; a response may have been lost."""

    retryable = True


class ConnectionOwner(Protocol):
    """The pool that a connection belongs to.

    Attributes:
        tick: ticks of the sweep so far.
        answered_tick: the tick in which the latest response was complete.
        head_buffer, head_view: the memory in which all connections receive heads, and a view of it.
        buffers: memory for bodies.
    """

    tick: int
    answered_tick: int
    head_buffer: bytearray
    head_view: memoryview
    buffers: BufferPool

    def upload_ticks(self, nbytes: int) -> int:
        """Return the ticks of the sweep that the upload of this many bytes may take."""
        ...

    def release(self, connection: Connection) -> None:
        """Take back a connection that is ready for the next request."""

    def discard(self, connection: Connection) -> None:
        """Remove a closed connection."""


_IDLE: Final = 0
_HEAD: Final = 1
_IN_PLACE: Final = 2  # a body of known length, received in place
_CHUNKED: Final = 3  # a chunked body
_UNTIL_CLOSE: Final = 4

MAX_UNSENT_BYTES = 4 << 20
"""Bytes that the system may hold after it has taken all of a body: the largest send buffer of Linux by default."""

RESUME_INCOMPLETE: Final = 308
"""The status by which Google confirms a part of an upload, which it has read."""

# Of Linux's `tcp_info`: retransmissions of the latest packet, packets that are not acknowledged, and milliseconds since
# one was sent.
_TCP_INFO: Final = struct.Struct("=2xB21xI16xI")
MIN_RETRANSMITS = 2
"""Retransmissions after which a request that is not acknowledged was not received: they take at least 0.6 s."""
MAX_ACKNOWLEDGE_MS = 2000
"""Milliseconds after which it was not received, either. After a slow connection the first retransmission is later."""

_NO_EXPECTATION = Expectation()
_EMPTY = memoryview(b"")
_NO_BYTES = bytearray()  # never appended to


class Connection(asyncio.BufferedProtocol):
    """The protocol of one socket.

    Heads are received in a buffer that all connections of a pool share: the loop asks for the buffer, fills it and
    reports in one synchronous step, so that no other connection can be writing there.

    Attributes:
        received: bytes of the current response so far; the pool's sweep checks its progress.
        mark_tick, mark_received: the sweep's tick and `received` at the last progress.
        upload_ticks: ticks of the sweep that an upload may take: the socket does not report its progress.
        unwritten: bytes of a streamed body that `send_piece` has not written yet.
        idle_since: the sweep's tick at which the connection became idle.
        used: True after a response was received completely: the server may have closed the connection since.
    """

    def __init__(self, pool: ConnectionOwner) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._state = _IDLE
        self._receiver: ResponseReceiver | None = None
        self._partial = _NO_BYTES
        self._body: Buffer = _EMPTY
        self._collected = _NO_BYTES
        self._view = _EMPTY
        self._pieces: BodyPieces | None = None
        self._left = 0  # bytes of the body for which `_pieces` has not given memory yet
        self._head: ParsedHead | None = None
        self._action: ResponseAction | None = None
        self._expectation = _NO_EXPECTATION
        self.used = self._is_movable = False
        self.received = 0
        self.mark_tick = 0
        self.mark_received = 0
        self.upload_ticks = 0
        self.unwritten = 0
        self._is_paused = False
        self._writable: asyncio.Future[None] | None = None
        self.idle_since = 0

    # --- called by the pool --------------------------------------------------------------------------------------

    def start(
        self,
        request: bytes,
        expectation: Expectation,
        receiver: ResponseReceiver,
        body: memoryview | None = None,
        streamed_bytes: int = 0,
        *,
        is_movable: bool = True,
    ) -> None:
        """Send `request` and then `body`, whose bytes must not change; `receiver` gets the response.

        A body of `streamed_bytes` follows in pieces, each of which the caller sends by `send_piece`. The receiver of a
        request that `is_movable`, and has no such body, may get `StaleConnectionError`.

        Raises:
            StaleConnectionError, StoreError: the connection is closed already.
        """
        self.received = 0
        if self._transport is None or self._transport.is_closing():
            raise self._loss(None)
        self._receiver = receiver
        self._expectation = expectation
        self._state = _HEAD
        self.mark_received = 0
        self.mark_tick = self._pool.tick
        self._is_movable = is_movable and not body and not streamed_bytes
        self._transport.write(request)
        if streamed_bytes:
            self.unwritten = streamed_bytes
            # Each piece waits until the system has accepted the previous one. TLS would pause forever at a limit of 0.
            self._transport.set_write_buffer_limits(high=1, low=0)
        elif body:
            self.upload_ticks = self._pool.upload_ticks(len(body))
            self._transport.write(body)

    async def send_piece(self, piece: memoryview) -> None:
        """Send the next piece of the body, and return when the system has taken it, or the exchange has ended.

        The transport may hold `piece` for longer.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.unwritten -= piece.nbytes
        last = not self.unwritten
        self.upload_ticks = self._pool.upload_ticks(MAX_UNSENT_BYTES if last else piece.nbytes)
        self.mark_tick = self._pool.tick
        transport.write(piece)
        if self._is_paused and not last:
            self._writable = asyncio.get_running_loop().create_future()
            await self._writable

    def is_serving(self, receiver: ResponseReceiver) -> bool:
        return self._receiver is receiver

    @property
    def is_busy(self) -> bool:
        return self._receiver is not None

    @property
    def is_unreceived(self) -> bool:
        """True if the server's system has not received the request, which may be sent over another connection."""
        if self.received or not self._is_movable or self._transport is None or sys.platform != "linux":
            return False
        tcp_socket = self._transport.get_extra_info("socket")
        info = tcp_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        retransmits, unacknowledged, milliseconds = _TCP_INFO.unpack(info)
        return bool(unacknowledged and (retransmits >= MIN_RETRANSMITS or milliseconds >= MAX_ACKNOWLEDGE_MS))

    def abort(self, error: Exception | None = None) -> None:
        """Close at once; a receiver that still waits gets `error` (None: the response is not needed any more)."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None and error is not None and not receiver.done():
            receiver.set_exception(error)
        self._release_body()
        if self._transport is not None:
            self._transport.abort()
        self._pool.discard(self)

    # --- called by the loop --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._state == _IN_PLACE:
            return self._view
        return self._pool.head_view

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        if self._state == _IN_PLACE:
            self._advance(nbytes)
            return
        try:
            if self._state == _HEAD:
                self._feed_head(nbytes)
            else:
                self._feed_body(nbytes)
        except (StoreError, MemoryError) as error:  # an announced length may be allowed, and too much for this machine
            self.abort(error)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._wake_writer()

    def _wake_writer(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._receiver is not None:
            if self._state == _UNTIL_CLOSE and exc is None:
                self._finish_collected(False)
                return
            self.abort(self._loss(exc))
        else:
            self._pool.discard(self)

    # --- the response --------------------------------------------------------------------------------------------

    def _feed_body(self, nbytes: int) -> None:
        if self._state == _CHUNKED:
            self._decode(self._pool.head_view[:nbytes])
        elif self._state == _UNTIL_CLOSE:
            self._collected += self._pool.head_view[:nbytes]
            self._check_length()
        else:
            self.abort()  # bytes without a request: the connection is out of step

    def _feed_head(self, nbytes: int) -> None:
        buffer, view, stop = self._pool.head_buffer, self._pool.head_view, nbytes
        if self._partial:
            buffer = self._partial + view[:nbytes]
            view, stop = memoryview(buffer), len(buffer)
        start = 0
        while True:
            end = buffer.find(b"\r\n\r\n", start, stop) + 4
            try:
                head = ParsedHead(bytes(view[start:end])) if end > 3 else None
            except StoreError:
                head = None
            if head is None:
                head, end = parse_leniently(buffer, start, stop)
                if head is None:
                    break
            start = end
            if head.status >= 200:
                self._begin_body(head, view[start:stop])
                return
            # An interim response (RFC 9110, section 15.2): the final one follows.
        self._partial = bytearray(view[start:stop])
        if len(self._partial) > MAX_HEAD_BYTES or self.received > 2 * MAX_HEAD_BYTES:
            raise StoreError(f"the head of the response is longer than {MAX_HEAD_BYTES} bytes")

    def _begin_body(self, head: ParsedHead, rest: memoryview) -> None:
        self._head = head
        self._action = action = check_response(self._expectation, head.status, head.headers)
        length = head.length
        if isinstance(action, Accept) and length is not None and len(rest) == length and not self._expectation.head:
            self._finish(bytes(rest), True)  # most responses are small, and come in one piece
        elif isinstance(action, AiozarrError):
            self.abort(action)
        elif self._expectation.head or head.status in (204, 304):
            self._finish(b"", not rest)
        elif head.chunked:
            self._state = _CHUNKED
            self._collected = bytearray()
            self._decode(rest)
        elif length is None:
            self._state = _UNTIL_CLOSE
            self._collected = bytearray(rest)
            self._check_length()
        elif len(rest) >= length:
            self._finish(bytes(rest[:length]), len(rest) == length)
        elif not isinstance(action, Accept) and length > MAX_ERROR_BODY_BYTES:
            self._finish(bytes(rest[:MAX_ERROR_BODY_BYTES]), False)
        else:
            self._allocate(action, head.headers, length)
            self._state = _IN_PLACE
            while rest:
                count = min(len(rest), len(self._view))
                self._view[:count] = rest[:count]
                rest = rest[count:]
                self._advance(count)

    def _allocate(self, action: ResponseAction, headers: Headers, length: int) -> None:
        """Set the memory that the socket is to fill: the expectation's own, or some of the pool."""
        allocate = self._expectation.allocate
        if allocate is not None and isinstance(action, Accept):
            given = allocate(action, headers)
            if isinstance(given, memoryview):
                if len(given) == length:
                    self._body = self._view = given
                    return
            elif given is not None:
                self._pieces, self._left = given, length
                self._take_piece(given)
                return
        self._body = self._view = self._pool.buffers.take(length)

    def _advance(self, nbytes: int) -> None:
        """Count the next `nbytes` of the memory, which the socket has filled."""
        self._view = self._view[nbytes:]
        if self._view:
            return
        if self._pieces is not None:
            self._take_piece(self._pieces)
            if self._view:
                return
        self._finish(self._body, True)

    def _take_piece(self, pieces: BodyPieces) -> None:
        self._view = pieces.next_buffer(self._left)
        self._left -= len(self._view)

    def _decode(self, data: memoryview) -> None:
        assert self._head is not None
        self._head.decode(data, self._collected)
        if self._head.ended:
            self._finish_collected(not self._head.has_trailing_data)
        elif self.received > 2 * MAX_HEAD_BYTES + 8 * len(self._collected):
            raise StoreError("the response's chunk headers and trailers are longer than its body")
        else:
            self._check_length()

    def _check_length(self) -> None:
        if not isinstance(self._action, Accept):
            if len(self._collected) > MAX_ERROR_BODY_BYTES:
                self._finish(bytes(self._collected[:MAX_ERROR_BODY_BYTES]), False)
        elif len(self._collected) > self._action.limit:
            self.abort(over_limit(len(self._collected), self._action.limit))

    def _finish_collected(self, reusable: bool) -> None:
        action = self._action
        if isinstance(action, Accept):
            got = len(self._collected)
            if got > action.limit:
                self.abort(over_limit(got, action.limit))
                return
            if action.exact not in (None, got):
                self.abort(ShortReadError(f"the response has {got} bytes in place of {action.exact}"))
                return
        self._finish(self._collected, reusable)

    def _finish(self, body: Buffer, reusable: bool) -> None:
        head, action, receiver = self._head, self._action, self._receiver
        assert head is not None
        assert action is not None
        if self.unwritten and head.status < 300:
            self.abort(StoreError("the server confirmed an upload before it had all of it", retryable=True))
            return
        self._receiver = None
        self._state = _IDLE
        self._pool.answered_tick = self._pool.tick
        if self.unwritten or (self.upload_ticks and head.status >= 300 and head.status != RESUME_INCOMPLETE):
            # A server that refuses an upload may not have read all of it, and may parse the rest as a request.
            reusable = False
        self._release_body()
        if reusable and head.keeps_alive:
            self.used = True
            self._pool.release(self)
        else:
            self.abort()
        # Last: the receiver may send the next request at once, over this connection.
        if receiver is not None and not receiver.done():
            receiver.set_result(Response(head.status, head.headers, action, body))

    def _release_body(self) -> None:
        """Release the buffers and the expectation that allocates them, so that an idle connection holds none."""
        self._expectation = _NO_EXPECTATION
        self._head = self._action = None
        self._body = self._view = _EMPTY
        self._pieces = None
        self.upload_ticks = self.unwritten = 0
        self._wake_writer()
        self._collected = self._partial = _NO_BYTES

    def _loss(self, error: Exception | None) -> Exception:
        if self.received == 0:
            if self.used:
                return StaleConnectionError()
            kind = BodyCutError if self.upload_ticks or self.unwritten else StoreError
            loss = kind("the connection was closed before the response", retryable=True)
        elif self._state in (_HEAD, _UNTIL_CLOSE):
            loss = StoreError("the connection was closed within the response", retryable=True)
        else:
            loss = ShortReadError("the connection was closed within the body")
        loss.__cause__ = error
        return loss
