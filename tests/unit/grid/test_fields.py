"""Fields of structured elements, including sub-arrays, to and from chunks and shards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.errors import SelectionError
from aiozarr.grid.advanced import select_pointwise
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.chunk_grid import count_chunks, project
from aiozarr.grid.fields import Fields
from aiozarr.grid.transform import IndexTransform

DTYPE = np.dtype([("a", "i4"), ("pos", "i4", (2, 3)), ("n", [("x", "i2"), ("y", "u1", (2,))], (4,))])
SHAPE, CHUNKS, SHARDS = (7, 5), (2, 2), (4, 4)


def values() -> np.ndarray[Any, Any]:
    array = np.zeros(SHAPE, DTYPE)
    for name in ("a", "pos"):
        array[name] = np.arange(array[name].size).reshape(array[name].shape)
    array["n"]["x"] = np.arange(array["n"]["x"].size).reshape(array["n"]["x"].shape)
    array["n"]["y"] = np.arange(array["n"]["y"].size).reshape(array["n"]["y"].shape)
    return array


def chunk_of(source: np.ndarray[Any, Any], coords: tuple[int, ...]) -> np.ndarray[Any, Any]:
    block = np.zeros(CHUNKS, DTYPE)
    inside = source[tuple(slice(c * n, (c + 1) * n) for c, n in zip(coords, CHUNKS, strict=True))]
    block[tuple(slice(n) for n in inside.shape)] = inside
    return block


def steps(*names: Any) -> Fields:
    fields: Fields | None = None
    dtype = DTYPE
    for name in names:
        fields = Fields.of(dtype, name, fields)
        dtype = fields.dtype
    assert fields is not None
    return fields


def test_fields_have_their_type_and_the_axes_of_their_sub_arrays() -> None:
    for path in (["a"], ["pos"], ["n", "y"], [("pos", "a")]):
        fields = steps(*path)
        expected = fields.view(values())
        assert fields.dtype == expected.dtype
        assert SHAPE + fields.shape == expected.shape
    assert steps("n", "y").shape == (4, 2)


@pytest.mark.parametrize(
    ("path", "selection"),
    [
        (["a"], (slice(1, None, 2), 3)),
        (["pos"], (slice(None), 1, slice(None, None, -1), 2)),
        (["pos"], (..., 0)),
        (["n", "y"], (6, slice(2), slice(1, 3), 1)),
        (["n", "x"], (slice(None), slice(None), 3)),
        ([("a", "pos")], (slice(2, 5),)),
    ],
)
def test_a_selection_of_fields_is_gathered_scattered_filled_and_put(path: list[Any], selection: Any) -> None:
    source, fields = values(), steps(*path)
    transform = IndexTransform.identity(SHAPE).extended(fields.shape).select(selection)
    expected = np.asarray(fields.view(source)[selection])
    check(source, fields, transform, expected)


def test_index_arrays_select_in_sub_arrays() -> None:
    source, fields = values(), steps("pos")
    index = ([6, 0, 6], [4, 1, 4], [0, 1, 1], [2, 2, 0])
    transform = select_pointwise(IndexTransform.identity(SHAPE).extended(fields.shape), index)
    check(source, fields, transform, fields.view(source)[index])


def check(source: Any, fields: Fields, transform: IndexTransform, expected: Any) -> None:
    out = np.zeros(transform.core_shape, fields.dtype)
    filled = np.zeros(transform.core_shape, fields.dtype)
    target = np.zeros(SHAPE, DTYPE)
    seen = 0
    for shard in project(regular_axes(SHARDS, SHAPE), transform.maps, fields):
        assert len(shard.coords) == 2
        for number, part in shard.inner_chunks(regular_axes(CHUNKS, SHARDS)).numbered((2, 2)):
            assert number == np.ravel_multi_index(part.coords, (2, 2))
            coords = tuple(2 * s + c for s, c in zip(shard.coords, part.coords, strict=True))
            chunk = chunk_of(source, coords)
            gathered = part.gather(chunk)
            assert not part.is_complete
            assert gathered.size == part.size
            part.scatter(out, gathered)
            part.fill(filled, source[-1:, -1].reshape(()))
            shape, region, alone = part.rebased()
            block = np.zeros(shape, fields.dtype)
            alone.scatter(block, gathered)
            assert np.array_equal(block, gathered.reshape(shape))
            assert len(region) == len(shape)
            new = np.zeros(CHUNKS, DTYPE)
            part.put(new, part.take(out))
            inside = tuple(slice(c * n, (c + 1) * n) for c, n in zip(coords, CHUNKS, strict=True))
            target[inside] = new[tuple(slice(n) for n in target[inside].shape)]
            seen += 1
    assert np.array_equal(out, expected)
    assert seen == count_chunks(regular_axes(CHUNKS, SHAPE), transform.maps)
    constant = np.zeros(SHAPE, DTYPE)
    constant[...] = source[-1, -1]
    assert np.isin(np.unique(filled), np.unique(fields.view(constant))).all()
    again = np.zeros(transform.core_shape, fields.dtype)
    for part in project(regular_axes(CHUNKS, SHAPE), transform.maps, fields):
        part.scatter(again, part.gather(chunk_of(target, part.coords)))
    assert np.array_equal(again, expected)


def test_an_unknown_field_is_rejected() -> None:
    with pytest.raises(SelectionError, match="no field 'z'; the fields are 'a', 'pos', 'n'"):
        Fields.of(DTYPE, "z")
    with pytest.raises(SelectionError, match="without fields"):
        Fields.of(np.dtype("i4"), "a")
