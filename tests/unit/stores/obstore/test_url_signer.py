"""Signing of URLs: caching, batches, and cancellation."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import obstore
import pytest

from aiozarr.stores.obstore import url_signer
from aiozarr.stores.obstore.url_signer import Signer


class FakeObstore:
    """Counts calls; a signature names the call that it comes from."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.cancelled = 0
        self.error: Exception | None = None

    def sign(self, client: object, method: str, key: str, expires_in: timedelta) -> str:
        self.calls.append([key])
        return f"http://h:1/b/{key}?call={len(self.calls)}"

    async def sign_async(self, client: object, method: str, keys: Sequence[str], expires_in: timedelta) -> list[str]:
        self.calls.append(list(keys))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return [f"http://h:1/b/{key}?call={len(self.calls)}" for key in keys]


@pytest.fixture
async def fake(monkeypatch: pytest.MonkeyPatch) -> FakeObstore:
    """Put a fake in the place of the library."""
    made = FakeObstore()
    monkeypatch.setattr(obstore, "sign", made.sign)
    monkeypatch.setattr(obstore, "sign_async", made.sign_async)
    return made


def signer(*, fixed: bool) -> Signer:
    """Return a signer without a client."""
    client: Any = None
    return Signer(client, "http://h:1/b", fixed=fixed)


@pytest.mark.parametrize("fixed", [True, False])
async def test_a_url_is_signed_once_and_kept(fake: FakeObstore, fixed: bool) -> None:
    made = signer(fixed=fixed)
    for _ in range(3):
        assert await made.target("GET", "a/b") == "/b/a/b?call=1"
    assert await made.target("HEAD", "a/b") == "/b/a/b?call=2"
    made.forget()
    assert await made.target("GET", "a/b") == "/b/a/b?call=3"


async def test_keys_of_one_round_of_the_loop_are_signed_together(fake: FakeObstore) -> None:
    made = signer(fixed=False)
    targets = await asyncio.gather(*(made.target("GET", f"k{number % 50}") for number in range(100)))
    assert targets == [f"/b/k{number % 50}?call=1" for number in range(100)]
    assert fake.calls == [[f"k{number}" for number in range(50)]]


async def test_a_cached_url_is_signed_again_before_it_expires(
    fake: FakeObstore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = signer(fixed=True)
    await made.target("GET", "a")
    now = time.monotonic() + url_signer.KEEP_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert await made.target("GET", "a") == "/b/a?call=2"


async def test_kept_urls_are_bounded(fake: FakeObstore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url_signer, "KEPT_URLS", 10)
    made = signer(fixed=True)
    for number in range(100):
        await made.target("GET", f"{number}")
        assert len(made._kept) <= 10


async def test_an_error_reaches_all_waiting_callers(fake: FakeObstore) -> None:
    fake.error = RuntimeError("no credentials")
    made = signer(fixed=False)
    found = await asyncio.gather(*(made.target("GET", f"k{n}") for n in range(3)), return_exceptions=True)
    assert found == [fake.error] * 3
    fake.error = None
    assert await made.target("GET", "k0") == "/b/k0?call=2"


async def test_only_the_last_cancelled_caller_stops_the_signing(fake: FakeObstore) -> None:
    fake.gate.clear()
    made = signer(fixed=False)
    tasks = [asyncio.create_task(made.target("GET", f"k{n}")) for n in range(3)]
    while not fake.calls:
        await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    assert fake.cancelled == 0
    tasks[1].cancel()
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert fake.cancelled == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_request_cancelled_before_sending_is_not_signed(fake: FakeObstore) -> None:
    made = signer(fixed=False)
    task = asyncio.create_task(made.target("GET", "k"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fake.calls == []
