"""What a read and a write have in common: whose they are, where they queue, and within which limits."""

from __future__ import annotations

from aiozarr.engine.desk import Desk
from aiozarr.schedule.events import Report
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.schedule.scheduler import Origin, Source
from aiozarr.settings import Settings


class Job(Source):
    """One operation of one caller on one origin."""

    def __init__(self, desk: Desk, queue: Origin, settings: Settings, recorder: Report | None) -> None:
        self.desk = desk
        self.queue = queue
        self.settings = settings
        self.recorder = recorder
        self.policy = RetryPolicy(settings.retries, settings.retry_seconds)
        self.max_requests = None if settings.max_requests == "auto" else settings.max_requests
        self.max_bytes = settings.max_bytes_in_flight
