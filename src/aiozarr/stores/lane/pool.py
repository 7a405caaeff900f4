"""The keep-alive connections of one event loop to one origin: who gets which, and which are given up."""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import socket
import ssl
from collections import deque
from dataclasses import dataclass

from aiozarr.errors import StoreError, StoreTimeoutError, ThrottledError
from aiozarr.stores.lane.connection import Answer, Connection, StaleConnectionError
from aiozarr.stores.lane.judge import Want

TICKS = 4
"""The sweep looks at every connection this many times within `idle_timeout`."""

PROGRESS_BYTES = 1024
"""Fewer bytes than this within `idle_timeout` are no progress: a body that drips is given up like one that stalls."""

RECEIVE_BYTES = 1 << 16


@dataclass(frozen=True)
class Origin:
    """Whom a pool connects to, and how; equal origins share connections.

    Attributes:
        secure: True for TLS.
        host: a name or an address, without the brackets of IPv6.
        port: the TCP port.
        ssl_context: checks of the certificate; None: the system's certificates, names checked.
        max_connections: connections open at once; further requests wait, first come first served.
        idle_timeout: seconds without progress after which an answer is given up.
        connect_timeout: seconds for name, connection and TLS together.
    """

    secure: bool
    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    max_connections: int = 512
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
        self._origin = origin
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []  # the last one is the warmest
        self._connecting = 0
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """Connections that are open or being opened."""
        return len(self._open) + self._connecting

    async def send(self, request: bytes, want: Want) -> Answer:
        """Send one GET or HEAD and return its answer.

        A kept connection that the server has closed meanwhile costs one silent retry on a new connection.

        Raises:
            StoreError: no connection, or none to the end of the answer; `retryable` says whether to try again.
            ChangedError, LimitError, UnsupportedOperationError: what `judge` found.
        """
        connection = self._idle.pop() if self._idle else await self._acquire()
        future: asyncio.Future[Answer] | None = None
        while True:
            try:
                future = connection.start(request, want)
                return await future
            except asyncio.CancelledError:
                if future is not None and connection.carries(
                    future
                ):  # what is under way must not reach the next request
                    connection.abort()
                raise
            except StaleConnectionError:  # never by a new connection, so this happens once
                connection = await self._acquire(fresh=True)

    # --- who gets which connection -------------------------------------------------------------------------------

    async def _acquire(self, *, fresh: bool = False) -> Connection:
        while not fresh and self._idle:
            return self._idle.pop()
        if fresh and self._idle and self.connections >= self._origin.max_connections:
            self._idle[0].abort()
        if self.connections >= self._origin.max_connections:
            handed = await self._wait()
            if handed is not None:
                return handed
        else:
            self._connecting += 1
        try:
            return await self._connect()
        finally:
            self._connecting -= 1
            if self.connections < self._origin.max_connections:
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
        waiter = self._next_waiter()
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
        try:
            async with asyncio.timeout(origin.connect_timeout):
                connection = await self._connect_to_any(await self._addresses())
        except TimeoutError as error:
            raise StoreTimeoutError(f"no connection within {origin.connect_timeout:g} s") from error
        except OSError as error:
            raise connect_error(error) from error
        self._open.add(connection)
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(origin.idle_timeout / TICKS, self._sweep)
        return connection

    async def _addresses(self) -> list[str]:
        """Return what to connect to: the addresses of the host's name, or the address that the host is given by."""
        host = self._origin.host
        try:
            ipaddress.ip_address(host)
        except ValueError:
            # Not left to `create_connection`: uvloop's, when it is cancelled, leaves the resolution behind, and nobody
            # takes its error.
            found = await self.loop.getaddrinfo(host, self._origin.port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(info[4][0]) for info in found))
        return [host]

    async def _connect_to_any(self, addresses: list[str]) -> Connection:
        origin = self._origin
        context = (origin.ssl_context or default_ssl_context()) if origin.secure else None
        failed: OSError | None = None
        for address in addresses:
            try:
                _, connection = await self.loop.create_connection(
                    lambda: Connection(self),
                    address,
                    origin.port,
                    ssl=context,
                    server_hostname=origin.host if context is not None else None,
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failed = failed or error
            else:
                return connection
        assert failed is not None
        raise failed

    # --- giving up -----------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Close what makes no progress, and what has been idle as long. One timer serves all requests."""
        self.tick += 1
        for connection in list(self._open):
            if connection.busy:
                if connection.received - connection.mark_received >= PROGRESS_BYTES:
                    connection.mark_received = connection.received
                    connection.mark_tick = self.tick
                elif self.tick - connection.mark_tick > TICKS:
                    seconds = self._origin.idle_timeout
                    connection.abort(StoreTimeoutError(f"no progress within {seconds:g} s"))
            elif self.tick - connection.idle_since > TICKS:
                connection.abort()
        self._sweeper = None
        if self._open and not self.closed:
            self._sweeper = self.loop.call_later(self._origin.idle_timeout / TICKS, self._sweep)

    async def aclose(self) -> None:
        """Close all connections; requests under way fail."""
        self.closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._open):
            connection.abort(StoreError("the store was closed"))
        # The loop closes the sockets in its next round.
        await asyncio.sleep(0)


def connect_error(error: OSError) -> StoreError:
    """Translate what went wrong while a connection was opened."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreError(f"the server's certificate is not valid: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return StoreError(f"no TLS connection: {error.reason}")
    if isinstance(error, socket.gaierror):
        return StoreError(f"the server's name does not resolve: {error.strerror}")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ThrottledError("no connection: too many open files")
    return StoreError(f"no connection: {error.strerror or error}", retryable=True)


@functools.cache
def default_ssl_context() -> ssl.SSLContext:
    """Return the process's own context: loading the system's certificates takes tens of milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
