"""Attributes: copied when set and when read, and stored as JSON."""

from __future__ import annotations

import copy
import datetime as dt
import enum
import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.hierarchy.attributes import MAX_DEPTH, checked_attributes, copy_json, frozen_attributes


def test_attributes_are_read_only_copies() -> None:
    held: dict[str, Any] = {"a": [1, {"b": 2}]}
    seen = frozen_attributes(held)
    with pytest.raises(TypeError):
        seen["c"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        seen["a"][1]["b"] = 3
    held["a"].append(2)
    assert seen == {"a": [1, {"b": 2}]}


def test_attributes_behave_as_a_dict_except_for_changes() -> None:
    held = {"a": [1, {"b": 2}], "c": None}
    seen = frozen_attributes(held)
    assert json.dumps(seen) == json.dumps(held)
    assert seen == held
    for same in (pickle.loads(pickle.dumps(seen)), copy.copy(seen), copy.deepcopy(seen)):
        assert type(same) is type(seen)
        assert same == held
    changes: list[Callable[[Any], object]] = [
        lambda d: d.__setitem__("a", 1),
        lambda d: d.__delitem__("a"),
        lambda d: d.__ior__({"x": 1}),
        lambda d: d.clear(),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.setdefault("x", 1),
        lambda d: d.update(x=1),
        lambda d: d.put({"x": 1}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="update_attributes"):
            change(seen)
    assert seen == held
    assert {**seen, "x": 1} == {**held, "x": 1}
    own = seen.copy()  # type: ignore[attr-defined]
    own["x"] = 1
    assert "x" not in seen


def test_numpy_scalars_tuples_and_enumerations_become_plain_json() -> None:
    class Level(enum.IntEnum):
        HIGH = 2

    plain = checked_attributes({"a": np.float32(0.5), "b": (np.int8(1), True, np.True_), "c": Level.HIGH}, finite=False)
    assert plain == {"a": 0.5, "b": [1, True, True], "c": 2}
    assert [type(value) for value in (plain["a"], plain["b"], *plain["b"], plain["c"])] == [
        float,
        list,
        int,
        bool,
        bool,
        int,
    ]


def test_order_is_kept_at_every_depth() -> None:
    given = {"z": {"y": 1, "x": [{"w": 1, "a": 2}]}, "a": 0}
    copied = copy_json(given)
    assert list(copied) == ["z", "a"]
    assert list(copied["z"]) == ["y", "x"]
    assert list(copied["z"]["x"][0]) == ["w", "a"]


@pytest.mark.parametrize("bad", [object(), {1, 2}, b"bytes", np.zeros(2), 1j])
def test_a_value_that_is_not_json_is_a_type_error_with_its_position(bad: object) -> None:
    with pytest.raises(TypeError, match=r"attributes\['a'\]\[1\]"):
        checked_attributes({"a": [0, bad]}, finite=False)


def test_numbers_that_json_lacks_are_refused_where_finite_ones_are_wanted() -> None:
    given = {"a": [1, np.float32("nan")], "b": 2}
    assert str(checked_attributes(given, finite=False)) == "{'a': [1, nan], 'b': 2}"
    with pytest.raises(InvalidMetadataError, match="use None or a string instead") as caught:
        checked_attributes(given, finite=True)
    assert caught.value.member == "attributes.a[1]"


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (np.datetime64("2026-01-01"), "of type datetime64, .*`str"),
        (np.datetime64("2026-01-01", "ns"), "of type datetime64, .*`str"),
        (np.timedelta64(3, "ns"), "of type timedelta64, .*`str"),
        (dt.date(2026, 1, 1), "of type date, .*`str"),
        (np.zeros(2), "of type ndarray, .*`tolist"),
    ],
)
def test_a_value_of_another_kind_is_named_with_its_json_form(value: object, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        checked_attributes({"a": value}, finite=True)


def test_a_name_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(TypeError, match=r"attributes\['a'\]\[1\] has a name that is not a str"):
        checked_attributes({"a": {1: 2}}, finite=False)
    with pytest.raises(TypeError, match="mapping"):
        checked_attributes([("a", 1)], finite=False)  # type: ignore[arg-type]


def test_attributes_that_contain_themselves_are_refused() -> None:
    loop: dict[str, object] = {}
    loop["again"] = loop
    with pytest.raises(ValueError, match="deeper"):
        checked_attributes(loop, finite=False)


def test_deep_attributes_are_copied_on_a_deep_stack() -> None:
    deep: dict[str, object] = {}
    for _ in range(MAX_DEPTH - 1):
        deep = {"a": deep}

    def descend(depth: int) -> object:
        return descend(depth - 1) if depth else copy_json(deep)

    frames, frame = 0, sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back  # type: ignore[assignment]
    assert descend(sys.getrecursionlimit() - frames - 30) == deep
