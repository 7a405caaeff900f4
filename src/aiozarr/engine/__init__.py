"""The engine: plans reads and writes, has them scheduled, and runs codecs in worker threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.engine.engine import Engine
    from aiozarr.engine.layout import ArrayLayout
    from aiozarr.engine.plan.bounds import MergeLimitBounds
    from aiozarr.engine.plan.listed_chunks import ListedChunk, ListedChunks
    from aiozarr.engine.plan.multipart_plan import split_limit
    from aiozarr.engine.plan.plan import NO_READ, LazyRows, Plan, plan_bounds
    from aiozarr.engine.plan.projections import check_size, fits_upper_bound
    from aiozarr.engine.private_thread import Callback, current_engine, io_thread, shut_down
    from aiozarr.engine.progress import Progress
    from aiozarr.engine.read.read import Read
    from aiozarr.engine.read.stream import BlockStream
    from aiozarr.engine.runtime import bind_callback, run, run_blocking
    from aiozarr.engine.scheduled_store import ScheduledStore
    from aiozarr.engine.trio_calls import checkpoint, take_turn
    from aiozarr.engine.workers.worker_pool import InlinePool, ThreadPool, WorkerPool
    from aiozarr.engine.write.write_operation import Write
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".engine": "Engine",
            ".layout": "ArrayLayout",
            ".plan.bounds": "MergeLimitBounds",
            ".plan.listed_chunks": "ListedChunk ListedChunks",
            ".plan.multipart_plan": "split_limit",
            ".plan.plan": "NO_READ LazyRows Plan plan_bounds",
            ".plan.projections": "check_size fits_upper_bound",
            ".progress": "Progress",
            ".read.read": "Read",
            ".read.stream": "BlockStream",
            ".private_thread": "Callback current_engine io_thread shut_down",
            ".runtime": "bind_callback run run_blocking",
            ".trio_calls": "checkpoint take_turn",
            ".scheduled_store": "ScheduledStore",
            ".workers.worker_pool": "InlinePool ThreadPool WorkerPool",
            ".write.write_operation": "Write",
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
    "Progress",
    "Read",
    "ScheduledStore",
    "ThreadPool",
    "WorkerPool",
    "Write",
    "bind_callback",
    "check_size",
    "checkpoint",
    "current_engine",
    "fits_upper_bound",
    "io_thread",
    "plan_bounds",
    "run",
    "run_blocking",
    "shut_down",
    "split_limit",
    "take_turn",
]
