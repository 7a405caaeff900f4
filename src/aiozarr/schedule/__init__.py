"""When each request is sent: coalescing, one budget per origin, retries, and the report of their cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.schedule.admission import AdmissionQueue
    from aiozarr.schedule.budget import Budget
    from aiozarr.schedule.coalesce import MergedRange, MergeLimits
    from aiozarr.schedule.events import Event, Report, RequestEvent, Totals, current_recorder, record
    from aiozarr.schedule.executor import RequestExecutor, RequestQueues
    from aiozarr.schedule.queue import RequestQueue
    from aiozarr.schedule.retry import RetryPolicy
    from aiozarr.schedule.scheduled_request import RequestSource, ScheduledRequest
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".admission": "AdmissionQueue",
            ".budget": "Budget",
            ".coalesce": "MergedRange MergeLimits",
            ".events": "Event Report RequestEvent Totals current_recorder record",
            ".executor": "RequestExecutor RequestQueues",
            ".queue": "RequestQueue",
            ".retry": "RetryPolicy",
            ".scheduled_request": "RequestSource ScheduledRequest",
        },
    )

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
    "current_recorder",
    "record",
]
