"""By default, no door to an array stores a number that its type does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401 - names its types to numpy
import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.hierarchy.casting import LARGE_CAST_BYTES
from aiozarr.stores import MemoryStore

WRONG = np.array([1, 70000, -40000])


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def array(store: MemoryStore) -> sync.Array:
    return sync.create_array(store, shape=3, dtype="int16", chunks=1)


def assign(array: sync.Array, values: Any) -> None:
    array[...] = values


def assign_orthogonal(array: sync.Array, values: Any) -> None:
    array.oindex[[0, 1, 2]] = values


def assign_points(array: sync.Array, values: Any) -> None:
    array.vindex[[0, 1, 2]] = values


def assign_blocks(array: sync.Array, values: Any) -> None:
    array.blocks[:] = values


DOORS: list[Callable[[sync.Array, Any], object]] = [
    assign,
    assign_orthogonal,
    assign_points,
    assign_blocks,
    lambda array, values: array.append(values),
    lambda array, values: array.view[...].write(values),
]


@pytest.mark.parametrize("write", DOORS)
@pytest.mark.parametrize(
    "values", [WRONG, WRONG.tolist(), WRONG.astype("u4"), WRONG.astype(float), WRONG.astype(object)]
)
def test_an_integer_out_of_range_is_refused_before_anything_is_stored(
    array: sync.Array, store: MemoryStore, write: Callable[[sync.Array, Any], object], values: Any
) -> None:
    before = sync.open_array(store).shape
    with pytest.raises(OverflowError, match=r"the value 70000(\.0)? at \(1,\).* out of range for int16"):
        write(array, values)
    assert sync.open_array(store).shape == before
    assert not [key for key in list_keys(store) if key.startswith("c/")]


def list_keys(store: MemoryStore) -> list[str]:
    import asyncio

    return list(asyncio.run(store.list()))


def test_a_scalar_and_a_field_are_refused_as_well(array: sync.Array) -> None:
    with pytest.raises(OverflowError, match="the value 70000, of type int64, is out of range"):
        array[0] = np.int64(70000)
    records = sync.create_array(MemoryStore(), shape=2, dtype=[("a", "i2"), ("b", "f4")])
    with pytest.raises(OverflowError, match=r"70000 at \(1,\)") as caught:
        records[...] = np.array([(1, 0), (70000, 0)], [("a", "i8"), ("b", "f8")])
    assert "field 'a'" in caught.value.__notes__
    with pytest.raises(OverflowError, match=r"1e\+300 at \(1,\)"):
        records["b"] = np.array([0, 1e300])


@pytest.mark.parametrize("casting", ["same_kind", "unsafe"])
def test_the_rules_of_numpy_wrap_as_numpy_does(array: sync.Array, casting: Any) -> None:
    array.view[...].write(WRONG, casting=casting)
    assert array[...].tolist() == [1, 4464, 25536]


def test_data_that_do_not_fit_leave_no_array() -> None:
    store = MemoryStore()
    with pytest.raises(OverflowError, match="70000"):
        sync.create_array(store, data=WRONG, dtype="int16")
    with pytest.raises(ValueError, match="1e\\+300 is not a value of float32"):
        sync.create_array(store, shape=1, dtype="float32", fill_value=1e300)
    assert list_keys(store) == []
    assert np.isinf(sync.create_array(store, shape=1, dtype="float32", fill_value=np.inf).fill_value)


async def test_a_large_cast_runs_in_a_worker_and_names_the_first_index(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from aiozarr.hierarchy import casting, new_metadata

    threads: list[int] = []
    convert = casting.convert_values

    def note(*args: Any, **options: Any) -> Any:
        if args[0].dtype != args[1]:
            threads.append(threading.get_ident())
        return convert(*args, **options)

    monkeypatch.setattr(casting, "convert_values", note)
    values = np.zeros((LARGE_CAST_BYTES // 8 // 100 + 1, 100), "f8").T
    array = await aiozarr.create_array(MemoryStore(), shape=values.shape, dtype="float32")
    values[7, 3] = values[2, 600] = 1e300
    with pytest.raises(OverflowError, match=r"1e\+300 at \(2, 600\)"):
        await array[...].write(values)
    values[...] = 2.5
    await array[...].write(values)
    assert np.array_equal(await array[...], values)
    monkeypatch.setattr(new_metadata, "convert_values", note)
    group = await aiozarr.create_group(MemoryStore())
    await group.create_array("a", data=values, dtype="float32")
    await aiozarr.create_array(MemoryStore(), data=values, dtype="float32", zarr_format=2)
    assert len(threads) == 4
    assert threading.get_ident() not in threads


async def test_a_conversion_names_the_index_in_the_source_and_stores_no_document() -> None:
    source, result = MemoryStore(), MemoryStore()
    values = np.arange(40).reshape(8, 5)
    values[6, 2] = 70000
    await aiozarr.create_array(source, data=values, chunks=(2, 5))
    with pytest.raises(OverflowError, match=r"70000 at \(6, 2\)"):
        await aiozarr.convert(source, result, dtype="int16", region=np.s_[2:])
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open_array(result)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([np.nan]), "int32"),
        (np.array([1e300]), "float32"),
        (np.array([1e300 + 0j]), "complex64"),
        (np.array([1000.0]), "float8_e4m3fn"),
        (np.array([np.nan]), "float4_e2m1fn"),
        (np.array([7.0]), "float4_e2m1fn"),
        (np.array([0.0]), "float8_e8m0fnu"),
        (np.array([-1.0]), "float8_e8m0fnu"),
        (np.array([8]), "int4"),
        (np.array([2**63], "u8"), "int64"),
        (np.array([-1]), "uint64"),
        (np.array([70000]), "float16"),
        (np.array([2], "u1"), "bool"),
        (np.array([2**62], "m8[7s]"), "m8[2s]"),
        ([1e300], "float32"),
        ([2**70], "bool"),
    ],
)
def test_what_a_type_does_not_have_is_an_overflow_error(values: Any, dtype: str) -> None:
    array = sync.create_array(MemoryStore(), shape=1, dtype=np.dtype(dtype))
    with pytest.raises(OverflowError, match=r"at \(0,\)"):
        array[...] = values


@pytest.mark.parametrize(
    ("values", "dtype", "stored"),
    [
        (np.array([0.1]), "float32", np.float32(0.1)),
        (np.array([np.inf]), "float32", np.inf),
        (np.array([2**60 + 1]), "float32", np.float32(2**60)),
        (np.array([6.9]), "float4_e2m1fn", 6.0),
        (np.array([3.0]), "uint8", 3),
        (np.array([90], "M8[s]"), "M8[m]", np.datetime64(1, "m")),
    ],
)
def test_rounding_and_coarser_units_remain_same_kind(values: Any, dtype: str, stored: Any) -> None:
    array = sync.create_array(MemoryStore(), shape=1, dtype=np.dtype(dtype))
    array[...] = values
    assert array[0] == stored
