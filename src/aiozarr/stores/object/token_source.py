"""Bearer tokens, which expire: cached for all loops and threads, and renewed before they do."""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from aiozarr.common.concurrency import SingleFlight
from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import StoreError
from aiozarr.stores.blocking import in_thread

RENEW_BEFORE_SECONDS = 240.0
"""A token is renewed so long before it expires; from about then on the clouds' services return a new one."""

RETRY_SECONDS = 20.0
"""A token that could not be renewed, and has not expired, is used for so long before the next attempt."""


class TokenSource(ABC):
    """The tokens of one set of credentials."""

    def __init__(self) -> None:
        self._token = ""
        self._fresh_until = 0.0  # by the monotonic clock, like `_expires`
        self._expires = 0.0
        self._failure: tuple[float, StoreError] | None = None  # of the last attempt: its time and error
        self._guard = ForkSafeLock()  # held by the thread that asks for a token
        self._requests: SingleFlight[None] = SingleFlight()

    @abstractmethod
    def _request_token(self) -> tuple[str, float]:
        """Return a new token and the time of its expiry. It blocks.

        Raises:
            StoreError: there is none.
        """

    def cached(self) -> str | None:
        """Return a valid token, or None if one has to be requested."""
        return self._token if time.monotonic() < self._fresh_until else None

    async def token(self) -> str:
        """Return a valid token.

        Raises:
            UnauthenticatedError: there are no credentials, or they are not valid.
            StoreError: the service of the tokens did not respond.
        """
        cached = self.cached()
        if cached is not None:
            return cached
        since = time.monotonic()
        return await self._requests.run(None, lambda: self._request_later(since))

    async def _request_later(self, since: float) -> str:
        return await in_thread(lambda: self._renew(since, self._request_token))

    def record_refusal(self, token: str) -> bool:
        """Record that a server refused `token`; return whether there may be another one."""
        if token == self._token:
            self._fresh_until = self._expires = 0.0
        return True

    def _renew(self, since: float, request: Callable[[], tuple[str, float]]) -> str:
        """Request a token. If the request of another loop has failed after `since`, raise its error instead."""
        with self._guard:
            cached = self.cached()
            if cached is not None:  # requested by another loop meanwhile
                return cached
            if self._failure is not None and self._failure[0] >= since:
                raise copy.copy(self._failure[1]) from self._failure[1].__cause__
            try:
                token, expires = request()
            except StoreError as error:
                now = time.monotonic()
                if not self._token or now >= self._expires - 1:
                    self._failure = (now, copy.copy(error).with_traceback(None))
                    self._failure[1].__cause__ = error.__cause__
                    raise
                self._fresh_until = min(now + RETRY_SECONDS, self._expires - 1)
                return self._token
            # A token that expires soon is used all the same, and renewed soon.
            self._token, self._expires, self._failure = token, expires, None
            self._fresh_until = max(expires - RENEW_BEFORE_SECONDS, min(expires - 1, time.monotonic() + 1))
            return token
