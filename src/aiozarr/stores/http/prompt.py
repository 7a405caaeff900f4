"""One read over HTTP that is under way without a task: most answers need none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiozarr.errors import StoreError
from aiozarr.model import ByteRange, Version
from aiozarr.stores.lane import Accept, Answer, Connection, StaleConnectionError, Want
from aiozarr.stores.prompt import Taker

if TYPE_CHECKING:
    from aiozarr.stores.http.read import WebStore


class PromptRead:
    """A GET whose answer goes to `taker` as it comes. What has to be asked for besides gets a task after all.

    Attributes:
        connection: by which it was sent.
        note: what the store has to remember of the sending.
    """

    __slots__ = ("_if_match", "_key", "_range", "_store", "_taker", "_task", "_want", "connection", "note")

    def __init__(
        self,
        store: WebStore,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        want: Want,
        taker: Taker,
    ) -> None:
        self._store = store
        self._key = key
        self._range = range
        self._if_match = if_match
        self._want = want
        self._taker: Taker | None = taker
        self._task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None
        self.note: Any = None

    def give_up(self) -> None:
        self._taker = None
        if self._task is not None:
            self._task.cancel()
        elif self.connection is not None and self.connection.carries(self):
            self.connection.abort()  # what is under way must not reach the next request

    # --- as a reply ------------------------------------------------------------------------------------------------

    def done(self) -> bool:
        return self._taker is None

    def set_result(self, answer: Answer) -> None:
        verdict, taker = answer.verdict, self._taker
        assert taker is not None
        if type(verdict) is not Accept or verdict.cut:
            self._go_on(answer)
            return
        try:
            value = self._store._value(answer, verdict, self._range)
        except StoreError as error:
            self._fail(self._store._located(error, self._key, self._range))
            return
        self._taker = None
        taker.fetched(value)

    def set_exception(self, error: BaseException) -> None:
        if isinstance(error, StaleConnectionError):  # it was closed meanwhile: the request may be sent again
            self._go_on(None)
        elif isinstance(error, StoreError):
            self._fail(self._store._located(error, self._key, self._range))
        else:
            assert isinstance(error, Exception)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.failed(error)

    def _go_on(self, answer: Answer | None) -> None:
        self._task = asyncio.get_running_loop().create_task(self._finish(answer))

    async def _finish(self, answer: Answer | None) -> None:
        """Do what is left, given an answer that is no value as it stands; None: begin anew."""
        store = self._store
        try:
            if answer is None:
                value = await store.fetch(self._key, self._range, if_match=self._if_match)
            else:
                value = await store._take(self._key, self._range, self._if_match, self._want, answer, self)
        except Exception as error:
            self._fail(error)
            return
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.fetched(value)
