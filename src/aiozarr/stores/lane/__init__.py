"""The lean way to read: keep-alive GETs of ranges, received in place, for tens of microseconds each."""

from aiozarr.stores.lane.connection import Answer, BodyCutError, Connection, Reply, StaleConnectionError
from aiozarr.stores.lane.judge import Accept, Detour, Note, Want, etag_of, judge
from aiozarr.stores.lane.loops import leave, obtain
from aiozarr.stores.lane.pool import SLOWEST_BYTES_PER_SECOND, Origin, Pool
from aiozarr.stores.lane.request import RequestTemplate, check_headers, quote_key, range_header

__all__ = [
    "SLOWEST_BYTES_PER_SECOND",
    "Accept",
    "Answer",
    "BodyCutError",
    "Connection",
    "Detour",
    "Note",
    "Origin",
    "Pool",
    "Reply",
    "RequestTemplate",
    "StaleConnectionError",
    "Want",
    "check_headers",
    "etag_of",
    "judge",
    "leave",
    "obtain",
    "quote_key",
    "range_header",
]
