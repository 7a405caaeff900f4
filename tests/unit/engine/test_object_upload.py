"""Uploads in parts: each is a request of its own, and a failed upload leaves none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from aiozarr.errors import ChangedError, PreconditionFailedError, StoreError
from aiozarr.http1.request import BodyReader
from aiozarr.model import IfAbsent, Precondition, Version
from aiozarr.schedule.events import Report
from aiozarr.stores.capabilities import UploadedPart, UploadStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.bodies import BytesBody
from tests.support.engine_samples import SETTINGS, engine


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

    def _can_upload(self, nbytes: int) -> bool:
        return True

    def _upload_part_bytes(self, nbytes: int, *, conditional: bool = False) -> int | None:
        return 10 if nbytes > 10 else None

    async def _read(self, body: BodyReader) -> bytes:
        memory = bytearray(body.nbytes)
        await body.read_into(0, memoryview(memory))
        return bytes(memory)

    async def _upload(self, key: str, body: BodyReader, *, precondition: Precondition | None = None) -> Version | None:
        version = self.memory.set_now(key, await self._read(body), precondition=precondition)
        await self._step("upload")
        return version

    async def _begin_parts(self, key: str) -> str:
        await self._step("begin")
        return "id"

    async def _upload_part(self, key: str, upload_id: str, number: int, body: BodyReader) -> UploadedPart:
        assert upload_id == "id"
        self.parts[number] = await self._read(body)
        await self._step("part")
        return UploadedPart(str(number))

    async def _complete_parts(
        self, key: str, upload_id: str, parts: Sequence[UploadedPart], *, precondition: Precondition | None = None
    ) -> Version | None:
        if not self.parts:
            raise StoreError("no such upload", status=404)
        data = b"".join([self.parts[int(part.etag)] for part in parts])
        self.parts.clear()
        version = self.memory.set_now(key, data, precondition=precondition)
        await self._step("complete")
        return version

    async def _abort_parts(self, key: str, upload_id: str) -> None:
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
    assert store.steps[-1] == "abort"  # which removes the record of the upload


@in_virtual_time
async def test_a_404_of_a_proxy_does_not_prove_that_an_upload_was_completed() -> None:
    store, one = PartsStore(complete=[]), engine()
    store.memory.set_now("k", bytes(25))  # an older object of the same size

    async def refuse(*args: object, **options: object) -> None:
        raise StoreError("a 404 that does not come from the store", status=404, retryable=True)

    store._complete_parts = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreError, match="does not come from the store"):
        await one.scheduled(store, SETTINGS).upload("k", BytesBody(25))


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


@pytest.mark.parametrize("nbytes", [10, 25])
@in_virtual_time
async def test_a_precondition_holds_for_one_request_and_for_parts(nbytes: int) -> None:
    store, one = PartsStore(), engine()
    scheduled = one.scheduled(store, SETTINGS)
    body = BytesBody(nbytes)
    await scheduled.upload("k", body, precondition=IfAbsent())
    with pytest.raises(PreconditionFailedError):
        await scheduled.upload("k", BytesBody(nbytes + 1), precondition=IfAbsent())
    found = store.memory.fetch_now("k")
    assert found is not None
    assert bytes(found.data) == body.data
    assert not store.parts
    assert one.idle()
