"""The encoding of objects that a write changes: fill values, cropped chunks, and inner chunks in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aiozarr.engine.encoder as encoder_module
from aiozarr.engine import Write
from aiozarr.engine.encoder import ChangedShard, ObjectEncoder, assemble_shard
from aiozarr.engine.layout import ArrayLayout
from aiozarr.errors import CodecError
from aiozarr.grid.advanced import select_pointwise
from aiozarr.grid.projection import ChunkSelection
from aiozarr.grid.transform import IndexTransform
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, layout_of, read_all, sample

LAYOUT = layout_of((6,), (4,), fill_value=7)
CHECKED = layout_of((6,), (4,), fill_value=7, codecs=[*RAW, {"name": "crc32c"}])


def chunks_of(layout: ArrayLayout, *selection: Any) -> list[ChunkSelection]:
    """The chunks that a write of `array[selection]` changes."""
    transform = IndexTransform.identity(layout.metadata.shape).select(selection)
    store: Any = None
    return list(Write(layout, store, "", transform.maps, np.zeros(())).parts)


def encode(
    encoder: ObjectEncoder, part: ChunkSelection, data: bytes | None, *, can_erase: bool = False
) -> list[int] | None:
    encoded = encoder.encode_chunk(encoder.layout.object_of(part), part, data, can_erase=can_erase)
    return None if encoded is None else np.frombuffer(encoded, "<i4", count=4).tolist()


def stored(*values: int) -> bytes:
    return np.array(values, "<i4").tobytes()


def test_values_are_written_into_the_stored_chunk_or_into_fill_values() -> None:
    (part,) = chunks_of(LAYOUT, slice(1, 3))
    encoder = ObjectEncoder(LAYOUT, np.array([1, 2], "<i4"), stores_empty=None)
    assert encode(encoder, part, stored(4, 5, 6, 8)) == [4, 1, 2, 8]
    assert encode(encoder, part, None) == [7, 1, 2, 7]


@pytest.mark.parametrize(
    ("stores_empty", "data", "can_erase", "result"),
    [
        (None, None, False, None),
        (True, None, False, [7] * 4),
        (None, stored(7, 1, 1, 7), True, None),
        (None, stored(7, 1, 1, 7), False, [7] * 4),  # it cannot be erased, and must not be read again
    ],
)
def test_chunks_of_fill_values_are_stored_only_if_wanted_or_in_place_of_others(
    stores_empty: bool | None, data: bytes | None, can_erase: bool, result: list[int] | None
) -> None:
    (part,) = chunks_of(LAYOUT, slice(1, 3))
    encoder = ObjectEncoder(LAYOUT, np.array([7, 7], "<i4"), stores_empty=stores_empty)
    assert encode(encoder, part, data, can_erase=can_erase) == result


def test_a_chunk_that_was_stored_without_its_part_outside_of_the_array_is_completed() -> None:
    (part,) = chunks_of(LAYOUT, slice(5, 6))
    encoder = ObjectEncoder(LAYOUT, np.array([1], "<i4"), stores_empty=None)
    assert encode(encoder, part, stored(4, 5)) == [4, 1, 7, 7]
    with pytest.raises(CodecError):
        encode(encoder, part, stored(4, 5, 6))


def test_a_chunk_of_a_wrong_checksum_is_not_taken_for_a_cropped_one() -> None:
    (part,) = chunks_of(CHECKED, slice(5, 6))
    encoder = ObjectEncoder(CHECKED, np.array([1], "<i4"), stores_empty=None)
    with pytest.raises(CodecError, match="crc32c"):
        encode(encoder, part, bytes(20))


@pytest.mark.parametrize(("group_bytes", "calls"), [(encoder_module.INNER_GROUP_BYTES, 1), (32, 4), (1, 8)])
async def test_inner_chunks_are_encoded_in_groups(
    group_bytes: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_module, "INNER_GROUP_BYTES", group_bytes)
    layout = layout_of((32,), (32,), inner=(4,))
    (part,) = chunks_of(layout, ...)
    whole, values = layout.object_of(part), np.arange(1, 33, dtype="<i4")
    limit = asyncio.Semaphore(1)
    locked: list[bool] = []

    async def call(function: Callable[[], Any], weight: int = 0) -> Any:
        locked.append(limit.locked())
        return function()

    encoder = ObjectEncoder(layout, values, stores_empty=None)
    changed = dict(await encoder.encode_inner_chunks(whole, part, ChangedShard(None, {}), call, limit))
    assert locked == [calls > 1] * calls
    data = assemble_shard(whole, changed, None)
    assert data is not None
    assert whole.pipeline.decode(data).tolist() == values.tolist()


@in_virtual_time
async def test_elements_outside_of_an_index_array_with_repetitions_are_unchanged() -> None:
    array, store, writer = await sample((4, 4), (4, 4), fill_value=5)
    await writer.write(array.write(array.values), settings=SETTINGS)
    store.memory.erase_now("a/c/0/0")
    places = np.zeros(16, np.int64)
    transform = select_pointwise(IndexTransform.identity((4, 4)), (places, places))
    write = Write(array.layout, store, "a/", transform.maps, np.arange(16))
    await writer.write(write, settings=SETTINGS)
    expected = np.full((4, 4), 5)
    expected[0, 0] = 15
    assert np.array_equal(await read_all(writer, array), expected)
