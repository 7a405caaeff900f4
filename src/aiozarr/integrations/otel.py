"""OpenTelemetry: a span for each read, write, opening and copy, spans or events for their requests, and metrics.

```python
from aiozarr.integrations import otel

otel.instrument()
```

Needs only the API (`aiozarr[otel]`); the application provides the SDK. Nothing happens before `instrument` is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from time import monotonic_ns, time_ns
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlsplit

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

import aiozarr
from aiozarr.schedule.events import OperationKind, Report, RequestEvent, RequestOperation, add_observer, remove_observer
from aiozarr.stores.schemes import REMOTE_STORES

__all__ = ["instrument", "uninstrument"]

RequestSpans: TypeAlias = Literal["recording"] | bool

MAX_REQUEST_SPANS = 100
"""Request spans of one operation with `requests="recording"`. The requests after them are summed in events."""
REQUESTS_PER_EVENT = 100
"""Requests that one event of a span sums."""
SCHEMA_URL = "https://opentelemetry.io/schemas/1.36.0"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Boundaries of the histograms, from the semantic conventions for HTTP."""

_METHODS = {"fetch": "GET", "list": "GET", "stat": "HEAD", "set": "PUT", "erase": "DELETE"}
_S3_OPERATIONS = {
    "fetch": "GetObject",
    "list": "ListObjectsV2",
    "stat": "HeadObject",
    "set": "PutObject",
    "erase": "DeleteObject",
}


def instrument(
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
    *,
    requests: RequestSpans = "recording",
) -> None:
    """Trace and measure all operations from now on. A second call replaces the first.

    Args:
        tracer_provider: the provider of spans; None: the global one.
        meter_provider: the provider of metrics; None: the global one.
        requests: "recording": the first 100 requests of each sampled operation are spans, and each 100 after them an
            event; True: all requests of sampled operations are spans; False: none. Metrics count all of them.

    Raises:
        ValueError: `requests` has another value.
    """
    global _observer
    if requests not in ("recording", True, False):
        raise ValueError(f"requests must be 'recording', True or False, not {requests!r}")
    uninstrument()
    _observer = OperationTracer(tracer_provider, meter_provider, requests)
    add_observer(_observer)


def uninstrument() -> None:
    """Undo `instrument`. Operations that have begun are traced to their end."""
    global _observer
    if _observer is not None:
        remove_observer(_observer)
        _observer = None


class OperationTracer:
    """Makes spans and measurements of operations; see `instrument`."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
        requests: RequestSpans,
    ) -> None:
        version = aiozarr.__version__
        self.requests = requests
        self.tracer = trace.get_tracer("aiozarr", version, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter("aiozarr", version, meter_provider, SCHEMA_URL)
        self.request_duration, self.operation_duration = [
            meter.create_histogram(name, "s", f"Duration of {what}.", explicit_bucket_boundaries_advisory=SECONDS)
            for name, what in (
                ("http.client.request.duration", "requests to stores over HTTP"),
                ("aiozarr.operation.duration", "reads, writes, openings and copies"),
            )
        ]
        self.counters = {
            name: meter.create_counter(f"aiozarr.{name}", unit, description)
            for name, unit, description in (
                ("requests", "{request}", "Requests to stores, repetitions included."),
                ("retries", "{request}", "Repetitions of requests."),
                ("chunks", "{chunk}", "Chunks read, and stored objects written."),
                ("bytes_fetched", "By", "Bytes received from stores."),
                ("bytes_written", "By", "Bytes sent to stores."),
            )
        }

    def begin(self, kind: OperationKind) -> _OperationSpan:
        """Begin the span of an operation, as a child of the caller's current span."""
        return _OperationSpan(self, kind)


_observer: OperationTracer | None = None


class _OperationSpan:
    def __init__(self, tracer: OperationTracer, kind: OperationKind) -> None:
        self._tracer = tracer
        self._kind = kind
        self._begun = monotonic_ns()
        # Spans have wall times, events have monotonic ones.
        self._epoch = time_ns() - self._begun
        self._span: Span = tracer.tracer.start_span(
            f"aiozarr.{kind}", attributes={"aiozarr.operation": kind}, start_time=self._epoch + self._begun
        )
        self._parent = trace.set_span_in_context(self._span)
        self._is_recording = self._span.is_recording()
        self._has_ended = False
        self._spans = 0
        self._summed = _RequestSums()
        # Instrumentations of HTTP clients would make a second span of the same request. A stream ends in another
        # context than it begins in.
        self._token = None if kind == "stream" else context.attach(context.set_value(_SUPPRESS_HTTP, True))

    def request(self, event: RequestEvent) -> None:
        """Make a span of a request, or add it to the next event."""
        if (attributes := _attributes_of(event)) is not None:
            self._tracer.request_duration.record(event.seconds, attributes)
        if not self._is_recording or self._has_ended or self._tracer.requests is False:
            return
        if self._tracer.requests is True or self._spans < MAX_REQUEST_SPANS:
            self._spans += 1
            self._make_span(event)
            return
        self._summed.add(event)
        if self._summed.count == REQUESTS_PER_EVENT:
            self._add_event()

    def end(self, report: Report, url: str | None, error: BaseException | None) -> None:
        """End the span, with the sums of the operation."""
        if self._token is not None:
            context.detach(self._token)
        self._has_ended = True
        ended = monotonic_ns()
        attributes: dict[str, str] = {"aiozarr.operation": self._kind}
        if error is not None:
            attributes["error.type"] = _type_name(error)
        self._tracer.operation_duration.record((ended - self._begun) / 1e9, attributes)
        for name, counter in self._tracer.counters.items():
            amount = getattr(report, name)
            if amount:
                counter.add(amount, {"aiozarr.operation": self._kind})
        if self._is_recording:
            if self._summed.count:
                self._add_event()
            if url is not None:
                self._span.set_attribute("zarr.url", url)
            self._span.set_attributes(_sums(report))
            if error is not None:
                self._span.set_attribute("error.type", attributes["error.type"])
                self._span.record_exception(error if isinstance(error, Exception) else Exception("cancelled"))
                self._span.set_status(Status(StatusCode.ERROR, str(error) or attributes["error.type"]))
        self._span.end(self._epoch + ended)

    def _make_span(self, event: RequestEvent) -> None:
        started = self._epoch + (round(event.started * 1e9) if event.started else monotonic_ns())
        span = self._tracer.tracer.start_span(
            _METHODS[event.operation],
            self._parent,
            SpanKind.CLIENT if urlsplit(event.store).scheme in REMOTE_STORES else SpanKind.INTERNAL,
            _request_attributes(event),
            start_time=started,
        )
        if event.error is not None:
            span.set_status(Status(StatusCode.ERROR, str(event.error)))
        span.end(started + round(event.seconds * 1e9))

    def _add_event(self) -> None:
        self._span.add_event("aiozarr.requests", self._summed.attributes())
        self._summed = _RequestSums()


class _RequestSums:
    """The sums of several requests."""

    def __init__(self) -> None:
        self.count = self.nbytes = self.errors = 0
        self.seconds = self.max_seconds = 0.0

    def add(self, event: RequestEvent) -> None:
        self.count += 1
        self.nbytes += event.bytes_fetched + event.bytes_written
        self.errors += event.error is not None
        self.seconds += event.seconds
        self.max_seconds = max(self.max_seconds, event.seconds)

    def attributes(self) -> dict[str, int | float]:
        return {
            "aiozarr.requests": self.count,
            "aiozarr.bytes": self.nbytes,
            "aiozarr.errors": self.errors,
            "aiozarr.request_seconds": self.seconds,
            "aiozarr.max_request_seconds": self.max_seconds,
        }


def _sums(report: Report) -> Mapping[str, int | float]:
    return {
        "aiozarr.chunks": report.chunks,
        "aiozarr.requests": report.requests,
        "aiozarr.retries": report.retries,
        "aiozarr.bytes": report.bytes_fetched,
        "aiozarr.over_read_bytes": report.over_read,
        "aiozarr.bytes_written": report.bytes_written,
        "aiozarr.shared_chunks": report.shared,
        "aiozarr.cached_chunks": report.cached,
        "aiozarr.queue_seconds": report.queue_seconds,
        "aiozarr.request_seconds": report.request_seconds,
        "aiozarr.decode_seconds": report.decode_seconds,
        "aiozarr.encode_seconds": report.encode_seconds,
    }


def _attributes_of(event: RequestEvent) -> Mapping[str, str | int] | None:
    """Return the attributes of a request in metrics, or None for a store that is not reached over HTTP."""
    error_type = None if event.error is None else _type_name(event.error)
    return _http_attributes(event.store, event.server, event.operation, event.status, error_type)


_DEFAULT_PORTS = {"https": 443, "http": 80}


@lru_cache(maxsize=256)  # shared by all requests of one outcome, and never changed
def _http_attributes(
    store: str, server: str | None, operation: RequestOperation, status: int | None, error_type: str | None
) -> Mapping[str, str | int] | None:
    if urlsplit(store).scheme not in REMOTE_STORES:
        return None
    url = urlsplit(server or "")
    attributes: dict[str, str | int | None] = {
        "http.request.method": _METHODS[operation],
        "server.address": url.hostname,
        "server.port": url.port or _DEFAULT_PORTS.get(url.scheme),
        "http.response.status_code": status,
        "error.type": error_type,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _request_attributes(event: RequestEvent) -> dict[str, Any]:
    """Return the attributes of a request's span: HTTP client conventions, and those of S3 for its buckets."""
    url = urlsplit(event.store)
    attributes: dict[str, Any] = {
        "aiozarr.key": event.key,
        "aiozarr.bytes": event.bytes_fetched + event.bytes_written,
        "aiozarr.over_read_bytes": event.over_read,
        "aiozarr.queue_seconds": event.queue_seconds,
        "aiozarr.decode_seconds": event.decode_seconds,
    }
    if event.range is not None:
        attributes["aiozarr.range"] = str(event.range)
    if event.attempts > 1:
        attributes["http.request.resend_count"] = event.attempts - 1
    if (shared := _attributes_of(event)) is not None:
        attributes |= shared
        if url.scheme in ("http", "https"):  # the URL of a bucket is not the one that is requested
            # The URL of a store has no secrets, and no query.
            attributes["url.full"] = f"{event.store.rstrip('/')}/{quote(event.key)}"
    if url.scheme == "s3":
        prefix = url.path.strip("/")
        attributes |= {
            "rpc.system": "aws-api",
            "rpc.service": "S3",
            "rpc.method": _S3_OPERATIONS[event.operation],
            "aws.s3.bucket": url.netloc,
            "aws.s3.key": f"{prefix}/{event.key}" if prefix else event.key,
        }
    return attributes


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


# The key that instrumentations of HTTP clients check. It has no public name in the API.
_SUPPRESS_HTTP = getattr(context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", "suppress_http_instrumentation")
