"""One read over HTTP that runs without a task.

A task costs as much as the rest of a small read: 20 to 25 µs (docs/design/004). Only a response that takes further
requests gets one.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiozarr.errors import AiozarrError, StoreError, fill_location
from aiozarr.http1 import Connection, Expectation, Request, Response, StaleConnectionError
from aiozarr.model import ByteRange, Value, Version
from aiozarr.stores.http.object_client import ObjectClient
from aiozarr.stores.nowait import FetchCallback


class NowaitReader(Protocol):
    """The store of a read without a task: it makes values of responses."""

    @property
    def url(self) -> str:
        """The URL of the store, for errors."""
        ...

    def _value(self, expectation: Expectation, response: Response, range: ByteRange | None) -> Value:
        """Return the value of a response that has one."""
        ...

    async def _finish_read(
        self,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        request: Request,
        outcome: Response | StoreError | None,
    ) -> Value | None:
        """Do the remaining steps of the read, given the first outcome of `request`; None: send it again."""
        ...


class NowaitRead:
    """A GET whose response goes to `callback` when it comes.

    Attributes:
        connection: the connection over which it was sent.
    """

    __slots__ = ("_callback", "_client", "_if_match", "_key", "_range", "_request", "_store", "_task", "connection")

    def __init__(
        self,
        store: NowaitReader,
        client: ObjectClient,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        request: Request,
        callback: FetchCallback,
    ) -> None:
        self._store = store
        self._client = client
        self._key = key
        self._range = range
        self._if_match = if_match
        self._request = request
        self._callback: FetchCallback | None = callback
        self._task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None

    def give_up(self) -> None:
        self._callback = None
        if self._task is not None:
            self._task.cancel()
        elif self.connection is not None and self.connection.is_serving(self):
            self.connection.abort()  # the rest of this response must not reach the next request

    # --- as a ResponseReceiver -----------------------------------------------------------------------------------

    def done(self) -> bool:
        return self._callback is None

    def set_result(self, response: Response) -> None:
        callback = self._callback
        assert callback is not None  # the connection asks `done` first
        if not self._client.is_value(self._request, response):
            self._continue(response)
            return
        try:
            value = self._store._value(self._request.expectation, response, self._range)
        except AiozarrError as error:
            self._fail(error)
            return
        self._callback = None
        callback.fetched(value)

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, StaleConnectionError):  # the request may be sent again
            self._continue(None)
        elif isinstance(error, StoreError) and self._client.can_recover(self._request, error):
            self._continue(error)
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            if isinstance(error, AiozarrError):
                fill_location(error, store=self._store.url, key=self._key, range=self._range)
            callback.failed(error)

    def _continue(self, outcome: Response | StoreError | None) -> None:
        self._task = asyncio.get_running_loop().create_task(self._finish(outcome))

    async def _finish(self, outcome: Response | StoreError | None) -> None:
        """Do the remaining steps, given a response or an error that does not end the read; None: send it again."""
        store, request = self._store, self._request
        try:
            value = await store._finish_read(self._key, self._range, self._if_match, request, outcome)
        except Exception as error:
            self._fail(error)
            return
        finally:
            del outcome  # the traceback of an error holds this frame
        callback, self._callback = self._callback, None
        if callback is not None:
            callback.fetched(value)
