"""One copy between fake stores, in virtual time: order, overlap, bounds, faults, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aiozarr.common.progress import Progress
from aiozarr.engine import Engine, InlinePool
from aiozarr.errors import (
    ChangedError,
    ChecksumError,
    CopyError,
    InvalidKeyError,
    NodeNotFoundError,
    PermissionDeniedError,
    ShortReadError,
    StoreError,
    ThrottledError,
)
from aiozarr.model import Entry, Value
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Corrupt, any_of, before, first, on_key, on_operation
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual
from aiozarr.transfer import CopyReport
from aiozarr.transfer.copy_rules import CopyRules
from tests.support.copies import contents, copy_operation

TREE = {
    "zarr.json": b"root",
    "a/zarr.json": b"array a",
    **{f"a/c/{n}": bytes([n]) * (n + 1) for n in range(6)},
    "g/zarr.json": b"group",
    "g/b/zarr.json": b"array b",
    "g/b/c/0/0": b"chunk",
    "g/b/c/Ω ~#%?&+ü": b"odd",
    "g/b/c/empty": b"",
}


RULES = CopyRules(overwrite=True)


def unlisted(store: FakeStore) -> FakeStore:
    """Return a destination that cannot be listed, so that its copy has no journal."""
    store.supports = replace(store.supports, listable=False)
    return store


async def run(source: FakeStore, destination: FakeStore, **options: Any) -> CopyReport:
    settings = options.pop("settings", Settings(max_requests=64))
    others = {name: options.pop(name) for name in ("report", "progress") if name in options}
    rules = CopyRules(**{"overwrite": True, **options})
    engine = Engine(asyncio.get_running_loop(), InlinePool())
    return await copy_operation(engine, source, unlisted(destination), rules, settings=settings, **others).run()


def copied(source: FakeStore, destination: FakeStore, **options: Any) -> CopyReport:
    return run_virtual(run(source, destination, **options))


class Listing(FakeStore):
    """A store whose listing says more than is there."""

    extra: tuple[Entry, ...] = ()

    async def scan(self, prefix: str = "") -> Any:
        for entry in self.extra:
            yield entry
        async for entry in super().scan(prefix):
            yield entry


# --- what a copy is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", ["size", "checksum", None])
@pytest.mark.parametrize("versions", [True, False])
def test_every_key_and_byte_is_copied_and_counted(verify: Any, versions: bool) -> None:
    source, destination = FakeStore(TREE, versions=versions), FakeStore(versions=versions)
    report = copied(source, destination, verify=verify)
    assert contents(destination) == TREE
    assert (report.objects, report.metadata_documents) == (len(TREE), 4)
    assert report.bytes == sum(map(len, TREE.values()))
    assert (report.failed, report.changed, report.folder_markers) == ((), (), 0)
    requests = [call for store in (source, destination) for call in store.calls]
    # Documents without a version are read twice, to find out whether they have changed.
    per_object = 3 if verify == "checksum" else 2
    assert (
        report.requests == len(requests) == 1 + len(TREE) * per_object + (0 if versions else report.metadata_documents)
    )


def test_the_callers_report_counts_the_copy() -> None:
    outer = Report()
    report = copied(FakeStore(TREE), FakeStore(), report=outer)
    assert outer.requests == report.requests
    assert outer.bytes_fetched == outer.bytes_written == report.bytes


def test_metadata_documents_come_after_all_chunks_deepest_first_and_the_root_last() -> None:
    destination = FakeStore()
    copied(FakeStore(TREE), destination)
    calls = [call for call in destination.calls if call.operation == "set"]
    documents = [call for call in calls if call.key.endswith("zarr.json")]
    assert [call.key for call in documents[:1]] == ["g/b/zarr.json"]
    assert {call.key for call in documents[1:3]} == {"a/zarr.json", "g/zarr.json"}
    assert documents[3].key == "zarr.json"
    for earlier, later in [
        (calls[:-4], documents[:1]),
        (documents[:1], documents[1:3]),
        (documents[1:3], documents[3:]),
    ]:
        assert max(call.ended or 0 for call in earlier) <= min(call.started for call in later)


def test_objects_of_the_destination_are_replaced_and_others_remain() -> None:
    destination = FakeStore({"a/c/0": b"old", "zarr.json": b"old", "other": b"mine"})
    copied(FakeStore(TREE), destination)
    assert contents(destination) == TREE | {"other": b"mine"}


def test_an_empty_source_is_an_error_with_its_url() -> None:
    source, destination = FakeStore(), FakeStore()
    with pytest.raises(NodeNotFoundError) as caught:
        copied(source, destination)
    assert caught.value.url == source.url
    assert not contents(destination)


def test_progress_grows_and_ends_at_all_objects_and_bytes() -> None:
    told: list[Progress] = []
    copied(FakeStore(TREE), FakeStore(), progress=told.append)
    assert [each.done for each in told] == list(range(1, len(TREE) + 1))
    nbytes = sum(map(len, TREE.values()))
    assert told[-1] == Progress(len(TREE), len(TREE), nbytes, nbytes)


# --- overlap and bounds ------------------------------------------------------------------------------------------


def test_a_limit_of_requests_applies_to_both_stores() -> None:
    source = FakeStore({f"c/{n}": b"x" for n in range(512)}, latency=1)
    destination = FakeStore(latency=1)
    copied(source, destination, settings=Settings(max_requests=64))
    assert source.max_in_flight == destination.max_in_flight == 64
    # One page of the listing, then both stores work at once: eight rounds each, the first of which only fetches.
    assert max(call.ended or 0 for call in destination.calls) == 1 + 9


def test_without_a_limit_the_initial_limits_of_both_stores_are_used() -> None:
    source, destination = FakeStore({f"c/{n}": b"x" for n in range(512)}), FakeStore()
    copied(source, destination, settings=Settings())
    assert source.max_in_flight >= 64
    assert destination.max_in_flight >= 64


def test_the_number_of_tasks_is_bounded() -> None:
    most = 0

    def look(_: Progress) -> None:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))

    source = FakeStore({f"c/{n}": b"x" for n in range(2000)})
    copied(source, FakeStore(), settings=Settings(max_requests=8), progress=look)
    assert most <= 2 * 8 + 2 * 8 + 2


def test_the_listing_is_pulled_on_demand() -> None:
    source = FakeStore({f"c/{n:04}": b"x" for n in range(1000)}, page_size=10)
    destination = FakeStore()
    copied(source, destination, settings=Settings(max_requests=4))
    pages = [call.started for call in source.calls if call.operation == "list"]
    last_set_before = [sum(1 for call in destination.calls if call.started < page) for page in pages]
    # At most the width, and a page, ahead of what has been stored.
    assert all(stored >= 10 * number - 8 - 10 for number, stored in enumerate(last_set_before))


def test_bytes_in_flight_are_bounded_and_a_larger_object_is_copied_alone() -> None:
    sizes = [100] * 40 + [5000] + [100] * 40
    source = FakeStore({f"c/{n:02}": b"x" * size for n, size in enumerate(sizes)}, latency=1)
    destination = FakeStore(latency=1)
    copied(source, destination, settings=Settings(max_requests=64, max_bytes_in_flight=1000))
    assert len(contents(destination)) == len(sizes)
    spans: dict[str, tuple[float, float]] = {}
    for store, edge in ((source, 0), (destination, 1)):
        for call in store.calls:
            if call.operation != "list":
                begun, ended = spans.get(call.key, (0.0, 0.0))
                spans[call.key] = (call.started, ended) if edge == 0 else (begun, call.ended or 0)
    for moment in range(60):
        held = [sizes[int(key[2:])] for key, (begun, ended) in spans.items() if begun <= moment + 0.5 < ended]
        assert sum(held) <= 1000 or held == [5000]


def test_a_large_object_is_fetched_in_concurrent_parts_of_one_version() -> None:
    data = bytes(range(256)) * 40
    source, destination = FakeStore({"c/0": data, "c/1": data[:1024], "c/2": data[:1025]}, latency=1), FakeStore()
    copied(source, destination, settings=Settings(max_requests=64, max_request_bytes=1024))
    assert contents(destination) == {"c/0": data, "c/1": data[:1024], "c/2": data[:1025]}
    parts = [call for call in source.calls if call.key == "c/0"]
    assert len(parts) == 10
    assert len({call.started for call in parts}) == 2  # the first, then all others
    assert [call.key for call in destination.calls].count("c/0") == 1


def test_a_store_without_partial_reads_returns_large_objects_whole() -> None:
    data = b"x" * 5000
    source = FakeStore({"c/0": data})
    source.supports = replace(source.supports, partial_reads=False)
    destination = FakeStore()
    destination.supports = replace(destination.supports, partial_reads=False)
    copied(source, destination, settings=Settings(max_request_bytes=1024), verify="checksum")
    assert contents(destination) == {"c/0": data}
    assert [call for _, call in [*source.log(), *destination.log()]] == [None, None]


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["list", "fetch", "set"])
def test_temporary_failures_are_retried(operation: str) -> None:
    source, destination = FakeStore(TREE, page_size=3), FakeStore()
    source.faults = destination.faults = on_operation(operation, ThrottledError("slow down"), times=4)
    report = copied(source, destination)
    assert contents(destination) == TREE
    assert report.failed == ()


def test_the_first_error_stops_the_copy_and_names_the_key_and_the_cause() -> None:
    refused = PermissionDeniedError("no", key="a/c/3")
    source, destination = FakeStore(TREE), FakeStore(faults=on_key("a/c/3", refused))

    async def scenario() -> CopyError:
        with pytest.raises(CopyError) as caught:
            await run(source, destination)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return caught.value

    error = run_virtual(scenario())
    assert [key for key, _ in error.failed] == ["a/c/3"]
    assert isinstance(error.__cause__, PermissionDeniedError)
    assert "a/c/3" in str(error)
    assert source.in_flight == destination.in_flight == 0
    assert not [key for key in contents(destination) if key.endswith("zarr.json")]


@pytest.mark.parametrize("on_error", ["raise", "continue"])
def test_a_failed_listing_is_an_error_for_every_on_error(on_error: str) -> None:
    source, destination = FakeStore(TREE, page_size=4), FakeStore()
    source.faults = before(4, lambda: setattr(source, "faults", on_operation("list", StoreError("down"))))
    with pytest.raises(CopyError, match="could not be listed") as caught:
        copied(source, destination, on_error=on_error)
    assert isinstance(caught.value.__cause__, StoreError)
    assert "zarr.json" not in contents(destination)


def test_continue_copies_the_rest_and_writes_no_document_above_a_missing_object() -> None:
    source, destination = FakeStore(TREE), FakeStore(faults=on_key("g/b/c/0/0", PermissionDeniedError("no")))
    report = copied(source, destination, on_error="continue")
    missing = {"g/b/c/0/0", "g/b/zarr.json", "g/zarr.json", "zarr.json"}
    assert contents(destination) == {key: data for key, data in TREE.items() if key not in missing}
    assert {key for key, _ in report.failed} == missing
    errors = dict(report.failed)
    assert isinstance(errors["g/b/c/0/0"], PermissionDeniedError)
    assert isinstance(errors["zarr.json"], CopyError)
    assert report.objects == len(TREE) - len(missing)


def test_a_failed_document_holds_back_those_above_it() -> None:
    destination = FakeStore(faults=on_key("g/b/zarr.json", StoreError("no")))
    report = copied(FakeStore(TREE), destination, on_error="continue")
    assert {key for key, _ in report.failed} == {"g/b/zarr.json", "g/zarr.json", "zarr.json"}


@pytest.mark.parametrize("key", ["../out", "a/../../out", "/etc/x", "a//b", "./a", "a/.", "nul\0", "x" * 1025, ""])
def test_hostile_keys_are_refused(key: str) -> None:
    source, destination = Listing(TREE), FakeStore()
    source.extra = (Entry(key, 3),)
    with pytest.raises(CopyError) as caught:
        copied(source, destination)
    assert isinstance(caught.value.__cause__, InvalidKeyError)
    report = copied(source, destination, on_error="continue")
    # What the key seems to lie below counts as incomplete.
    missing = {failed for failed, _ in report.failed}
    assert {key, "zarr.json"} <= missing <= {key, "zarr.json", "a/zarr.json"}
    assert contents(destination) == {key: data for key, data in TREE.items() if key not in missing}
    assert all(call.key in TREE for call in source.calls if call.operation == "fetch")


def test_folder_markers_in_any_spelling_are_counted_and_not_copied() -> None:
    source, destination = Listing(TREE), FakeStore()
    source.extra = (Entry("a/", 0), Entry("g", 0))
    report = copied(source, destination)
    assert report.folder_markers == 2
    assert contents(destination) == TREE


def test_a_source_of_folder_markers_only_is_empty() -> None:
    source = Listing()
    source.extra = (Entry("a/", 0), Entry("g", 0))
    with pytest.raises(NodeNotFoundError):
        copied(source, FakeStore())


def test_an_object_that_was_erased_after_the_listing_is_reported() -> None:
    source, destination = Listing(TREE), FakeStore()
    source.extra = (Entry("a/c/gone", 5),)
    report = copied(source, destination, on_error="continue")
    errors = dict(report.failed)
    assert isinstance(errors["a/c/gone"], ChangedError)
    assert set(errors) == {"a/c/gone", "a/zarr.json", "zarr.json"}
    assert contents(destination)["g/b/zarr.json"] == TREE["g/b/zarr.json"]


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("data", [b"", b"now shorter", b"y" * 5000, b"x" * 2999 + b"y"])
def test_an_object_that_is_replaced_after_the_listing_is_copied_in_its_present_state(
    versions: bool, data: bytes
) -> None:
    source, destination = FakeStore({"c/0": b"x" * 3000}, versions=versions), FakeStore()
    source.faults = before(2, lambda: source.memory.set_now("c/0", data))
    report = copied(source, destination, settings=Settings(max_request_bytes=1024))
    assert contents(destination) == {"c/0": data}
    if versions or len(data) != 3000:
        assert report.changed == ("c/0",)
    assert report.bytes == len(data)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_an_object_that_is_replaced_between_its_parts_is_never_mixed(number: int) -> None:
    source, destination = FakeStore({"c/0": b"x" * 4000}), FakeStore()
    source.faults = before(number, lambda: source.memory.set_now("c/0", b"y" * 4000))
    report = copied(source, destination, settings=Settings(max_requests=1, max_request_bytes=1000))
    assert contents(destination) == {"c/0": b"y" * 4000}
    assert report.changed == ("c/0",)


def test_an_object_that_keeps_changing_is_copied_by_one_request_and_reported() -> None:
    source, destination = FakeStore({"c/0": b"x" * 4000}), FakeStore()

    def replaced(_: object) -> None:
        source.memory.set_now("c/0", b"y" * 4000)

    source.faults = replaced
    report = copied(source, destination, settings=Settings(max_request_bytes=1000))
    assert contents(destination) == {"c/0": b"y" * 4000}
    assert report.changed == ("c/0",)


def cut(value: Value, *, keep_size: bool) -> Value:
    data = bytes(value.data)[:-1]
    return replace(value, data=data, size=value.size if keep_size else len(data))


@pytest.mark.parametrize("keep_size", [True, False])
def test_a_truncated_response_is_fetched_again(keep_size: bool) -> None:
    source, destination = FakeStore(TREE), FakeStore()
    source.faults = on_key("a/c/3", Corrupt(lambda value: cut(value, keep_size=keep_size)), times=2)
    report = copied(source, destination)
    assert contents(destination) == TREE
    assert report.changed == ()


@pytest.mark.parametrize("keep_size", [True, False])
def test_always_truncated_responses_are_an_error_not_a_short_object(keep_size: bool) -> None:
    source, destination = FakeStore(TREE), FakeStore()
    source.faults = on_key("a/c/3", Corrupt(lambda value: cut(value, keep_size=keep_size)))
    report = copied(source, destination, on_error="continue")
    assert isinstance(dict(report.failed)["a/c/3"], ShortReadError)
    assert "a/c/3" not in contents(destination)


class Damaging(FakeStore):
    """A store that keeps other bytes than it is given, for the first `times` writes of a key."""

    times = 1
    shorten = False

    async def set(self, key: str, value: Any, *, precondition: Any = None) -> Any:
        if key == "a/c/5" and self.times:
            self.times -= 1
            value = bytes(value)[:-1] + (b"" if self.shorten else b"?")
        return await super().set(key, value, precondition=precondition)


@pytest.mark.parametrize("shorten", [True, False])
def test_checksums_find_damaged_objects_and_write_them_again(shorten: bool) -> None:
    destination = Damaging()
    destination.shorten = shorten
    report = copied(FakeStore(TREE), destination, verify="checksum", settings=Settings(max_request_bytes=4))
    assert contents(destination) == TREE
    assert report.failed == ()


def test_checksums_refuse_a_destination_that_always_damages() -> None:
    destination = Damaging()
    destination.times = 100
    with pytest.raises(CopyError) as caught:
        copied(FakeStore(TREE), destination, verify="checksum")
    assert isinstance(caught.value.__cause__, ChecksumError)


def test_a_foreign_exception_of_a_store_fails_one_object_only() -> None:
    destination = FakeStore(faults=on_key("a/c/1", ZeroDivisionError("odd")))
    report = copied(FakeStore(TREE), destination, on_error="continue")
    assert isinstance(dict(report.failed)["a/c/1"], ZeroDivisionError)
    assert "g/b/zarr.json" in contents(destination)


def test_an_error_during_any_call_leaves_whole_objects_and_no_node_without_its_chunks() -> None:
    calls = copied(FakeStore(TREE), FakeStore()).requests // 2
    for plan_of in (lambda number: (None, number), lambda number: (number, None)):
        for number in range(1, calls + 1):
            source_at, destination_at = plan_of(number)
            source, destination = FakeStore(TREE), FakeStore()
            if source_at is not None:
                source.faults = any_of(lambda call, at=source_at: StoreError("down") if call.number > at else None)
            if destination_at is not None:
                destination.faults = any_of(
                    lambda call, at=destination_at: StoreError("down") if call.number >= at else None
                )
            with pytest.raises(CopyError):
                copied(source, destination, settings=Settings(max_requests=2))
            assert_sound(contents(destination))


def assert_sound(stored: dict[str, bytes]) -> None:
    """All objects are whole, and below each document everything is there."""
    assert all(TREE[key] == data for key, data in stored.items())
    for key in stored:
        if key.endswith("zarr.json"):
            prefix = key.removesuffix("zarr.json")
            assert {below for below in TREE if below.startswith(prefix)} <= stored.keys()


# --- cancellation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(0, 120, 5))
@pytest.mark.parametrize("make", [FakeStore, Damaging])
def test_a_cancelled_copy_leaves_no_requests_and_only_whole_objects(step: int, make: Callable[..., FakeStore]) -> None:
    source, destination = FakeStore(TREE, page_size=4), make(latency=0.007)

    async def scenario() -> None:
        settings = Settings(max_requests=2, max_request_bytes=3, max_bytes_in_flight=8)
        task = asyncio.ensure_future(run(source, destination, verify="checksum", settings=settings))
        await asyncio.sleep(step / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.in_flight == destination.in_flight == 0
        calls = source.count + destination.count
        await asyncio.sleep(10)
        assert source.count + destination.count == calls
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(scenario())
    stored = contents(destination)
    stored.pop("a/c/5", None)
    assert "zarr.json" not in stored
    assert all(TREE[key] == data for key, data in stored.items())


@in_virtual_time
async def test_a_cancelled_copy_releases_its_budget() -> None:
    source, destination = FakeStore(TREE), FakeStore()

    engine = Engine(asyncio.get_running_loop(), InlinePool())
    operation = copy_operation(engine, source, unlisted(destination), RULES, settings=Settings(max_requests=3))
    task = asyncio.ensure_future(operation.run())
    await asyncio.sleep(0.025)
    task.cancel()
    await asyncio.wait([task])
    for store in (source, destination):
        budget = engine.state.queues.of(store.origin).budget
        assert (budget.in_flight, budget.bytes_in_flight, budget.limit) == (0, 0, 64)


def test_concurrent_copies_of_one_source_are_independent() -> None:
    source, one, other = FakeStore(TREE, faults=first(2, ThrottledError("slow"))), FakeStore(), FakeStore()

    async def scenario() -> None:
        engine = Engine(asyncio.get_running_loop(), InlinePool())
        settings = Settings(max_requests=4, max_bytes_in_flight=10)
        operations = [copy_operation(engine, source, unlisted(each), RULES, settings=settings) for each in (one, other)]
        await asyncio.gather(*[operation.run() for operation in operations])

    run_virtual(scenario())
    assert contents(one) == contents(other) == TREE
