"""Reports add up what requests cost, by origin, in every record around them."""

from __future__ import annotations

import dataclasses

import pytest

from aiozarr.schedule.events import (
    Report,
    RequestEvent,
    Totals,
    add_requests,
    current_recorder,
    nested_report,
    origin_url,
    record,
)


def test_added_totals_count_in_the_record_and_in_outer_records_by_origin() -> None:
    outer = Report()
    inner = nested_report(outer)
    add_requests(
        inner, "s3://bucket/a.zarr", Totals(requests=2, retries=1, bytes_fetched=10, bytes_wanted=7, queue_seconds=0.5)
    )
    add_requests(inner, "s3://bucket/b.zarr", Totals(requests=1, decode_seconds=0.25))
    add_requests(outer, "https://host:1/c", Totals(bytes_written=3, encode_seconds=1.0, request_seconds=2.0))
    assert (inner.requests, inner.retries, inner.over_read, inner.decode_seconds) == (3, 1, 3, 0.25)
    assert inner.origins == {"s3://bucket": Totals(3, 1, 7, 10, queue_seconds=0.5, decode_seconds=0.25)}
    assert outer.origins == {
        **inner.origins,
        "https://host:1": Totals(bytes_written=3, encode_seconds=1.0, request_seconds=2.0),
    }
    assert (outer.requests, outer.bytes_written, outer.request_seconds) == (3, 3, 2.0)


def test_the_sums_of_origins_are_those_of_the_report() -> None:
    report = Report()
    each = Totals(**{name.name: number for number, name in enumerate(dataclasses.fields(Totals), 1)})
    add_requests(report, "file:///a", each)
    add_requests(report, "memory://b", each)
    for name in dataclasses.fields(Totals):
        assert getattr(report, name.name) == 2 * getattr(each, name.name)


def test_origins_are_a_copy() -> None:
    report = Report()
    add_requests(report, "memory://a", Totals(requests=1))
    before = report.origins
    add_requests(report, "memory://a", Totals(requests=1))
    assert before["memory://a"].requests == 1
    assert report.origins["memory://a"].requests == 2


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("s3://bucket/a/b.zarr", "s3://bucket"),
        ("https://host:8443/a", "https://host:8443"),
        ("file:///tmp/a", "file://"),
        ("memory://name", "memory://name"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net"),
        ("zip::s3://bucket/a.zip", "s3://bucket"),
        ("no url", "no url"),
    ],
)
def test_an_origin_is_scheme_and_authority(url: str, origin: str) -> None:
    assert origin_url(url) == origin


def test_events_are_frozen_and_their_later_fields_have_defaults() -> None:
    event = RequestEvent(
        operation="fetch",
        store="memory://a",
        key="c/0",
        range=None,
        bytes_wanted=4,
        bytes_fetched=6,
        seconds=0.5,
        attempts=1,
    )
    assert (event.over_read, event.started, event.queue_seconds, event.decode_seconds, event.chunks) == (2, 0, 0, 0, 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.key = "other"  # type: ignore[misc]  # that is the point


def test_a_context_has_one_recorder_and_the_one_around_it_comes_back() -> None:
    assert current_recorder() is None
    with record() as outer:
        with record() as inner:
            assert current_recorder() is inner
            add_requests(inner, "memory://a", Totals(requests=1))
            assert outer.requests == 1
        assert current_recorder() is outer
    assert current_recorder() is None
