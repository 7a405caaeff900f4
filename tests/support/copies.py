"""Copies between fake stores in virtual time, and what a store holds after one."""

from __future__ import annotations

import asyncio
from typing import Any

from aiozarr.engine import Engine, InlinePool
from aiozarr.engine.copy import CopyPolicy, ObjectCopier
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import run_virtual
from aiozarr.transfer import CopyReport
from aiozarr.transfer.copy_operation import CopyOperation
from aiozarr.transfer.copy_rules import CopyRules
from aiozarr.transfer.journal import is_journal_key

TREE = {"zarr.json": b"{}", **{f"c/{n:03}": bytes([n]) * 10 for n in range(100)}}


def contents(store: FakeStore, *, journal: bool = False) -> dict[str, bytes]:
    async def collect() -> dict[str, bytes]:
        keys = [key for key in await store.memory.list() if journal or not is_journal_key(key)]
        return {key: bytes(value.data) for key in keys if (value := await store.memory.fetch(key)) is not None}

    return asyncio.run(collect())


def copy_operation(
    engine: Engine,
    source: Store,
    destination: Store,
    rules: CopyRules,
    *,
    settings: Settings,
    report: Report | None = None,
    **others: Any,
) -> CopyOperation:
    policy = CopyPolicy(rules.verify, may_be_missing=others.get("objects") is not None)
    copier = ObjectCopier(engine, source, destination, policy, settings=settings, report=report or Report())
    return CopyOperation(copier, rules, **others)


def copied(source: FakeStore, destination: FakeStore, **rules: Any) -> CopyReport:
    async def run() -> CopyReport:
        engine = Engine(asyncio.get_running_loop(), InlinePool())
        settings = Settings(max_requests=4)
        return await copy_operation(engine, source, destination, CopyRules(**rules), settings=settings).run()

    return run_virtual(run())
