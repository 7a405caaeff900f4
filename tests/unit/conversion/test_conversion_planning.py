from __future__ import annotations

from math import prod

import numpy as np
import pytest

import aiozarr
from aiozarr.conversion.conversion_planning import ConversionPlanner, has_renamed_attributes
from aiozarr.conversion.options import ConversionOptions
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore


def planner(max_memory: int) -> ConversionPlanner:
    options = ConversionOptions(max_memory=max_memory)
    return ConversionPlanner(MemoryStore(), MemoryStore(), options, Settings(on_event=print))


def test_memory_is_divided_between_values_and_requests_in_flight() -> None:
    assert planner(400 << 20).task_bytes == 300 << 20
    assert planner(400 << 20).task_settings.max_bytes_in_flight == 100 << 20
    assert planner(1).task_settings.max_bytes_in_flight == 1 << 20
    assert planner(1).task_settings.on_event is None


async def test_a_cast_counts_values_of_both_types() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, data=np.zeros(100, "i2"))
    one = await aiozarr.plan_conversion(store, MemoryStore())
    both = await aiozarr.plan_conversion(store, MemoryStore(), dtype="f8")
    assert (one.stages[0].memory, both.stages[0].memory) == (200, 1000)


async def test_a_stored_object_larger_than_the_memory_is_refused_with_what_to_do() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, data=np.zeros(100), chunks=10)
    with pytest.raises(aiozarr.LimitError, match="smaller chunks or shards") as caught:
        await aiozarr.plan_conversion(store, MemoryStore(), chunks=100, max_memory=800)
    assert (caught.value.limit, caught.value.value, caught.value.allowed) == ("max_memory", 800, 600)


async def test_attributes_that_change_are_known_beforehand() -> None:
    store = MemoryStore()
    group = await aiozarr.create_group(store, zarr_format=2, attributes={"a": float("nan")})
    array = await group.create_array("x", shape=1, dtype="i1", dimension_names=["t"])
    assert has_renamed_attributes(group, 3)
    assert not has_renamed_attributes(group, 2)
    assert not has_renamed_attributes(array, 3)


async def test_intermediate_arrays_are_compressed_as_far_as_the_codec_takes_their_objects() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, shape=(4096,) * 3, dtype="f4", chunks=(1, 4096, 4096))
    chains = {}
    for max_memory in (1 << 30, 64 << 30):
        plan = await aiozarr.plan_conversion(store, MemoryStore(), chunks=(4096, 8, 8), max_memory=max_memory)
        stage, documents = plan.stages[0], plan._passes[0].documents
        assert stage.stages > 1
        chains[4 * prod(stage.objects) > 1 << 30] = [codec.name for codec in documents.codecs]
    assert chains == {False: ["bytes", "blosc"], True: ["bytes"]}
