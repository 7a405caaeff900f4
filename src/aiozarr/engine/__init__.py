"""The engine: plans reads and writes, has them scheduled, and runs codecs in worker threads."""

from aiozarr.engine.engine import Engine
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.bounds import Thrift
from aiozarr.engine.plan.plan import NO_READ, Plan, check_size, plan_bounds, surely_fits
from aiozarr.engine.plan.rows import FirstRows
from aiozarr.engine.plan.split_plan import split_limit
from aiozarr.engine.progress import Progress
from aiozarr.engine.read.read import Read
from aiozarr.engine.read.stream import BlockStream
from aiozarr.engine.runtime import Callback, callback_here, current_engine, io_thread, run, run_blocking, shut_down
from aiozarr.engine.session import Session
from aiozarr.engine.work.pool import InlinePool, ThreadPool, WorkerPool
from aiozarr.engine.write.write import Write

__all__ = [
    "NO_READ",
    "ArrayLayout",
    "BlockStream",
    "Callback",
    "Engine",
    "FirstRows",
    "InlinePool",
    "Plan",
    "Progress",
    "Read",
    "Session",
    "ThreadPool",
    "Thrift",
    "WorkerPool",
    "Write",
    "callback_here",
    "check_size",
    "current_engine",
    "io_thread",
    "plan_bounds",
    "run",
    "run_blocking",
    "shut_down",
    "split_limit",
    "surely_fits",
]
