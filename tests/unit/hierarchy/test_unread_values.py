"""A handle that is used in place of its values raises an error that says how to read them."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiozarr import sync
from aiozarr.stores import MemoryStore

USES: dict[str, Callable[[Any], object]] = {
    "bool": bool,
    "not": operator.not_,
    "equal": lambda handle: handle == 5,
    "reflected equal": lambda handle: 5 == handle,  # noqa: SIM300  # the reflected operator is the case
    "unequal": lambda handle: handle != 5,
    "less": lambda handle: handle < 5,
    "in a list": lambda handle: handle in [5, 6],
    "contains": lambda handle: 5 in handle,
    "add": lambda handle: handle + 1,
    "reflected add": lambda handle: 1 + handle,
    "in place": lambda handle: operator.iadd(handle, 1),
    "multiply": lambda handle: 2.0 * handle,
    "matrix product": lambda handle: handle @ handle,
    "negative": operator.neg,
    "abs": abs,
    "float": float,
    "int": int,
    "index": lambda handle: [1, 2][handle],
    "format": lambda handle: f"{handle:.2f}",
    "mean": lambda handle: handle.mean(),
    "astype": lambda handle: handle.astype("f4"),
    "T": lambda handle: handle.T,
}


@pytest.fixture
def array() -> sync.Array:
    return sync.create_array(MemoryStore(), shape=4, dtype="i4", attributes={"a": [1, {"b": [2]}]})


def handles(array: sync.Array) -> dict[str, Any]:
    return {
        "await array[...]": array._async,
        "await view": array._async[...],
        "array[...]": array,
        "view.read()": array.view,
    }


@pytest.mark.parametrize("advice", ["await array[...]", "await view", "array[...]", "view.read()"])
@pytest.mark.parametrize("use", USES)
def test_a_handle_in_place_of_its_values_is_an_error_that_says_how_to_read(
    array: sync.Array, use: str, advice: str
) -> None:
    if advice == "await array[...]" and use in ("bool", "not"):
        pytest.skip("an asynchronous array is no value: `if array:` tells it from None")
    handle = handles(array)[advice]
    with pytest.raises(TypeError) as caught:
        USES[use](handle)
    assert f"`{advice}` reads them" in str(caught.value)
    assert "needs values" in str(caught.value)


@pytest.mark.parametrize("advice", ["await array[...]", "await view"])
@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        np.mean,
        lambda handle: np.ones(4) + handle,
        lambda handle: np.float64(3) * handle,
        lambda handle: np.ones(4) == handle,
    ],
)
def test_numpy_does_not_read_asynchronous_handles(array: sync.Array, advice: str, use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="needs values"):
        use(handles(array)[advice])


def test_what_needs_no_values_works(array: sync.Array) -> None:
    for handle in handles(array).values():
        assert str(handle) == f"{handle}" == repr(handle)
        assert hash(handle) == hash(handle)
        assert handle in [handle, None]
        assert not hasattr(handle, "mean")
        with pytest.raises(AttributeError, match="no attribute 'colour'"):
            _ = handle.colour
        copy.copy(handle)


def test_a_blocking_array_is_still_read_by_numpy(array: sync.Array) -> None:
    assert (np.ones(4) + array[...]).tolist() == (np.ones(4) + np.asarray(array)).tolist() == [1, 1, 1, 1]


class TestAttributes:
    @pytest.mark.parametrize(
        "change",
        [
            lambda attrs: attrs["a"].append(3),
            lambda attrs: attrs["a"].__setitem__(0, 3),
            lambda attrs: attrs["a"].sort(),
            lambda attrs: operator.iadd(attrs["a"], [3]),
            lambda attrs: attrs["a"][1].update(b=3),
            lambda attrs: attrs["a"][1]["b"].clear(),
            lambda attrs: attrs.pop("a"),
        ],
    )
    def test_are_read_only_at_every_level(self, array: sync.Array, change: Callable[[Any], object]) -> None:
        with pytest.raises(TypeError, match=r"await node\.update_attributes.*attrs\.copy\(\) is a plain dict|copy"):
            change(array.attrs)
        assert array.attrs == {"a": [1, {"b": [2]}]}

    def test_can_be_written_as_json_and_pickled(self, array: sync.Array) -> None:
        assert json.loads(json.dumps(array.attrs)) == array.attrs
        restored = pickle.loads(pickle.dumps(array.attrs))
        assert restored == array.attrs
        with pytest.raises(TypeError, match="read-only"):
            restored["a"].append(3)

    def test_a_copy_can_be_changed_at_every_level(self, array: sync.Array) -> None:
        attributes: Any = array.attrs
        plain = attributes.copy()
        plain["a"][1]["b"].append(3)
        array.update_attributes(plain)
        assert array.attrs == {"a": [1, {"b": [2, 3]}]}
        changed = array.attrs["a"].copy()
        changed.append(4)
        assert array.attrs["a"] == [1, {"b": [2, 3]}]
