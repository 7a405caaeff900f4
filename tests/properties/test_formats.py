"""Arrays of every format, type, codec, grid and key encoding hold what is written to them, in every store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from aiozarr.stores import ZipStore
from aiozarr.testing.fakes import FakeStore
from tests.support.expected_arrays import boxed, initial
from tests.support.numpy_indexing import places_of, selected, steps
from tests.support.peer_cases import AnyArray, examples
from tests.support.strategies.arrays import NewArray, new_arrays
from tests.support.strategies.elements import same_elements

PLACES = ("memory", "disk", "zip", "asynchronous", "without conditions")
# Stores that check no conditions say so once; what a resize may bring back is said too.
pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def new_target(place: str) -> Iterator[Any]:
    with TemporaryDirectory() as folder:
        match place:
            case "memory":
                yield f"memory://{uuid.uuid4()}"
            case "disk":
                yield folder
            case "zip":
                yield ZipStore(Path(folder) / "array.zip", mode="w")
            case _:
                yield FakeStore(latency=0, versions=place == "asynchronous")


@given(new_arrays(), st.sampled_from(PLACES), st.data())
@examples(150)
async def test_an_array_equals_its_model_after_any_changes(new: NewArray, place: str, data: st.DataObject) -> None:
    with new_target(place) as target:
        array = await aiozarr.create_array(target, **new.options)
        model = await initial(array, new)
        for _ in range(data.draw(st.integers(1, 3), "changes")):
            model = await change(array, model, new, data)
            assert same_elements(await array[...], model)
        # An archive is read only when it has been closed.
        again = array if place == "zip" else await aiozarr.open_array(array.store)
        chain = data.draw(steps(model.shape), "view")
        found = await selected(again, chain)
        expected = model.reshape(-1)[places_of(model.shape, chain)]
        assert same_elements(boxed(found, model.dtype), boxed(expected, model.dtype))
        await check_fields(again, model)
        await array.store.aclose()
        if place == "zip":
            with aiozarr.sync.open_array(Path(array.store.path)) as closed:
                assert same_elements(closed[...], model)


async def change(array: aiozarr.Array, model: AnyArray, new: NewArray, data: st.DataObject) -> AnyArray:
    """Write to a selection, append, or shrink the array; return what it holds now."""
    how = data.draw(st.sampled_from(["write", "write", "append", "shrink"]), "change")
    if how == "append" and model.ndim:
        axis = data.draw(st.integers(0, model.ndim - 1))
        shape = list(model.shape)
        shape[axis] = data.draw(st.integers(0, 3))
        added = data.draw(new.contents(tuple(shape)))
        await array.append(added, axis)
        return np.concatenate([model, added], axis)
    if how == "shrink":
        shape = data.draw(st.tuples(*[st.integers(0, n) for n in model.shape]))
        await array.resize(shape, clear=True)
        return np.array(model[(*map(slice, shape), ...)])
    chain = data.draw(steps(model.shape), "written")
    places = places_of(model.shape, chain)
    values = data.draw(new.contents(places.shape))
    await selected(array, chain).write(values)
    changed = model.copy()
    # One after the other: of repeated elements the last value stays.
    for place, value in zip(places.reshape(-1), values.reshape(-1), strict=True):
        changed.reshape(-1)[place] = value
    return changed


async def check_fields(array: aiozarr.Array, model: AnyArray) -> None:
    for name in model.dtype.names or ():
        assert same_elements(np.ascontiguousarray(await array[name]), np.ascontiguousarray(model[name]))
