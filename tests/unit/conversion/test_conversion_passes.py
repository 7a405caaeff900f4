from __future__ import annotations

import numpy as np

import aiozarr
from aiozarr.stores import MemoryStore


async def source() -> MemoryStore:
    store = MemoryStore()
    await aiozarr.create_array(store, data=np.zeros((64, 64, 64), "f4"), chunks=(1, 64, 64))
    return store


async def test_equal_plans_have_equal_fingerprints_and_others_do_not() -> None:
    store, result = await source(), MemoryStore()

    async def fingerprint(**options: object) -> str:
        plan = await aiozarr.plan_conversion(store, result, **options)  # type: ignore[arg-type]
        return plan.fingerprint()

    assert await fingerprint(chunks=8) == await fingerprint(chunks=8)
    different = [await fingerprint(chunks=8), await fingerprint(chunks=16), await fingerprint(chunks=8, dtype="f8")]
    assert len(set(different)) == 3


async def test_tasks_of_one_stage_are_numbered_and_disjoint() -> None:
    plan = await aiozarr.plan_conversion(await source(), MemoryStore(), chunks=8, max_memory=300_000)
    assert len(plan.stages) >= 1
    for number, stage in enumerate(plan.stages):
        tasks = list(plan.tasks(number))
        assert [task.number for task in tasks] == list(range(stage.tasks))
        assert len({task.region for task in tasks}) == stage.tasks
        assert sum(task.nbytes for task in tasks) == stage.nbytes
