"""Bearer tokens of a credential object, such as those of the package azure-identity, cached while they are valid."""

from __future__ import annotations

import inspect
import time
from datetime import UTC, datetime
from typing import Any

from aiozarr.concurrency import SingleFlight
from aiozarr.errors import AiozarrError, UnauthenticatedError
from aiozarr.stores.blocking import in_thread

SCOPE = "https://storage.azure.com/.default"

RENEW_BEFORE_SECONDS = 300
"""A token is renewed so long before it expires."""


class AzureTokenSource:
    """The tokens of one credential; concurrent callers share one request for a token."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential
        self._token = ""
        self._expires = 0.0
        self._requests: SingleFlight[None] = SingleFlight()

    def cached(self) -> str | None:
        """Return a valid token, or None if one has to be requested."""
        return self._token if time.time() < self._expires - RENEW_BEFORE_SECONDS else None

    async def token(self) -> str:
        """Return a valid token.

        Raises:
            UnauthenticatedError: the credential gave none.
        """
        if self.cached() is None:
            await self._requests.run(None, self._request)
        return self._token

    async def provide(self) -> dict[str, Any]:
        """Return a valid token in obstore's form."""
        token = await self.token()
        return {"token": token, "expires_at": datetime.fromtimestamp(self._expires, UTC)}

    def record_refusal(self, token: str) -> None:
        """Request a new token next time, if the refused `token` is still the current one."""
        if token == self._token:
            self._expires = 0.0

    async def _request(self) -> None:
        get_token = self._credential.get_token
        try:
            if inspect.iscoroutinefunction(get_token):
                found = await get_token(SCOPE)
            else:
                found = await in_thread(lambda: get_token(SCOPE))
            self._token, self._expires = str(found.token), float(found.expires_on)
        except AiozarrError:
            raise
        except Exception as error:  # its package defines its own errors
            raise UnauthenticatedError("the credential gave no token") from error
