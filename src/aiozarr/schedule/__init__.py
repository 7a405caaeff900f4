"""When each request is sent: coalescing, one budget per origin, retries, and the report of their cost."""

from aiozarr.schedule.admission import AdmissionQueue
from aiozarr.schedule.budget import Budget
from aiozarr.schedule.coalesce import MergedRange, MergeLimits, coalesce
from aiozarr.schedule.events import Event, Report, RequestEvent, Totals, current_recorder, record
from aiozarr.schedule.executor import RequestExecutor, RequestQueues
from aiozarr.schedule.queue import RequestQueue
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.schedule.scheduled_request import RequestSource, ScheduledRequest

__all__ = [
    "AdmissionQueue",
    "Budget",
    "Event",
    "MergeLimits",
    "MergedRange",
    "Report",
    "RequestEvent",
    "RequestExecutor",
    "RequestQueue",
    "RequestQueues",
    "RequestSource",
    "RetryPolicy",
    "ScheduledRequest",
    "Totals",
    "coalesce",
    "current_recorder",
    "record",
]
