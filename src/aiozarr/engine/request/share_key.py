"""The keys by which readers share a request or a cached chunk: pure functions of what was asked for and settings."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakValueDictionary

from aiozarr.settings import DEFAULT_SETTINGS, Settings


class InternedKey:
    """Stands for a value: as long as it is used, there is one object for all equal values.

    So it is hashed and compared as fast as possible. Every chunk of an array is looked up by it, four times.
    """

    __slots__ = ("__weakref__", "value")

    value: Hashable

    def __new__(cls, value: Hashable) -> InternedKey:
        interned = _interned.get(value)
        if interned is None:
            interned = super().__new__(cls)
            interned.value = value
            interned = _interned.setdefault(value, interned)
        return interned

    @classmethod
    def find(cls, value: Hashable) -> InternedKey | None:
        """Return the key of `value` if it is used somewhere. Any thread; keys are made on the I/O thread alone."""
        return _interned.get(value)


_interned: WeakValueDictionary[Hashable, InternedKey] = WeakValueDictionary()


def outcome_key(settings: Settings) -> Hashable:
    """Return the part of `settings` that decides how a request ends. Readers with equal ones share a request.

    Whether a chunk may be missing is not part of it: each reader decides that for itself.
    """
    return (settings.retries, settings.retry_seconds, settings.missing_status, settings.max_chunk_bytes)


DEFAULT_OUTCOME_KEY = outcome_key(DEFAULT_SETTINGS)


def merge_key(settings: Settings) -> Hashable:
    """Return the part of `settings` that must be equal for readers whose ranges are merged into one request."""
    return (outcome_key(settings), settings.gap, settings.max_over_read, settings.max_request_bytes)
