"""Credentials that expire, such as bearer tokens: cached for all loops and threads, and renewed before they do."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from aiozarr.common.concurrency import SingleFlight
from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import StoreError
from aiozarr.stores.blocking import in_thread

T = TypeVar("T")

RENEW_BEFORE_SECONDS = 240.0
"""The time before its expiry at which a token is renewed; from about then on the clouds' services return a new one."""

RETRY_SECONDS = 20.0
"""The time for which a token that could not be renewed, and has not expired, is used before the next attempt."""


class TokenSource(Generic[T]):
    """The token that authorises the requests of a store: a string, or an access key with its secret.

    Args:
        fixed: a token that cannot be replaced; None: a subclass requests tokens.
    """

    def __init__(self, fixed: T | None = None) -> None:
        self._token = fixed
        # By the monotonic clock.
        self._fresh_until = self._expires = 0.0 if fixed is None else math.inf
        self._is_fixed = fixed is not None
        self._failure: tuple[float, StoreError] | None = None  # of the last attempt: its time and error
        self._guard = ForkSafeLock()  # held by the thread that requests a token
        self._requests: SingleFlight[None] = SingleFlight()

    def _request_token(self) -> tuple[T, float]:
        """Return a new token and the time of its expiry. It blocks.

        Raises:
            StoreError: there is none.
        """
        raise NotImplementedError  # a fixed token is never requested

    def cached(self) -> T | None:
        """Return a valid token, or None if one has to be requested."""
        return self._token if time.monotonic() < self._fresh_until else None

    async def token(self) -> T:
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

    async def _request_later(self, since: float) -> T:
        return await in_thread(lambda: self._renew(since, self._request_token))

    def record_refusal(self, token: object) -> bool:
        """Record that a server refused `token`; return whether there may be another one."""
        if token == self._token and not self._is_fixed:
            self._fresh_until = self._expires = 0.0
        return not self._is_fixed

    def _renew(self, since: float, request: Callable[[], tuple[T, float]]) -> T:
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
                if self._token is None or now >= self._expires - 1:
                    self._failure = (now, copy.copy(error).with_traceback(None))
                    self._failure[1].__cause__ = error.__cause__
                    raise
                self._fresh_until = min(now + RETRY_SECONDS, self._expires - 1)
                return self._token
            # A token that expires soon is used nevertheless, and soon renewed.
            self._token, self._expires, self._failure = token, expires, None
            self._fresh_until = max(expires - RENEW_BEFORE_SECONDS, min(expires - 1, time.monotonic() + 1))
            return token
