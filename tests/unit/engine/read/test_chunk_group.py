"""Chunks that a coroutine awaits together: the first error at once, except errors that it retries itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from aiozarr.engine.read.chunk_group import ChunkGroup
from aiozarr.errors import ChangedError, StoreError


def group(*retried: type[Exception]) -> ChunkGroup:
    operation: Any = SimpleNamespace()
    store: Any = None
    return ChunkGroup(operation, store, retried)


async def test_a_group_ends_with_its_last_chunk() -> None:
    chunks = group()
    await chunks.wait()
    chunks.expect(3)
    waiting = asyncio.ensure_future(chunks.wait())
    chunks.ended(2)
    await asyncio.sleep(0)
    assert not waiting.done()
    chunks.ended(1)
    await waiting


async def test_an_error_is_raised_before_the_other_chunks_have_ended() -> None:
    chunks = group()
    chunks.expect(3)
    chunks.ended(1, StoreError("first"))
    with pytest.raises(StoreError, match="first"):
        await chunks.wait()
    chunks.ended(1, StoreError("second"))
    chunks.ended(1)


async def test_an_error_that_the_coroutine_retries_is_raised_after_all_chunks_have_ended() -> None:
    chunks = group(ChangedError)
    chunks.expect(2)
    waiting = asyncio.ensure_future(chunks.wait())
    chunks.ended(1, ChangedError("replaced"))
    await asyncio.sleep(0)
    assert not waiting.done()
    chunks.ended(1)
    with pytest.raises(ChangedError):
        await waiting


async def test_another_error_goes_before_one_that_would_be_retried() -> None:
    chunks = group(ChangedError)
    chunks.expect(3)
    chunks.ended(1, ChangedError("replaced"))
    chunks.ended(1, StoreError("refused"))
    with pytest.raises(StoreError, match="refused"):
        await chunks.wait()
