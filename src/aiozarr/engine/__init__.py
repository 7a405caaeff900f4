"""The engine: plans reads and writes, has them scheduled, and runs codecs in worker threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.engine.array_read import BlockStream
    from aiozarr.engine.call_requests import StartedListing
    from aiozarr.engine.engine import Engine
    from aiozarr.engine.layout import ArrayLayout, check_size, fits_upper_bound
    from aiozarr.engine.listed_chunks import ListedChunk, ListedChunks
    from aiozarr.engine.open_store import Target, check_schemes, close_own_store, opened_store
    from aiozarr.engine.plan import NO_READ, LazyRows, MergeLimitBounds, Plan, plan_bounds
    from aiozarr.engine.private_thread import Callback, current_engine, io_thread, shut_down
    from aiozarr.engine.read import Read
    from aiozarr.engine.runtime import bind_callback, read_directly, read_directly_blocking, run, run_blocking
    from aiozarr.engine.scheduled_store import ScheduledStore
    from aiozarr.engine.worker_pool import InlinePool, ThreadPool, WorkerPool, WorkItem
    from aiozarr.engine.write_operation import Write
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".array_read": "BlockStream",
            ".call_requests": "StartedListing",
            ".engine": "Engine",
            ".layout": "ArrayLayout check_size fits_upper_bound",
            ".listed_chunks": "ListedChunk ListedChunks",
            ".open_store": "Target check_schemes close_own_store opened_store",
            ".plan": "LazyRows MergeLimitBounds NO_READ Plan plan_bounds",
            ".private_thread": "Callback current_engine io_thread shut_down",
            ".read": "Read",
            ".runtime": "bind_callback read_directly read_directly_blocking run run_blocking",
            ".scheduled_store": "ScheduledStore",
            ".worker_pool": "InlinePool ThreadPool WorkItem WorkerPool",
            ".write_operation": "Write",
        },
    )

__all__ = [
    "NO_READ",
    "ArrayLayout",
    "BlockStream",
    "Callback",
    "Engine",
    "InlinePool",
    "LazyRows",
    "ListedChunk",
    "ListedChunks",
    "MergeLimitBounds",
    "Plan",
    "Read",
    "ScheduledStore",
    "StartedListing",
    "Target",
    "ThreadPool",
    "WorkItem",
    "WorkerPool",
    "Write",
    "bind_callback",
    "check_schemes",
    "check_size",
    "close_own_store",
    "current_engine",
    "fits_upper_bound",
    "io_thread",
    "opened_store",
    "plan_bounds",
    "read_directly",
    "read_directly_blocking",
    "run",
    "run_blocking",
    "shut_down",
]
