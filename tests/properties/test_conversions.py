"""Any array, converted to any format, layout and compression holds the same elements."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import assume, given
from hypothesis import strategies as st

import aiozarr
from aiozarr.errors import MetadataError
from aiozarr.stores import MemoryStore
from tests.support.expected_arrays import initial
from tests.support.peer_cases import AnyArray, examples
from tests.support.strategies.arrays import NewArray, chunk_shapes, new_arrays, v1_arrays, v2_arrays, v3_arrays
from tests.support.strategies.elements import number_elements, same_elements

# zarr-python warns of codecs that it calls experimental; a fill value cast to another type may overflow.
pytestmark = pytest.mark.filterwarnings("ignore")


async def written(target: Any, new: NewArray, data: st.DataObject) -> AnyArray:
    """Create the array and write part of it; return what it holds."""
    array = await aiozarr.create_array(target, **new.options)
    model = await initial(array, new)
    stop = data.draw(st.integers(0, new.shape[0]), "written") if new.shape else 1
    part = (slice(0, stop),) if new.shape else ()
    values = data.draw(new.contents(model[(*part, ...)].shape))
    model[(*part, ...)] = values
    await array[(*part, ...)].write(values)
    return model


def layouts(data: st.DataObject, shape: tuple[int, ...], zarr_format: int) -> dict[str, Any]:
    """Chunks and shards of a result, or none to keep those of the source."""
    options: dict[str, Any] = {"zarr_format": zarr_format}
    chunks = data.draw(st.none() | st.just("auto") | chunk_shapes(shape), "chunks")
    options["chunks"] = chunks
    if isinstance(chunks, tuple) and zarr_format == 3:
        factors = data.draw(st.none() | st.tuples(*[st.integers(1, 3)] * len(shape)), "shards")
        options["shards"] = None if factors is None else tuple(np.multiply(chunks, factors).tolist())
    return options


@given(new_arrays(), st.sampled_from([3, 3, 2, 1]), st.data())
@examples(120)
async def test_a_converted_array_holds_the_same_elements(new: NewArray, zarr_format: int, data: st.DataObject) -> None:
    source, result = MemoryStore(), MemoryStore()
    model = await written(source, new, data)
    options = layouts(data, new.shape, zarr_format)
    memory = data.draw(st.sampled_from([1 << 12, 1 << 14, 1 << 20]), "memory")
    try:
        plan = await aiozarr.plan_conversion(source, result, **options, max_memory=memory, max_amplification=1.5)
    except (MetadataError, aiozarr.LimitError):
        assume(False)  # a format lacks the type, or the memory is less than one object
    except TypeError as error:
        if "only Zarr format 3" not in str(error):
            raise
        assume(False)  # lists of lengths
    report = await aiozarr.convert(source, result, **options, max_memory=memory, max_amplification=1.5)
    assert report.tasks == sum(stage.tasks for stage in plan.stages)
    assert all(stage.memory <= memory for stage in plan.stages)
    array = await aiozarr.open_array(result)
    assert array.zarr_format == zarr_format
    assert same_elements(await array[...], model)
    assert not [entry.key async for entry in result.scan("__aiozarr__/")]


@given(
    st.one_of(
        v3_arrays(elements=number_elements(), listed=False),
        v2_arrays(elements=number_elements()),
        v1_arrays(elements=number_elements()),
    ),
    st.sampled_from([3, 2]),
    st.data(),
)
@examples(40)
async def test_zarr_python_reads_what_was_converted(new: NewArray, zarr_format: int, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        model = await written(Path(folder) / "source", new, data)
        codecs = data.draw(st.sampled_from([["zstd"], ["blosc"], "auto", []]), "codecs")
        options = layouts(data, new.shape, zarr_format)
        try:
            await aiozarr.convert(Path(folder) / "source", Path(folder) / "result", **options, codecs=codecs)
        except MetadataError:
            assume(False)  # narrow types, which format 2 lacks
        assume(model.dtype.isbuiltin == 1)  # zarr-python has no types of ml_dtypes
        found = zarr.open_array(Path(folder) / "result", mode="r")[...]
        assert same_elements(np.asarray(found).astype(model.dtype), model)
