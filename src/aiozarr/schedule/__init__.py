"""When each request goes: coalescing, one budget per origin, retries, and the report of what it cost."""

from aiozarr.schedule.budget import Budget
from aiozarr.schedule.call import Call, Source
from aiozarr.schedule.coalesce import Economy, Merged, coalesce
from aiozarr.schedule.events import Event, Report, RequestEvent, Totals, current_recorder, record
from aiozarr.schedule.origin import Origin
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.schedule.scheduler import Scheduler

__all__ = [
    "Budget",
    "Call",
    "Economy",
    "Event",
    "Merged",
    "Origin",
    "Report",
    "RequestEvent",
    "RetryPolicy",
    "Scheduler",
    "Source",
    "Totals",
    "coalesce",
    "current_recorder",
    "record",
]
