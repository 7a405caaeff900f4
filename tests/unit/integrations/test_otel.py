from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import aiozarr
from aiozarr.integrations import otel
from aiozarr.integrations.otel import _request_attributes
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores import MemoryStore, from_url
from aiozarr.testing.fakes import FakeStore
from tests.support.servers.http_server import FaultServer


class Telemetry:
    """Providers that keep spans and measurements in memory."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(**options)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def metrics(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return {metric.name: list(metric.data.data_points) for metric in found}


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    each = Telemetry()
    otel.instrument(each.tracers, each.meters)
    yield each
    otel.uninstrument()


async def small_array(chunks: int = 4) -> aiozarr.Array:
    return await aiozarr.create_array(FakeStore(latency=0), data=np.arange(chunks), chunks=1)


async def test_a_read_is_a_span_with_its_requests_as_children(telemetry: Telemetry) -> None:
    array = await small_array()
    telemetry.exporter.clear()
    with telemetry.tracers.get_tracer("test").start_as_current_span("route") as route:
        await array[...]
    [read] = telemetry.spans("aiozarr.read")
    requests = telemetry.spans("GET")
    assert read.parent is not None
    assert read.parent.span_id == route.get_span_context().span_id
    assert read.attributes is not None
    assert read.attributes["aiozarr.chunks"] == read.attributes["aiozarr.requests"] == len(requests) == 4
    assert read.attributes["zarr.url"] == array.url
    for each in requests:
        assert each.parent is not None
        assert each.parent.span_id == read.context.span_id  # type: ignore[union-attr]
        assert read.start_time <= each.start_time + 1_000_000  # type: ignore[operator]
        assert each.end_time <= read.end_time + 1_000_000  # type: ignore[operator]


def test_blocking_reads_have_the_span_of_their_caller_as_parent(telemetry: Telemetry) -> None:
    array = aiozarr.sync.create_array(MemoryStore(), data=np.arange(3))
    with telemetry.tracers.get_tracer("test").start_as_current_span("job") as job:
        array[...]
    [read] = telemetry.spans("aiozarr.read")
    assert read.parent is not None
    assert read.parent.span_id == job.get_span_context().span_id


async def test_many_requests_are_100_spans_and_an_event_for_each_100_after_them(telemetry: Telemetry) -> None:
    array = await small_array(350)
    telemetry.exporter.clear()
    await array[...]
    [read] = telemetry.spans("aiozarr.read")
    assert len(telemetry.spans("GET")) == 100
    counts = [event.attributes["aiozarr.requests"] for event in read.events]  # type: ignore[index]
    assert counts == [100, 100, 50]


@pytest.mark.parametrize(("requests", "spans"), [(True, 150), (False, 0)])
async def test_all_or_no_requests_can_be_spans(requests: bool, spans: int) -> None:
    telemetry = Telemetry()
    array = await small_array(150)
    otel.instrument(telemetry.tracers, telemetry.meters, requests=requests)
    try:
        await array[...]
    finally:
        otel.uninstrument()
    assert len(telemetry.spans("GET")) == spans
    assert not telemetry.spans("aiozarr.read")[0].events


async def test_operations_that_are_not_sampled_make_no_spans_and_are_measured() -> None:
    telemetry = Telemetry(sampler=ALWAYS_OFF)
    array = await small_array()
    otel.instrument(telemetry.tracers, telemetry.meters)
    try:
        await array[...]
    finally:
        otel.uninstrument()
    assert not telemetry.exporter.get_finished_spans()
    metrics = telemetry.metrics()
    assert metrics["aiozarr.requests"][0].value == 4
    assert metrics["aiozarr.operation.duration"][0].count == 1


async def test_errors_and_cancellations_end_their_spans(telemetry: Telemetry) -> None:
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(MemoryStore())
    [failed] = telemetry.spans("aiozarr.open")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "aiozarr.errors.NodeNotFoundError"
    slow = FakeStore(latency=0)
    array = await aiozarr.create_array(slow, data=np.arange(4))
    slow.latency = 30
    task = asyncio.create_task(array[...].read())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [cancelled] = telemetry.spans("aiozarr.read")
    assert cancelled.attributes is not None
    assert "CancelledError" in str(cancelled.attributes["error.type"])
    assert cancelled.end_time is not None


async def test_requests_over_http_follow_the_conventions(telemetry: Telemetry) -> None:
    values = MemoryStore()
    await aiozarr.create_array(values, data=np.arange(4), chunks=2)
    with FaultServer({key: bytes(await values.get(key) or b"") for key in await values.list()}) as server:
        telemetry.exporter.clear()
        array = await aiozarr.open_array(server.url)
        await array[...]
        await array.aclose()
    found = telemetry.spans("GET")
    chunks = [span for span in found if span.attributes and str(span.attributes["aiozarr.key"]).startswith("c/")]
    assert len(chunks) == 2
    for span in chunks:
        assert span.kind is SpanKind.CLIENT
        assert span.attributes is not None
        assert span.attributes["http.request.method"] == "GET"
        assert span.attributes["http.response.status_code"] == 200
        assert span.attributes["server.address"] == "127.0.0.1"
        assert str(span.attributes["url.full"]).startswith(server.url)
    points = telemetry.metrics()["http.client.request.duration"]
    assert {point.attributes.get("http.response.status_code") for point in points} >= {200}


async def test_the_server_of_a_bucket_is_its_endpoint(telemetry: Telemetry) -> None:
    values = MemoryStore()
    await aiozarr.create_array(values, data=np.arange(4), chunks=2)
    with FaultServer({f"weather1/{key}": bytes(await values.get(key) or b"") for key in await values.list()}) as server:
        telemetry.exporter.clear()
        options = {"endpoint_url": server.url, "anon": True}
        async with aiozarr.open_array("s3://weather1", storage_options=options) as array:
            assert (await array[...]).tolist() == [0, 1, 2, 3]
    spans = telemetry.spans("GET")
    url = urlsplit(server.url)
    assert {
        (span.attributes["server.address"], span.attributes["server.port"]) for span in spans if span.attributes
    } == {(url.hostname, url.port)}
    assert all(span.attributes and "url.full" not in span.attributes for span in spans)
    for point in telemetry.metrics()["http.client.request.duration"]:
        assert (point.attributes["server.address"], point.attributes["server.port"]) == (url.hostname, url.port)


async def test_copies_and_conversions_are_spans_with_their_requests_and_metrics(
    telemetry: Telemetry, tmp_path: Path
) -> None:
    values = MemoryStore()
    await aiozarr.create_array(values, data=np.arange(8), chunks=2)
    with FaultServer({key: bytes(await values.get(key) or b"") for key in await values.list()}) as server:
        telemetry.exporter.clear()
        report = await aiozarr.copy(server.url, tmp_path / "copy")
        [copy] = telemetry.spans("aiozarr.copy")
        requests = telemetry.spans("GET")
        await aiozarr.convert(server.url, tmp_path / "converted", chunks=(4,))
    assert copy.attributes is not None
    assert copy.attributes["zarr.url"] == f"file://{tmp_path}/copy"
    # Those that found the objects count too.
    assert int(str(copy.attributes["aiozarr.requests"])) > report.requests
    assert copy.attributes["aiozarr.bytes"]
    assert int(str(copy.attributes["aiozarr.bytes_written"])) >= report.bytes
    chunks = [span for span in requests if "c/" in str((span.attributes or {})["aiozarr.key"])]
    assert len(chunks) == 4
    assert {span.parent.span_id for span in requests if span.parent} == {copy.context.span_id}  # type: ignore[union-attr]
    # Its reads and writes are parts of a conversion, not operations beside it.
    assert len(telemetry.spans("aiozarr.convert")) == 1
    assert not telemetry.spans("aiozarr.read")
    assert not telemetry.spans("aiozarr.write")
    metrics = telemetry.metrics()
    counted = {point.attributes["aiozarr.operation"]: point.value for point in metrics["aiozarr.requests"]}
    assert counted["copy"] == copy.attributes["aiozarr.requests"]
    assert counted["convert"] > 4
    fetched = {point.attributes["aiozarr.operation"] for point in metrics["aiozarr.bytes_fetched"]}
    assert fetched >= {"copy", "convert"}
    kinds = {point.attributes["aiozarr.operation"] for point in metrics["aiozarr.operation.duration"]}
    assert kinds >= {"create", "copy", "convert"}


async def test_nothing_is_observed_before_and_after(telemetry: Telemetry) -> None:
    otel.uninstrument()
    await (await small_array())[...]
    assert not telemetry.exporter.get_finished_spans()
    otel.uninstrument()
    with pytest.raises(ValueError, match="requests must be"):
        otel.instrument(requests="all")  # type: ignore[arg-type]


async def test_a_tracer_that_raises_does_not_end_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(trace.NoOpTracer):
        def start_span(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("broken")

    monkeypatch.setattr(trace, "get_tracer", lambda *args: Broken())
    otel.instrument()
    try:
        assert list(await (await small_array())[...]) == [0, 1, 2, 3]
    finally:
        otel.uninstrument()


SECRETS = st.text("abcdefgXYZ0123456789", min_size=9, max_size=12)


@settings(max_examples=40, deadline=None)
@given(SECRETS, SECRETS, st.sampled_from(["data.zarr", "a b/ü"]))
def test_attributes_have_no_secret_of_the_url(user: str, secret: str, path: str) -> None:
    urls = {f"http://{user}:{secret}@host.example:8080/{quote(path)}": {}}
    urls[f"s3://bucket/{path}"] = {"key": user, "secret": secret, "endpoint_url": "http://127.0.0.1:1"}
    for url, options in urls.items():
        store = from_url(url, **options)
        event = RequestEvent(
            operation="fetch",
            store=store.url,
            key="c/0",
            range=None,
            bytes_wanted=1,
            bytes_fetched=1,
            seconds=1.0,
            attempts=2,
        )
        assert secret not in repr(_request_attributes(event))
        assert _request_attributes(event)["http.request.resend_count"] == 1
