"""Tokens of an object that gets them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.azure.credentials import SCOPE, AzureTokenSource
from aiozarr.stores.bucket.token_source import RENEW_BEFORE_SECONDS


@dataclass
class Token:
    token: str
    expires_on: float


class Gets:
    """It gives tokens by number, each for an hour."""

    def __init__(self, seconds: float = 3600) -> None:
        self.seconds = seconds
        self.asked: list[str] = []

    def get_token(self, scope: str) -> Token:
        self.asked.append(scope)
        return Token(f"t{len(self.asked)}", time.time() + self.seconds)


class GetsLater(Gets):
    """The same as a coroutine."""

    async def get_token(self, scope: str) -> Token:  # type: ignore[override]  # as azure.identity.aio has it
        await asyncio.sleep(0)
        return super().get_token(scope)


@pytest.mark.parametrize("kind", [Gets, GetsLater])
async def test_waiters_share_one_token(kind: type[Gets]) -> None:
    gets = kind()
    tokens = AzureTokenSource(gets)
    assert await asyncio.gather(*(tokens.token() for _ in range(20))) == ["t1"] * 20
    assert gets.asked == [SCOPE]


async def test_waiters_for_a_refused_token_fail_after_one_attempt() -> None:
    class Fails(Gets):
        async def get_token(self, scope: str) -> Token:  # type: ignore[override]
            self.asked.append(scope)
            await asyncio.sleep(0)
            raise OSError("down")

    gets = Fails()
    tokens = AzureTokenSource(gets)
    found = await asyncio.gather(*(tokens.token() for _ in range(50)), return_exceptions=True)
    assert all(isinstance(error, UnauthenticatedError) and error.__cause__ for error in found)
    assert len(gets.asked) == 1
    with pytest.raises(UnauthenticatedError):
        await tokens.token()
    assert len(gets.asked) == 2


@pytest.mark.parametrize("kind", [Gets, GetsLater])
async def test_a_token_is_asked_for_anew_before_it_ends_and_where_it_was_refused(
    kind: type[Gets], monkeypatch: pytest.MonkeyPatch
) -> None:
    gets = kind(RENEW_BEFORE_SECONDS - 1)
    tokens = AzureTokenSource(gets)
    assert await tokens.token() == "t1"
    monkeypatch.setattr(tokens, "_fresh_until", 0.0)
    assert await tokens.token() == "t2"
    tokens.record_refusal("t2")
    assert await tokens.token() == "t3"
    tokens.record_refusal("t2")  # by one who was refused before
    assert await tokens.token() == "t3"
    # One that cannot be renewed is used while it lasts.
    monkeypatch.setattr(tokens, "_fresh_until", 0.0)
    gets.seconds = "none"  # type: ignore[assignment]  # which fails
    assert (await tokens.token(), len(gets.asked)) == ("t3", 4)
    tokens.record_refusal("t3")
    with pytest.raises(UnauthenticatedError):
        await tokens.token()


async def test_a_credential_without_a_token_is_unauthenticated_whatever_it_raises() -> None:
    class Refuses:
        def get_token(self, *scopes: str) -> Any:
            raise RuntimeError("hidden")

    with pytest.raises(UnauthenticatedError) as raised:
        await AzureTokenSource(Refuses()).token()
    assert "hidden" not in str(raised.value)
