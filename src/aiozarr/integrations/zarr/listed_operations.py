"""Reads and writes of listed chunks, as operations for observers. Imported by the first of them."""

from __future__ import annotations

from aiozarr.engine import Read, Write, run
from aiozarr.schedule.events import current_recorder, observed
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store


@observed("read", lambda _, store, *rest: store.url)
async def run_read(store: Store, read: Read, settings: Settings) -> None:
    """Read the chunks of `read`, which are in `store`.

    Raises:
        StoreError, CodecError, LimitError: as `View.read`.
    """
    report = current_recorder()
    await run(lambda engine: engine.read([read], settings=settings, report=report), timeout=settings.timeout)


@observed("write", lambda _, store, *rest: store.url)
async def run_write(store: Store, write: Write, settings: Settings) -> None:
    """Write the chunks of `write`, which are in `store`.

    Raises:
        StoreError, CodecError, LimitError: as `View.write`.
    """
    report = current_recorder()
    await run(lambda engine: engine.write(write, settings=settings, report=report), timeout=settings.timeout)
