"""The outcome of a request for one stored object: which statuses mean missing, and which are errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiozarr.errors import (
    PermissionDeniedError,
    UnauthenticatedError,
)
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, sample


@in_virtual_time
async def test_a_status_that_settings_call_missing_reads_as_the_fill_value() -> None:
    array, store, reader = await sample((4, 2), (1, 2), fill_value=9)
    store.faults = lambda call: PermissionDeniedError("no", status=403) if call.key == "a/c/1/0" else None
    read = array.read(...)
    await reader.read([read], settings=replace(SETTINGS, missing_status=(404, 403)))
    assert read.out.tolist() == [[1, 2], [9, 9], [5, 6], [7, 8]]


@in_virtual_time
async def test_credentials_that_are_not_accepted_are_never_taken_for_a_missing_chunk() -> None:
    array, store, reader = await sample((4, 2), (1, 2), fill_value=9)
    store.faults = lambda call: UnauthenticatedError("no such key", status=403)
    with pytest.raises(UnauthenticatedError):
        await reader.read([array.read(...)], settings=replace(SETTINGS, missing_status=(404, 403)))
