"""What the settings of readers must have in common where one request serves all of them: pure functions."""

from __future__ import annotations

from collections.abc import Hashable

from aiozarr.settings import DEFAULT_SETTINGS, Settings


def ending_terms(settings: Settings) -> Hashable:
    """Return what of `settings` decides about how a request ends, for all who wait for it.

    Whether a chunk may be missing is not among it: each reader is asked that.
    """
    return (settings.retries, settings.retry_seconds, settings.missing_status, settings.max_chunk_bytes)


DEFAULT_TERMS = ending_terms(DEFAULT_SETTINGS)


def merging_terms(settings: Settings) -> Hashable:
    """Return what readers must have in common whose ranges are merged into one request."""
    return (ending_terms(settings), settings.gap, settings.max_over_read, settings.max_request_bytes)
