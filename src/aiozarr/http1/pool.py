"""The keep-alive connections of one event loop to one endpoint: assignment, limits and timeouts."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from typing import TYPE_CHECKING

from aiozarr.common.concurrency import cancel_and_wait, open_file_limit
from aiozarr.errors import StoreError, StoreTimeoutError
from aiozarr.http1.buffer_pool import BufferPool
from aiozarr.http1.connect import HostAddresses, connect, connect_error, is_out_of_files, server_name
from aiozarr.http1.connection import Connection, Response, ResponseReceiver, StaleConnectionError
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import Endpoint, default_ssl_context

if TYPE_CHECKING:
    from aiozarr.http1.request import PieceReader

TICKS = 20
"""How often the sweep checks every connection within `idle_timeout`."""

SLOW_TICKS = 5
"""Ticks after which the sweep raises the limit of connections, and frees unused memory."""

MIN_CONNECTIONS = 4
"""Connections that are opened at once to a server that does not accept more: Python's own server queues five."""

MAX_MOVES = 3
"""How often a request that the server's system does not receive is sent over another connection."""

PROGRESS_BYTES = 1024
"""Fewer bytes than this within `idle_timeout` are no progress: a body that drips is aborted like one that stalls."""

SLOWEST_BYTES_PER_SECOND = 64 << 10
"""An upload may take the time that it takes at this rate, and twice `idle_timeout`: its progress is not visible."""

RECEIVE_BYTES = 1 << 16

PIECE_BYTES = 256 << 10
"""Bytes of a body that are read, and then sent, at once: a piece is still in the processor's cache then."""

MAX_WRITE_BYTES = 1 << 20
"""TLS encrypts on the loop, and the transport may copy bytes that it cannot send: larger bodies are sent in pieces."""

_NO_BODY = memoryview(b"")


class Pool:
    """Keep-alive connections to one endpoint. All methods run on `loop`: there are no locks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint) -> None:
        self.loop = loop
        self.closed = False
        self.tick = self.answered_tick = 0
        self.head_buffer = bytearray(RECEIVE_BYTES)
        self.head_view = memoryview(self.head_buffer)
        self.buffers = BufferPool()
        self._endpoint = endpoint
        self._addresses = HostAddresses(loop, endpoint.host, endpoint.port)
        self._max_connections = self._configured_max = min(endpoint.max_connections, open_file_limit())
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []  # used last in, first out
        self._connecting = 0
        self._preconnecting: set[asyncio.Task[None]] = set()
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def addresses(self) -> list[str]:
        """The addresses of the server, as they were resolved last."""
        return self._addresses.known

    @property
    def connections(self) -> int:
        """Connections that are open or being opened."""
        return len(self._open) + self._connecting

    async def send(
        self,
        request: bytes,
        expectation: Expectation,
        body: memoryview | PieceReader = _NO_BODY,
        *,
        repeatable: bool = True,
    ) -> Response:
        """Send one request, with the bytes of `body` after its head, and return the response.

        If the server has closed a kept connection meanwhile, the request is sent once more, over a new one. A request
        that is not `repeatable` is only if nothing of it was sent. One that the server's system does not receive, while
        the server answers others, is sent over another connection.

        Raises:
            StoreError: no connection, or it was lost within the response; `retryable` says whether to try again. Or
                the body could not be read: the connection is then closed, so that the server stores nothing.
            ChangedError, LimitError, UnsupportedOperationError: the result of `check_response`.
        """
        whole = body if isinstance(body, memoryview) and body.nbytes <= MAX_WRITE_BYTES else None
        streamed_bytes = 0 if whole is not None else body.nbytes
        connection = self._idle.pop() if self._idle else await self._acquire()
        moves = 0
        while True:
            future: asyncio.Future[Response] = self.loop.create_future()
            begun = False
            try:
                is_movable = repeatable and moves < MAX_MOVES
                connection.start(request, expectation, future, whole, streamed_bytes, is_movable=is_movable)
                begun = not repeatable
                if whole is None:
                    await self._send_pieces(connection, future, body)
                return await future
            except StaleConnectionError as error:  # of new connections, only those raise it that are moved from
                if begun:
                    raise StoreError("the connection was closed before the response", retryable=True) from error
                moves += 1
                connection = await self._acquire(fresh=connection.used)
            except BaseException:
                # Cancelled, or the body could not be read. The rest must not reach the next request.
                if connection.is_serving(future):
                    connection.abort()
                raise
            finally:
                del future  # it holds the error, whose traceback holds this frame

    async def _send_pieces(
        self, connection: Connection, receiver: ResponseReceiver, body: memoryview | PieceReader
    ) -> None:
        """Send a body piece by piece, until a response has come: the server may refuse before it has all of it."""
        start = 0
        while start < body.nbytes and connection.is_serving(receiver):
            if isinstance(body, memoryview):
                piece = body[start : start + PIECE_BYTES]
            else:
                # Reused when neither this frame nor the transport refers to it.
                piece = self.buffers.take(min(PIECE_BYTES, body.nbytes - start))
                await body.read_into(start, piece)
            # Let other requests run, and receive a response that has come before the next write fails.
            await asyncio.sleep(0)
            if connection.is_serving(receiver):
                await connection.send_piece(piece)
            start += piece.nbytes

    def send_nowait(self, request: bytes, expectation: Expectation, receiver: ResponseReceiver) -> Connection | None:
        """Send one GET or HEAD over an idle connection; `receiver` gets the response, or the error that `send` raises.

        The receiver may also get `StaleConnectionError`: the request may be sent again.

        Returns:
            the connection; None if none is idle, and then nothing was sent.
        """
        while self._idle:
            connection = self._idle.pop()
            try:
                connection.start(request, expectation, receiver)
            except (StaleConnectionError, StoreError):  # closed, and not yet noticed
                continue
            return connection
        return None

    def preconnect(self, connections: int) -> None:
        """Open connections in the background until there are `count`, up to the limit.

        Errors are dropped: the request that needs a connection gets its own.
        """
        for _ in range(min(connections, self._max_connections) - self.connections):
            self._connecting += 1
            task = self.loop.create_task(self._preconnect_one())
            self._preconnecting.add(task)
            task.add_done_callback(self._preconnected)

    async def _preconnect_one(self) -> None:
        with contextlib.suppress(Exception):
            self.release(await self._connect())

    def _preconnected(self, task: asyncio.Task[None]) -> None:
        self._preconnecting.discard(task)
        self._connecting -= 1
        self._pass_slot()

    # --- assignment ----------------------------------------------------------------------------------------------

    async def _acquire(self, *, fresh: bool = False) -> Connection:
        if fresh and self._idle and self.connections >= self._max_connections:
            self._idle[0].abort()
        while True:
            if self._idle and not fresh:
                return self._idle.pop()
            if self.connections >= self._max_connections:
                granted = await self._wait()
                if granted is not None:
                    return granted
            else:
                self._connecting += 1
            try:
                return await self._connect()
            except StoreError:
                raise
            except OSError as error:
                # If no more files can be opened, requests wait for the connections that exist.
                if not is_out_of_files(error) or self.connections == 1:
                    raise connect_error(error, self._endpoint.host, self._endpoint.port) from error
                self._max_connections = self.connections - 1
            finally:
                self._connecting -= 1
                self._pass_slot()

    async def _wait(self) -> Connection | None:
        """Wait for a connection, or for a slot to open one (None; the slot is already counted as connecting)."""
        waiter: asyncio.Future[Connection | None] = self.loop.create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._return_grant(waiter.result())
            raise

    def _return_grant(self, granted: Connection | None) -> None:
        if granted is not None:
            self.release(granted)
        else:
            self._connecting -= 1
            self._pass_slot()

    def _pass_slot(self) -> None:
        """Let the next waiter open a connection, if the limit allows one more."""
        waiter = self._next_waiter() if self._waiters and self.connections < self._max_connections else None
        if waiter is not None:
            self._connecting += 1
            waiter.set_result(None)

    def _next_waiter(self) -> asyncio.Future[Connection | None] | None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def release(self, connection: Connection) -> None:
        """Give a connection that is ready for the next request to the next waiter, or keep it."""
        if self.closed:
            connection.abort()
            return
        waiter = self._next_waiter() if self._waiters else None
        if waiter is not None:
            waiter.set_result(connection)
            return
        connection.idle_since = self.tick
        self._idle.append(connection)

    def discard(self, connection: Connection) -> None:
        """Remove a closed connection."""
        if connection in self._open:
            self._open.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._pass_slot()

    # --- opening -------------------------------------------------------------------------------------------------

    async def _connect(self) -> Connection:
        endpoint = self._endpoint
        limit = asyncio.timeout(endpoint.connect_timeout)
        try:
            async with limit:
                connection = await connect(self._addresses, self._open_to, Connection.abort)
        except TimeoutError as error:
            if not limit.expired():  # the attempt on one address timed out
                raise
            server = server_name(endpoint.host, endpoint.port)
            message = f"no connection to {server} within {endpoint.connect_timeout:g} s"
            raise StoreTimeoutError(message) from error.with_traceback(None)
        finally:
            del limit  # it holds the task, which may end with the error, whose traceback holds this frame
        self._open.add(connection)
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(endpoint.idle_timeout / TICKS, self._sweep)
        return connection

    async def _open_to(self, address: str) -> Connection:
        endpoint = self._endpoint
        context = (endpoint.ssl_context or default_ssl_context()) if endpoint.secure else None
        _, connection = await self.loop.create_connection(
            lambda: Connection(self),
            address,
            endpoint.port,
            ssl=context,
            server_hostname=endpoint.host if context is not None else None,
        )
        return connection

    # --- timeouts ------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Close connections without progress and those idle for `idle_timeout`. One timer serves all requests."""
        self.tick += 1
        unreceived: list[Connection] = []
        for connection in list(self._open):
            if connection.is_busy:
                if connection.received - connection.mark_received >= PROGRESS_BYTES:
                    connection.mark_received = connection.received
                    connection.mark_tick = self.tick
                elif self.tick - connection.mark_tick > TICKS + connection.upload_ticks:
                    seconds = self._endpoint.idle_timeout * (1 + connection.upload_ticks / TICKS)
                    connection.abort(StoreTimeoutError(f"no progress within {seconds:g} s"))
                elif self.answered_tick >= connection.mark_tick and connection.is_unreceived:
                    unreceived.append(connection)
            elif self.tick - connection.idle_since > TICKS:
                connection.abort()
        if unreceived:
            self._move_from(unreceived)
        if not self.tick % SLOW_TICKS:
            self._raise_limit()
            self.buffers.sweep()
        self._sweeper = None
        if not self._open:
            self.buffers.clear()  # the next sweep comes only with the next connection
        elif not self.closed:
            self._sweeper = self.loop.call_later(self._endpoint.idle_timeout / TICKS, self._sweep)

    def _move_from(self, unreceived: list[Connection]) -> None:
        """Close connections that the server has not accepted, although it answers others, and open fewer from now on.

        Their requests wait for other connections. A server whose queue of new connections is full drops what it is
        sent. Systems send it again after ever longer pauses, until the request times out.
        """
        # Those that have not been used yet may not be accepted either.
        unreceived += [connection for connection in self._idle if not connection.used]
        accepted = self.connections - len(unreceived)
        self._max_connections = min(self._configured_max, max(MIN_CONNECTIONS, accepted))
        for connection in unreceived:
            connection.abort(StaleConnectionError())

    def upload_ticks(self, nbytes: int) -> int:
        """Return the ticks that the sweep allows for an upload, in addition to those for the response."""
        return TICKS + math.ceil(nbytes / SLOWEST_BYTES_PER_SECOND * TICKS / self._endpoint.idle_timeout)

    def _raise_limit(self) -> None:
        """Allow more connections again, a few at a time, after open files or the server had reached their limit."""
        if self._max_connections < self._configured_max:
            self._max_connections = min(self._configured_max, self._max_connections + self._max_connections // 4 + 1)
            while self._waiters and self.connections < self._max_connections:
                self._pass_slot()

    async def aclose(self) -> None:
        """Close all connections; running requests fail."""
        self.closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._open):
            connection.abort(StoreError("the store was closed"))
        self.buffers.clear()
        await cancel_and_wait(*self._preconnecting)
        # The loop closes the sockets in its next round.
        await asyncio.sleep(0)
