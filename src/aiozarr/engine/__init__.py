"""The engine: plans reads and writes, has them scheduled, and runs codecs in worker threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.engine.engine import Engine
    from aiozarr.engine.layout import ArrayLayout
    from aiozarr.engine.listing import StartedListing
    from aiozarr.engine.open_store import Target, check_schemes, close_own_store, opened_store
    from aiozarr.engine.plan.bounds import MergeLimitBounds
    from aiozarr.engine.plan.listed_chunks import ListedChunk, ListedChunks
    from aiozarr.engine.plan.multipart_plan import split_limit, split_range
    from aiozarr.engine.plan.plan import NO_READ, LazyRows, Plan, plan_bounds
    from aiozarr.engine.plan.projections import check_size, fits_upper_bound
    from aiozarr.engine.private_thread import Callback, current_engine, io_thread, shut_down
    from aiozarr.engine.progress import Progress, ProgressLike, shown_progress
    from aiozarr.engine.read.read import Read
    from aiozarr.engine.read.stream import BlockStream
    from aiozarr.engine.runtime import bind_callback, read_small, read_small_blocking, run, run_blocking
    from aiozarr.engine.scheduled_store import ScheduledStore
    from aiozarr.engine.workers.worker_pool import InlinePool, ThreadPool, WorkerPool, WorkItem
    from aiozarr.engine.write.write_operation import Write
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".engine": "Engine",
            ".layout": "ArrayLayout",
            ".listing": "StartedListing",
            ".open_store": "Target check_schemes close_own_store opened_store",
            ".plan.bounds": "MergeLimitBounds",
            ".plan.listed_chunks": "ListedChunk ListedChunks",
            ".plan.multipart_plan": "split_limit split_range",
            ".plan.plan": "NO_READ LazyRows Plan plan_bounds",
            ".plan.projections": "check_size fits_upper_bound",
            ".progress": "Progress ProgressLike shown_progress",
            ".read.read": "Read",
            ".read.stream": "BlockStream",
            ".private_thread": "Callback current_engine io_thread shut_down",
            ".runtime": "bind_callback read_small read_small_blocking run run_blocking",
            ".scheduled_store": "ScheduledStore",
            ".workers.worker_pool": "InlinePool ThreadPool WorkItem WorkerPool",
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
    "ProgressLike",
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
    "read_small",
    "read_small_blocking",
    "run",
    "run_blocking",
    "shown_progress",
    "shut_down",
    "split_limit",
    "split_range",
]
