"""Bearer tokens of an object that gets them, as those of the package azure-identity do: each kept while it is valid."""

from __future__ import annotations

import asyncio
import inspect
import time
import weakref
from datetime import UTC, datetime
from typing import Any

from aiozarr.errors import AiozarrError, UnauthenticatedError
from aiozarr.stores.blocking import in_thread

SCOPE = "https://storage.azure.com/.default"

EARLY_SECONDS = 300
"""A token is asked for anew so long before it ends."""

NONE_GIVEN = "the credential gave no token"


class Tokens:
    """The tokens of one credential; many may wait for one, and it is asked for once."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential
        self._token = ""
        self._ends = 0.0
        self._failure: tuple[float, Exception] | None = None  # when the last try failed, and why
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()

    async def token(self) -> str:
        """Return a token that is valid for a while.

        Raises:
            UnauthenticatedError: the credential gave none.
        """
        since = time.monotonic()
        if time.time() >= self._ends - EARLY_SECONDS:
            async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if self._failure is not None and self._failure[0] >= since:
                    raise UnauthenticatedError(NONE_GIVEN) from self._failure[1]
                if time.time() >= self._ends - EARLY_SECONDS:
                    await self._get()
        return self._token

    async def provide(self) -> dict[str, Any]:
        """Return a token as obstore takes it."""
        token = await self.token()
        return {"token": token, "expires_at": datetime.fromtimestamp(self._ends, UTC)}

    def forget(self, token: str) -> None:
        """Ask anew next time, if `token`, which was refused, is still the one that is kept."""
        if token == self._token:
            self._ends = 0.0

    async def _get(self) -> None:
        get = self._credential.get_token
        try:
            if inspect.iscoroutinefunction(get):
                found = await get(SCOPE)
            else:
                found = await in_thread(lambda: get(SCOPE))
            self._token, self._ends = str(found.token), float(found.expires_on)
            self._failure = None
        except AiozarrError:
            raise
        except Exception as error:  # whatever the credential raises: its package is not ours to know
            self._failure = (time.monotonic(), error)  # for all who wait; nobody asks again in their place
            raise UnauthenticatedError(NONE_GIVEN) from error
