from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import aiozarr
from aiozarr import Settings
from aiozarr.conversion import ConversionTask
from aiozarr.conversion.conversion_task import (
    RegionBuffers,
    TaskResult,
    portable_error,
    run_task,
)
from aiozarr.stores import MemoryStore

S3 = {"endpoint_url": "http://localhost:9", "key": "k" * 20, "secret": "s" * 40, "region": "us-east-1"}


async def test_a_task_is_pickled_in_less_than_two_kilobytes(tmp_path: Path) -> None:
    await aiozarr.create_array(tmp_path / "a", data=np.ones((4,) * 6), attributes={"long": "x" * 5000})
    settings = Settings(retries=2, max_chunks=10_000, on_event=print)
    plan = await aiozarr.plan_conversion(
        tmp_path / "a", "s3://bucket/" + "b" * 100, chunks=2, settings=settings, destination_options=S3
    )
    (task, *_) = plan.tasks()
    data = pickle.dumps(task)
    assert len(data) < 2000
    assert pickle.loads(data).region == task.region
    assert pickle.loads(data).settings == task.settings
    assert task.settings.on_event is None


async def test_a_task_that_was_not_prepared_says_so() -> None:
    source = MemoryStore()
    await aiozarr.create_array(source, data=np.arange(3))
    plan = await aiozarr.plan_conversion(source, MemoryStore())
    (task,) = plan.tasks()
    assert isinstance(task, ConversionTask)
    with pytest.raises(aiozarr.NodeNotFoundError):
        task.run()
    result = run_task(task)
    assert isinstance(result, aiozarr.NodeNotFoundError)


class ForeignError(Exception):
    def __init__(self, one: object, two: object) -> None:
        super().__init__("text")


def test_errors_travel_without_what_cannot_be_pickled() -> None:
    for error in (aiozarr.StoreError("a", key="k"), TypeError("b"), aiozarr.LimitError("c", limit="d", value=1)):
        error.__cause__ = ForeignError(1, lambda: None)
        portable = portable_error(error)
        assert portable is error
        assert str(pickle.loads(pickle.dumps(portable))) == str(error)
        assert portable.__cause__ is None
    foreign = portable_error(ForeignError(1, 2))
    assert isinstance(foreign, aiozarr.CopyError)
    assert str(foreign) == "ForeignError: text"
    assert isinstance(portable_error(TypeError(lambda: None)), aiozarr.CopyError)


def test_results_are_plain_numbers() -> None:
    assert pickle.loads(pickle.dumps(TaskResult(1, 2, 3, 4))) == (1, 2, 3, 4)


def test_the_memory_of_a_region_is_used_again_but_not_after_an_error() -> None:
    buffers = RegionBuffers()
    with buffers.region((4, 5), np.dtype("f4")) as first:
        assert first is not None
        address = first.ctypes.data
    with buffers.region((3,), np.dtype("i2")) as second:
        assert (second.shape, second.dtype, second.ctypes.data) == ((3,), np.dtype("i2"), address)
        with buffers.region((3,), np.dtype("i2")) as other:
            assert not np.shares_memory(second, other)
    with pytest.raises(KeyError), buffers.region((10**6,), np.dtype("u1")) as lost:
        raise KeyError
    with buffers.region((10**6,), np.dtype("u1")) as third:
        assert not np.shares_memory(lost, third)
