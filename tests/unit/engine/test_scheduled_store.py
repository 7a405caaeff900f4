"""Operations on single keys: retried, bounded, cancelled and counted like all other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from aiozarr.errors import ChangedError, LimitError, PreconditionFailedError, StoreError
from aiozarr.http1.request import BodyReader
from aiozarr.model import IfAbsent, Range, Version
from aiozarr.schedule.events import Report
from aiozarr.stores.capabilities import UploadedPart, UploadStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import LoseResponse, first, nth
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.bodies import BytesBody
from tests.support.engine_samples import SETTINGS, engine


@in_virtual_time
async def test_a_temporary_failure_is_retried_and_counted() -> None:
    store, one, report = FakeStore(), engine(), Report()
    store.memory.set_now("k", b"value")
    store.faults = first(2, StoreError("busy", retryable=True))
    value = await one.scheduled(store, SETTINGS, report).fetch("k")
    assert value is not None
    assert bytes(value.data) == b"value"
    assert (report.requests, report.retries) == (3, 2)
    assert one.idle()


@in_virtual_time
async def test_no_more_than_one_byte_beyond_the_limit_is_fetched() -> None:
    store, one = FakeStore(), engine()
    store.memory.set_now("k", bytes(100))
    with pytest.raises(LimitError) as caught:
        await one.scheduled(store, SETTINGS).fetch("k", max_bytes=10)
    assert (caught.value.value, caught.value.allowed) == (100, 10)
    assert store.log() == [("k", None)]  # the store bounds the read itself

    plain = FakeStore(supports=replace(store.supports, bounded_reads=False))
    plain.memory.set_now("k", bytes(100))
    with pytest.raises(LimitError):
        await one.scheduled(plain, SETTINGS).fetch("k", max_bytes=10)
    assert plain.log() == [("k", Range(0, 11))]


@in_virtual_time
async def test_a_write_whose_response_was_lost_succeeds_if_its_bytes_are_stored() -> None:
    store, one = FakeStore(), engine()
    store.faults = nth(1, LoseResponse(StoreError("reset", retryable=True)))
    version = await one.scheduled(store, SETTINGS).set("k", b"mine", precondition=IfAbsent())
    found = store.memory.fetch_now("k")
    assert found is not None
    assert (bytes(found.data), found.version) == (b"mine", version)
    with pytest.raises(PreconditionFailedError):
        await one.scheduled(store, SETTINGS).set("k", b"mine", precondition=IfAbsent())
    assert one.idle()


@in_virtual_time
async def test_a_cancelled_operation_leaves_nothing_in_flight_whether_it_was_sent_or_waits() -> None:
    store, one = FakeStore(latency=1.0), engine()
    scheduled = one.scheduled(store, replace(SETTINGS, max_requests=1))
    sent, waiting = [asyncio.ensure_future(scheduled.stat(key)) for key in ("a", "b")]
    await asyncio.sleep(0.5)
    assert not one.idle()
    for task in (waiting, sent):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert one.idle()
    assert store.count == 1


class PartsStore(FakeStore, UploadStore):
    """A store that takes objects in parts of 10 bytes. A step fails with the next of its `errors`, after its effect."""

    def __init__(self, **errors: list[StoreError]) -> None:
        super().__init__()
        self.errors = errors
        self.parts: dict[int, bytes] = {}
        self.steps: list[str] = []

    async def _step(self, name: str) -> None:
        self.steps.append(name)
        await asyncio.sleep(0.01)
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    def can_upload(self, nbytes: int) -> bool:
        return True

    def upload_part_bytes(self, nbytes: int) -> int | None:
        return 10 if nbytes > 10 else None

    async def _read(self, body: BodyReader) -> bytes:
        memory = bytearray(body.nbytes)
        await body.read_into(0, memoryview(memory))
        return bytes(memory)

    async def upload(self, key: str, body: BodyReader) -> Version | None:
        version = self.memory.set_now(key, await self._read(body))
        await self._step("upload")
        return version

    async def begin_parts(self, key: str) -> str:
        await self._step("begin")
        return "id"

    async def upload_part(self, key: str, upload_id: str, number: int, body: BodyReader) -> UploadedPart:
        assert upload_id == "id"
        self.parts[number] = await self._read(body)
        await self._step("part")
        return UploadedPart(str(number))

    async def complete_parts(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> Version | None:
        if not self.parts:
            raise StoreError("no such upload", status=404)
        data = b"".join([self.parts[int(part.etag)] for part in parts])
        self.parts.clear()
        version = self.memory.set_now(key, data)
        await self._step("complete")
        return version

    async def abort_parts(self, key: str, upload_id: str) -> None:
        self.parts.clear()
        await self._step("abort")


def busy() -> StoreError:
    return StoreError("busy", retryable=True)


@in_virtual_time
async def test_each_part_of_an_upload_is_a_request_of_its_own() -> None:
    store, one, report = PartsStore(part=[busy(), busy()], upload=[busy()]), engine(), Report()
    scheduled = one.scheduled(store, SETTINGS, report)
    for nbytes in (10, 205):
        body = BytesBody(nbytes)
        version = await scheduled.upload("k", body)
        found = store.memory.fetch_now("k")
        assert found is not None
        assert (bytes(found.data), found.version) == (body.data, version)
    assert [store.steps.count(step) for step in ("upload", "begin", "part", "complete", "abort")] == [2, 1, 23, 1, 0]
    assert (report.requests, report.retries, report.bytes_written) == (2 + 1 + 23 + 1, 3, 215)
    assert one.idle()


@in_virtual_time
async def test_a_completion_whose_response_was_lost_has_succeeded() -> None:
    store, one = PartsStore(complete=[busy()]), engine()
    body = BytesBody(25)
    version = await one.scheduled(store, SETTINGS).upload("k", body)
    found = store.memory.fetch_now("k")
    assert found is not None
    assert (bytes(found.data), found.version) == (body.data, version)


@pytest.mark.parametrize("step", ["part", "complete"])
@in_virtual_time
async def test_the_parts_of_a_failed_upload_are_removed(step: str) -> None:
    store, one = PartsStore(**{step: [StoreError("full")]}), engine()
    with pytest.raises(StoreError, match="full"):
        await one.scheduled(store, SETTINGS).upload("k", BytesBody(25))
    assert not store.parts
    assert store.steps[-1] == "abort"
    assert one.idle()


@in_virtual_time
async def test_the_parts_of_a_cancelled_upload_are_removed() -> None:
    store, one = PartsStore(), engine()
    task = asyncio.ensure_future(one.scheduled(store, SETTINGS).upload("k", BytesBody(205)))
    while not store.parts:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not store.parts
    assert store.steps[-1] == "abort"
    assert store.memory.fetch_now("k") is None
    assert one.idle()


@in_virtual_time
async def test_a_body_that_changes_ends_the_upload_at_once() -> None:
    class Changed(BytesBody):
        async def read_into(self, start: int, memory: memoryview) -> None:
            raise ChangedError("the file was changed")

    store, one = PartsStore(), engine()
    with pytest.raises(ChangedError):
        await one.scheduled(store, SETTINGS).upload("k", Changed(10))
    assert (store.steps, store.memory.fetch_now("k")) == ([], None)
