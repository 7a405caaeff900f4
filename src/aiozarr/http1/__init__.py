"""An HTTP/1.1 client for ranges of objects: keep-alive connections, bodies received in place, no task per request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.http1.connection import BodyCutError, Connection, Response, ResponseReceiver, StaleConnectionError
    from aiozarr.http1.endpoint import Endpoint
    from aiozarr.http1.endpoint_client import EndpointClient, Request, RequestSender
    from aiozarr.http1.head import Headers
    from aiozarr.http1.per_loop import acquire, release
    from aiozarr.http1.pool import SLOWEST_BYTES_PER_SECOND, Pool
    from aiozarr.http1.request import RequestTemplate, check_headers, quote_key, range_header
    from aiozarr.http1.response_check import (
        Accept,
        BodyPieces,
        ErrorBody,
        Expectation,
        NeedsFallback,
        check_response,
        etag_of,
    )
    from aiozarr.http1.url import Proxies, WebAddress, fingerprint
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".connection": "BodyCutError Connection Response ResponseReceiver StaleConnectionError",
            ".endpoint": "Endpoint",
            ".endpoint_client": "EndpointClient Request RequestSender",
            ".head": "Headers",
            ".per_loop": "acquire release",
            ".pool": "SLOWEST_BYTES_PER_SECOND Pool",
            ".request": "RequestTemplate check_headers quote_key range_header",
            ".response_check": "Accept BodyPieces ErrorBody Expectation NeedsFallback check_response etag_of",
            ".url": "Proxies WebAddress fingerprint",
        },
    )

__all__ = [
    "SLOWEST_BYTES_PER_SECOND",
    "Accept",
    "BodyCutError",
    "BodyPieces",
    "Connection",
    "Endpoint",
    "EndpointClient",
    "ErrorBody",
    "Expectation",
    "Headers",
    "NeedsFallback",
    "Pool",
    "Proxies",
    "Request",
    "RequestSender",
    "RequestTemplate",
    "Response",
    "ResponseReceiver",
    "StaleConnectionError",
    "WebAddress",
    "acquire",
    "check_headers",
    "check_response",
    "etag_of",
    "fingerprint",
    "quote_key",
    "range_header",
    "release",
]
