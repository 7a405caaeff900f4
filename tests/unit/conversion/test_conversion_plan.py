from __future__ import annotations

import numpy as np

import aiozarr
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore


async def source(name: str = "a", store: MemoryStore | FakeStore | None = None) -> MemoryStore | FakeStore:
    store = MemoryStore() if store is None else store
    group = await aiozarr.create_group(store)
    values = np.zeros((64, 64, 64), "f4")
    await group.create_array(name, data=values, chunks=(1, 64, 64), dimension_names=["t", "y", "x"])
    return store


async def test_a_plan_reads_metadata_alone_and_says_what_will_be_done() -> None:
    store = await source(store=FakeStore(latency=0))
    assert isinstance(store, FakeStore)
    store.reset()
    plan = await aiozarr.plan_conversion(store, MemoryStore(), chunks={"t": -1, "x": 8})
    assert not [key for key, _ in store.log() if key.startswith("a/c/")]
    (stage,) = plan.stages
    assert (stage.array, stage.shape, stage.objects, stage.number, stage.stages) == ("a", (64,) * 3, (64, 64, 8), 0, 1)
    assert plan.nbytes == plan.bytes_read == 4 * 64**3
    assert plan.requests == 64 + 8
    assert (plan.arrays, plan.groups) == (1, 1)
    assert len(list(plan.tasks())) == stage.tasks == 1


async def test_a_plan_prints_a_row_per_stage_and_escapes_names_in_notebooks() -> None:
    plan = await aiozarr.plan_conversion(
        await source("<b>"), MemoryStore(), chunks={"t": -1, "x": 8, "y": 8}, max_memory=200_000
    )
    lines = str(plan).splitlines()
    assert lines[0].endswith(plan.destination)
    assert lines[2].split()[:4] == ["array", "stage", "shape", "objects"]
    assert [line.split()[:3] for line in lines[3:]] == [
        ["<b>", f"{number + 1}/{len(plan.stages)}", "64×64×64"] for number in range(len(plan.stages))
    ]
    assert "&lt;b&gt;" in plan._repr_html_()
    assert "<b>" not in plan._repr_html_()
