"""The keep-alive connections of one event loop to one origin: who gets which, and which are given up."""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from collections import deque
from dataclasses import dataclass

from aiozarr.errors import StoreError, StoreTimeoutError
from aiozarr.stores.files import open_file_limit
from aiozarr.stores.lane.addresses import Addresses
from aiozarr.stores.lane.bodies import Bodies
from aiozarr.stores.lane.connection import Answer, Connection, Reply, StaleConnectionError
from aiozarr.stores.lane.dial import connect_error, default_ssl_context, dial, lacks_files
from aiozarr.stores.lane.judge import Want

TICKS = 4
"""The sweep looks at every connection this many times within `idle_timeout`."""

PROGRESS_BYTES = 1024
"""Fewer bytes than this within `idle_timeout` are no progress: a body that drips is given up like one that stalls."""

SLOWEST_BYTES_PER_SECOND = 64 << 10
"""A write is given the time that it takes at this rate, besides twice `idle_timeout`: nobody sees its progress."""

RECEIVE_BYTES = 1 << 16

_NO_BODY = memoryview(b"")


@dataclass(frozen=True)
class Origin:
    """Whom a pool connects to, and how; equal origins share connections.

    Attributes:
        secure: True for TLS.
        host: a name or an address, without the brackets of IPv6.
        port: the TCP port.
        ssl_context: checks of the certificate; None: the system's certificates, names checked.
        max_connections: connections open at once, as far as open files allow; further requests wait, first come first
            served.
        idle_timeout: seconds without progress after which an answer is given up.
        connect_timeout: seconds for name, connection and TLS together.
    """

    secure: bool
    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    max_connections: int = 1024
    idle_timeout: float = 20.0
    connect_timeout: float = 20.0


class Pool:
    """Keep-alive connections to one origin. Everything here runs on `loop`, which is why there are no locks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, origin: Origin) -> None:
        self.loop = loop
        self.closed = False
        self.tick = 0
        self.head_buffer = bytearray(RECEIVE_BYTES)
        self.head_view = memoryview(self.head_buffer)
        self.bodies = Bodies()
        self._origin = origin
        self._addresses = Addresses(loop, origin.host, origin.port)
        self._most = self._allowed = min(origin.max_connections, open_file_limit())
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []  # the last one is the warmest
        self._connecting = 0
        self._opening: set[asyncio.Task[None]] = set()  # connections that nobody waits for yet
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """Connections that are open or being opened."""
        return len(self._open) + self._connecting

    async def send(self, request: bytes, want: Want, body: memoryview = _NO_BODY) -> Answer:
        """Send one request, with the bytes of `body` behind it, and return its answer.

        A kept connection that the server has closed meanwhile costs one silent retry on a new connection.

        Raises:
            StoreError: no connection, or none to the end of the answer; `retryable` says whether to try again.
            ChangedError, LimitError, UnsupportedOperationError: what `judge` found.
        """
        connection = self._idle.pop() if self._idle else await self._acquire()
        while True:
            future: asyncio.Future[Answer] = self.loop.create_future()
            try:
                connection.start(request, want, future, body)
                return await future
            except asyncio.CancelledError:
                if connection.carries(future):  # what is under way must not reach the next request
                    connection.abort()
                raise
            except StaleConnectionError:  # never by a new connection, so this happens once
                connection = await self._acquire(fresh=True)
            finally:
                del future  # it holds the error, whose traceback holds this frame

    def begin(self, request: bytes, want: Want, reply: Reply) -> Connection | None:
        """Send one GET or HEAD by a connection that is at hand, and return that; None: there is none, nothing was sent.

        `reply` gets the answer, or what `send` would raise; `StaleConnectionError` says that it may be sent again.
        """
        while self._idle:
            connection = self._idle.pop()
            try:
                connection.start(request, want, reply)
            except (StaleConnectionError, StoreError):  # closed, and not yet known to be
                continue
            return connection
        return None

    def prepare(self, connections: int) -> None:
        """Open connections until there are so many, as far as there may be, without waiting for them.

        What goes wrong is left to the request that needs a connection to find out.
        """
        for _ in range(min(connections, self._most) - self.connections):
            self._connecting += 1
            task = self.loop.create_task(self._open_ahead())
            self._opening.add(task)
            task.add_done_callback(self._opened_ahead)

    async def _open_ahead(self) -> None:
        with contextlib.suppress(Exception):
            self.release(await self._connect())

    def _opened_ahead(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        self._connecting -= 1
        self._pass_slot()

    # --- who gets which connection -------------------------------------------------------------------------------

    async def _acquire(self, *, fresh: bool = False) -> Connection:
        if fresh and self._idle and self.connections >= self._most:
            self._idle[0].abort()
        while True:
            if self._idle and not fresh:
                return self._idle.pop()
            if self.connections >= self._most:
                handed = await self._wait()
                if handed is not None:
                    return handed
            else:
                self._connecting += 1
            try:
                return await self._connect()
            except StoreError:
                raise
            except OSError as error:
                # With fewer connections than there might be, requests wait in line for those that there are.
                if not lacks_files(error) or self.connections == 1:
                    raise connect_error(error) from error
                self._most = self.connections - 1
            finally:
                self._connecting -= 1
                self._pass_slot()

    async def _wait(self) -> Connection | None:
        """Wait for a connection, or for a slot to open one in (None; the slot is counted as connecting already)."""
        waiter: asyncio.Future[Connection | None] = self.loop.create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._give_back(waiter.result())
            raise

    def _give_back(self, handed: Connection | None) -> None:
        if handed is not None:
            self.release(handed)
        else:
            self._connecting -= 1
            self._pass_slot()

    def _pass_slot(self) -> None:
        """Let the next in line open a connection, if there is room for one more."""
        waiter = self._next_waiter() if self._waiters and self.connections < self._most else None
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
        """Take back a connection that is ready for the next request."""
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
        """Forget a connection that is closed."""
        if connection in self._open:
            self._open.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._pass_slot()

    # --- opening -------------------------------------------------------------------------------------------------

    async def _connect(self) -> Connection:
        origin = self._origin
        limit = asyncio.timeout(origin.connect_timeout)
        try:
            async with limit:
                connection = await dial(self._addresses, self._open_to, Connection.abort)
        except TimeoutError as error:
            if not limit.expired():  # an address did not answer
                raise
            raise StoreTimeoutError(f"no connection within {origin.connect_timeout:g} s") from error.with_traceback(
                None
            )
        finally:
            del limit  # it holds the task, which may end with the error, whose traceback holds this frame
        self._open.add(connection)
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(origin.idle_timeout / TICKS, self._sweep)
        return connection

    async def _open_to(self, address: str) -> Connection:
        origin = self._origin
        context = (origin.ssl_context or default_ssl_context()) if origin.secure else None
        _, connection = await self.loop.create_connection(
            lambda: Connection(self),
            address,
            origin.port,
            ssl=context,
            server_hostname=origin.host if context is not None else None,
        )
        return connection

    # --- giving up -----------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Close what makes no progress, and what has been idle as long. One timer serves all requests."""
        self.tick += 1
        for connection in list(self._open):
            if connection.busy:
                if connection.received - connection.mark_received >= PROGRESS_BYTES:
                    connection.mark_received = connection.received
                    connection.mark_tick = self.tick
                elif self.tick - connection.mark_tick > TICKS + connection.patience:
                    seconds = self._origin.idle_timeout * (1 + connection.patience / TICKS)
                    connection.abort(StoreTimeoutError(f"no progress within {seconds:g} s"))
            elif self.tick - connection.idle_since > TICKS:
                connection.abort()
        self._regain()
        self.bodies.sweep()
        self._sweeper = None
        if not self._open:
            self.bodies.clear()  # nobody sweeps again before the next connection
        elif not self.closed:
            self._sweeper = self.loop.call_later(self._origin.idle_timeout / TICKS, self._sweep)

    def patience(self, nbytes: int) -> int:
        """Return how many ticks the sweep waits for a body to go up, besides those that it waits for the answer."""
        return TICKS + math.ceil(nbytes / SLOWEST_BYTES_PER_SECOND * TICKS / self._origin.idle_timeout)

    def _regain(self) -> None:
        """Allow more connections again, a few at a time, where files were lacking."""
        if self._most < self._allowed:
            self._most = min(self._allowed, self._most + self._most // 4 + 1)
            while self._waiters and self.connections < self._most:
                self._pass_slot()

    async def aclose(self) -> None:
        """Close all connections; requests under way fail."""
        self.closed = True
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._open):
            connection.abort(StoreError("the store was closed"))
        self.bodies.clear()
        # The loop closes the sockets in its next round.
        await asyncio.gather(asyncio.sleep(0), *opening, return_exceptions=True)
