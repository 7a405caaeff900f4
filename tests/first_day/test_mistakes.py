"""Mistakes of the first day: what each raises, and the text: the thing, what is wrong with it, and what to write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

import aiozarr

# Type checkers would find most of these mistakes.
sync: Any = aiozarr.sync
opens: Any = aiozarr


@dataclass(frozen=True)
class Place:
    """A tree on disk: the group `g` with the array `temperature` of 4 x 6 `int32`, the array `other`, and a file."""

    root: Path

    @property
    def group(self) -> Any:
        """The group, for writing."""
        return sync.open_group(self.root / "g", mode="r+")

    @property
    def array(self) -> Any:
        """The array, for writing."""
        return sync.open_array(self.root / "g/temperature", mode="r+")

    def new(self, **options: Any) -> Any:
        """Create an array of 4 elements `int32`, unless the options say otherwise."""
        return sync.create_array(self.root / "new", **({"shape": 4, "dtype": "i4"} | options))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A tree that no mistake changes."""
    root = tmp_path_factory.mktemp("first_day")
    group = sync.create_group(root / "g")
    group.create_array("temperature", data=np.arange(24, dtype="i4").reshape(4, 6), attributes={"list": [1], "d": {}})
    sync.create_array(root / "other", data=[1])
    (root / "notes.txt").write_text("not a node")
    return Place(root)


def raised(action: Callable[[], Any]) -> BaseException:
    """Return the error of a mistake."""
    with pytest.raises(Exception) as caught:  # its type is asserted by the caller
        action()
    return caught.value


def unopened(opening: Any, action: Callable[[Any], Any]) -> Any:
    """Misuse what `open_*` returns, and close it: Python warns of a coroutine that nothing awaited."""
    with closing(opening):
        return action(opening)


Mistake = tuple[Callable[[Place], Any], type[BaseException], str]

SYNC: dict[str, Mistake] = {
    # Values that were not read
    "compare": (lambda p: p.array == 3, TypeError, "`==` needs values, .* `array[...]` reads them"),
    "add": (lambda p: p.array + 1, TypeError, "`+` needs values, .* `array[...]` reads them"),
    "mean": (lambda p: p.array.mean(), TypeError, "`.mean` needs values, .* `array[...]` reads them"),
    "truth": (lambda p: bool(p.array), TypeError, "a truth value needs values"),
    "view": (lambda p: p.array.view[0] == 1, TypeError, "`==` needs values, .* `view.read()` reads them"),
    "view[0] = 1": (lambda p: p.array.view.__setitem__(0, 1), TypeError, "use `view[...].write(values)`"),
    "iterate a view": (lambda p: list(p.array.view[0]), TypeError, "iterating needs values"),
    "read": (lambda p: p.array.read(), AttributeError, "no attribute 'read'; reading array[...] does that"),
    "maxshape": (lambda p: p.array.maxshape, AttributeError, "'maxshape'; array.resize, .* does that"),
    # Selections
    "out of range": (lambda p: p.array[9], IndexError, "index 9 is out of range for axis 0 of size 4"),
    "too many": (lambda p: p.array[0, 0, 0], IndexError, "indices"),
    "two lists": (
        lambda p: p.array[[0, 1], [0, 1]],
        IndexError,
        "take at most one list or mask; .* `oindex` .* `vindex`",
    ),
    "float": (lambda p: p.array[1.0], IndexError, "the index of axis 0 is a float; expected an integer, a slice"),
    "mask": (lambda p: p.array[np.ones(3, bool)], IndexError, "a mask of shape (3,) does not match the axes from 0 on"),
    "field": (lambda p: p.array["x"], IndexError, "there is no field 'x': the elements are int32"),
    "zero step": (lambda p: p.array[::0], IndexError, "step"),
    # Writes
    "shape": (
        lambda p: p.array.__setitem__(0, [1, 2]),
        ValueError,
        "values of shape (2,) do not broadcast to a selection",
    ),
    "fraction": (
        lambda p: p.array.__setitem__(0, [0.0] * 5 + [1.5]),
        TypeError,
        "the value 1.5 at (5,), .* not one of int32",
    ),
    "NaN": (lambda p: p.array.__setitem__(0, np.nan), OverflowError, "the value nan.* casting='unsafe'"),
    "out of bounds": (
        lambda p: p.array.__setitem__(0, 1 << 40),
        OverflowError,
        "the value 1099511627776.* is out of range for int32",
    ),
    "text": (lambda p: p.array.__setitem__(0, "5"), TypeError, "values of type <U1 cannot be cast to int32"),
    "casting": (
        lambda p: p.array.view[0].write(1, casting="safe"),
        ValueError,
        "casting must be 'checked', 'same_value'",
    ),
    "time": (
        lambda p: p.new(dtype="M8[ns]", shape=1, data=np.array(["9999-01-01"], "M8[D]")),
        OverflowError,
        "9999-01-01.* is out of bounds for datetime64[ns]",
    ),
    "too long": (lambda p: p.new(dtype="S3", shape=1, data=[b"abcd"]), ValueError, "b'abcd'.* does not fit into"),
    "read only": (
        lambda p: sync.open_array(p.root / "g/temperature").__setitem__(0, 1),
        aiozarr.UnsupportedOperationError,
        "temperature was opened with mode='r'; open it with mode='r+' to write",
    ),
    "append": (
        lambda p: p.array.append(np.zeros((1, 7))),
        ValueError,
        "shape (1, 7) cannot be appended to the shape (4, 6)",
    ),
    "resize": (lambda p: p.array.resize((3,)), ValueError, "the shape (3,) has 1 dimensions, but the array has 2"),
    "out": (
        lambda p: p.array.view[0].read(out=np.zeros(6)),
        ValueError,
        "out has .* but the view has .* cast the result",
    ),
    # Attributes
    "append to a list": (
        lambda p: p.array.attrs["list"].append(3),
        TypeError,
        "attributes are read-only here; .*update_attributes",
    ),
    "nested": (lambda p: p.array.attrs["d"].update(x=1), TypeError, "attributes are read-only here"),
    "set": (lambda p: p.array.attrs.__setitem__("x", 1), TypeError, "attributes are read-only here"),
    "put": (lambda p: p.group.attrs.put({"x": 1}), TypeError, "attributes are read-only here"),
    "of metadata": (
        lambda p: p.array.metadata.attributes["list"].append(1),
        TypeError,
        "attributes are read-only here",
    ),
    "an array": (
        lambda p: p.new(attributes={"a": {"b": np.arange(2)}}),
        TypeError,
        r"attributes['a']['b'] is of type ndarray, which is not a JSON value; its `tolist()` is one",
    ),
    "a set": (
        lambda p: p.array.update_attributes({"a": {1}}),
        TypeError,
        "attributes['a'] is of type set, which is not",
    ),
    "surrogate": (
        lambda p: p.array.update_attributes({"a": "\ud800"}),
        aiozarr.InvalidMetadataError,
        "a lone surrogate",
    ),
    # Groups
    "missing": (
        lambda p: p.group["temprature"],
        KeyError,
        "there is no array and no group at .*; did you mean 'temperature'?",
    ),
    "assign": (
        lambda p: p.group.__setitem__("x", [1]),
        TypeError,
        "use group.create_array('x', data=values)",
    ),
    "del": (lambda p: p.group.__delitem__("temperatur"), KeyError, "there is no array .*; did you mean 'temperature'?"),
    "number": (lambda p: p.group[0], TypeError, "a path must be a str, not int"),
    "reserved": (lambda p: p.group.create_group("__x"), aiozarr.InvalidKeyError, "'__x' is not a name for a new node"),
    "exists": (
        lambda p: p.group.create_array("temperature", shape=1, dtype="i4"),
        aiozarr.NodeExistsError,
        "there is an array at .*; open_array opens it; overwrite=True would delete the array, 1 object",
    ),
    "group exists": (
        lambda p: sync.create_group(p.root / "g"),
        aiozarr.NodeExistsError,
        "there is a group at .*; open_group opens it; overwrite=True would delete the group, 1 array, 1 object",
    ),
    "implicit": (
        lambda p: sync.create_array(p.root, shape=1, dtype="i4"),
        aiozarr.NodeExistsError,
        "objects are stored below .*; another path keeps what is stored; overwrite=True would delete 2 arrays, 1 group",
    ),
    "in an array": (
        lambda p: sync.create_array(p.root / "g/temperature/x", shape=1, dtype="i4"),
        aiozarr.NodeTypeError,
        "g/temperature is an array; no node can be below it",
    ),
    "far in an array": (
        lambda p: sync.create_group(p.root / "g/temperature/c/0", overwrite=True),
        aiozarr.NodeTypeError,
        "g/temperature is an array; no node can be below it",
    ),
    "copy": (
        lambda p: sync.copy(p.root / "other", p.root / "g"),
        aiozarr.CopyError,
        "already contains 3 objects, such as .*; overwrite=True replaces objects with the same key and keeps all",
    ),
    "require shape": (
        lambda p: sync.require_array(p.root / "g/temperature", shape=4, dtype="i4"),
        TypeError,
        "temperature has the shape (4, 6), not (4,); change it with resize()",
    ),
    "require group": (
        lambda p: sync.require_group(p.root / "g/temperature"),
        aiozarr.NodeTypeError,
        "temperature is an array, not a group",
    ),
    # Opening
    "a file": (
        lambda p: sync.open(p.root / "notes.txt"),
        FileNotFoundError,
        "there is a file of this name, and a node is",
    ),
    "mode in the place of a path": (
        lambda p: sync.open_group(p.root, "r+"),
        TypeError,
        "looks like a mode: write mode='r+'",
    ),
    "mode as a path": (lambda p: sync.open_group(p.root / "g", "w"), FileNotFoundError, "a mode is given as mode='w'"),
    "mode w": (
        lambda p: sync.open_array(p.root / "g", mode="w", shape=1, dtype="i4"),
        ValueError,
        "mode must be 'r', 'r+' or 'a', not 'w'; .* with overwrite=True replace what is stored",
    ),
    "mode a": (lambda p: sync.open(p.root, mode="a"), ValueError, "use open_array or open_group"),
    "nothing to create": (
        lambda p: sync.open_array(p.root / "no", mode="a"),
        FileNotFoundError,
        "with shape= and dtype=",
    ),
    "shape in mode r": (
        lambda p: sync.open_array(p.root / "g", shape=1),
        TypeError,
        "'shape' describes a new array; use it with mode='a'",
    ),
    "data in mode a": (
        lambda p: sync.open_array(p.root / "x", mode="a", data=[1]),
        TypeError,
        "open_array does not write values; use create_array(..., data=values)",
    ),
    "not consolidated": (
        lambda p: sync.open_group(p.root / "g", use_consolidated=True),
        aiozarr.InvalidMetadataError,
        "has no consolidated metadata; use_consolidated=None falls back to the nodes themselves",
    ),
}

# Keywords that create_array does not take, and the end of the message.
KEYWORDS: dict[str, tuple[Any, str]] = {
    "fillvalue": (0, "did you mean 'fill_value'?"),
    "dim_names": (("x",), "did you mean 'dimension_names'?"),
    "overwite": (True, "did you mean 'overwrite'?"),
    "maxshape": ((None,), "has no keyword 'maxshape'"),
    "compressor": (numcodecs.Zstd(3), "not of format 3; use compressors= instead"),
    "serialiser": ("bytes", "did you mean 'serializer'?"),
    "compression": ("gzip", "not of format 3; use compressors= instead"),
    "dimension_separator": ("/", "is an option of format 2, not of format 3"),
}

# Values of keywords of create_array that do not fit.
VALUES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"shape": None}, TypeError, "create_array needs shape=, or data= with the values to write"),
    ({"dtype": None}, TypeError, "create_array needs dtype=, or data= with the values to write"),
    ({"data": [1, 2]}, ValueError, "shape is (4,), but the data have the shape (2,)"),
    ({"data": [[1], [1, 2]], "shape": None}, ValueError, "data= is not an array"),
    ({"chunks": (2, 2)}, ValueError, "chunks (2, 2) has 2 dimensions, the shape (4,) has 1"),
    ({"chunks": 0}, ValueError, "a length in chunks must be at least 1"),
    ({"chunks": 2.5}, TypeError, "a length in chunks must be an integer, -1 or None, not 2.5"),
    ({"chunks": 3, "shards": 4}, ValueError, "the shard shape (4,) is not a multiple of the chunk shape (3,)"),
    ({"shards": {"index_location": "end"}}, ValueError, "a mapping for shards must have 'shape'"),
    (
        {"shards": {"shape": 4, "index_location": "middle"}},
        ValueError,
        "index_location in shards must be 'start' or 'end'",
    ),
    ({"codecs": 5}, TypeError, "codecs must be a list of codecs, such as codecs=['zstd'], not 5"),
    ({"codecs": ["zsdt"]}, aiozarr.UnsupportedMetadataError, "unknown codec 'zsdt'; did you mean 'zstd'?"),
    ({"codecs": [{"level": 3}]}, TypeError, "a codec needs a name, unlike {'level': 3}"),
    ({"dimension_names": ("x", "y")}, ValueError, "dimension_names has 2 names, but the shape has 1 dimensions"),
    ({"compressors": 5}, TypeError, "compressors must be a list of codecs, such as compressors=['zstd'], not 5"),
    ({"compressors": "transpose"}, TypeError, "the codec 'transpose' in compressors belongs in filters"),
    ({"filters": ["zstd"]}, TypeError, "the codec 'zstd' in filters belongs in compressors"),
    ({"serializer": None}, TypeError, "serializer is one codec or 'auto', not None"),
    ({"codecs": "zstd", "compressors": None}, TypeError, "codecs is the whole chain; leave out compressors"),
    ({"zarr_format": 2, "compressors": ["zlib", "gzip"]}, TypeError, "format 2 allows one compressor; "),
    (
        {"zarr_format": 2, "compressors": "zlib", "compressor": None},
        TypeError,
        "compressor and compressors mean the same",
    ),
    ({"dimension_names": "x"}, TypeError, "dimension_names must be a sequence with one name or None per dimension"),
    ({"fill_value": 1.5}, ValueError, "1.5 is not a value of int32"),
    (
        {"dtype": "V2", "fill_value": b"abc"},
        ValueError,
        "fill_value b'abc' does not have the 2 bytes of a raw_bytes element",
    ),
    (
        {"dtype": object},
        aiozarr.UnsupportedMetadataError,
        "no Zarr data type can store object; say what the objects are",
    ),
    ({"order": "K"}, ValueError, "order must be 'C' or 'F', not 'K'"),
    ({"zarr_format": 4}, ValueError, "zarr_format must be 1, 2, 3 or None, not 4"),
    (
        {"settings": {"retries": 3}},
        TypeError,
        "settings must be an aiozarr.Settings, such as settings=aiozarr.Settings(timeout=2), not dict",
    ),
]

# Uses of an asynchronous view, array, group or opening without await, and what the error says.
UNAWAITED: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "if view": (lambda v, a, g: bool(v), "a truth value needs values, .* await it"),
    "view == 5": (lambda v, a, g: v == 5, "`==` needs values, .* await it"),
    "view in [5]": (
        lambda v, a, g: v in [5],  # noqa: FURB171  # what a user types
        "`==` needs values, .* await it",
    ),
    "view + 1": (lambda v, a, g: v + 1, "`+` needs values, .* await it"),
    "1 - view": (lambda v, a, g: 1 - v, "`-` needs values, .* await it"),
    "format": (lambda v, a, g: f"{v:.2f}", "the format '.2f' needs values, .* await it"),
    "mean": (lambda v, a, g: v.mean(), "`.mean` needs values, .* await it"),
    "float": (lambda v, a, g: float(v), "`float()` needs values, .* await it"),
    "list": (lambda v, a, g: list(v), "iterating needs values, .* await it"),
    "asarray": (lambda v, a, g: np.asarray(v), "numpy needs values, .* await it"),
    "array == 5": (lambda v, a, g: a == 5, "`==` needs values, .* `await array[...]` reads them"),
    "array.sum": (lambda v, a, g: a.sum(), "`.sum` needs values, .* `await array[...]` reads them"),
    "array[0] = 1": (lambda v, a, g: a.__setitem__(0, 1), "use `await array[...].write(values)`"),
    "create_task": (lambda v, a, g: asyncio.get_running_loop().create_task(v), "await it, or its .read()"),
    "group['a']": (lambda v, a, g: g["a"], "use `await group.open('a')`"),
    "group['a'] =": (lambda v, a, g: g.__setitem__("a", 1), "use `await group.create_array('a', data=...)`"),
    "del group['a']": (lambda v, a, g: g.__delitem__("a"), "use `await group.delete('a')`"),
    "in group": (lambda v, a, g: "a" in g, "use `await group.contains('a')`"),
    "for in group": (lambda v, a, g: list(g), "`async for name, node in group.members()`"),
    "len(group)": (lambda v, a, g: len(g), "`await group.info()`, which counts the nodes below"),
    "opening": (
        lambda v, a, g: unopened(opens.open_array("x"), lambda opening: opening.shape),
        "`await open_array(...)` or `async with open_array(...)",
    ),
    "with opening": (
        lambda v, a, g: unopened(opens.open_group("x"), lambda opening: opening.__enter__()),
        "`async with open_group(...) as node:` opens it",
    ),
}


def check(error: BaseException, kind: type[BaseException], text: str) -> None:
    """Assert the type of an error, and that its message contains `text`, in which `.*` stands for anything."""
    assert isinstance(error, kind)
    pattern = ".*".join(re.escape(part) for part in text.split(".*"))
    assert re.search(pattern, str(error), re.DOTALL), f"{error} lacks {text}"
    assert len(str(error)) < 600


@pytest.mark.parametrize("name", SYNC)
def test_a_mistake_says_what_to_write(place: Place, name: str) -> None:
    action, kind, text = SYNC[name]
    check(raised(lambda: action(place)), kind, text)


@pytest.mark.parametrize("name", KEYWORDS)
def test_an_unknown_keyword_names_the_nearest_one(place: Place, name: str) -> None:
    value, text = KEYWORDS[name]
    error = raised(lambda: place.new(**{name: value}))
    check(error, TypeError, text)
    assert name in str(error)
    assert not (place.root / "new").exists()


@pytest.mark.parametrize(("options", "kind", "text"), VALUES, ids=[str(each[0]) for each in VALUES])
def test_a_value_that_does_not_fit_names_the_keyword(
    place: Place, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    check(raised(lambda: place.new(**options)), kind, text)
    assert not (place.root / "new").exists()


@pytest.mark.parametrize("name", UNAWAITED)
async def test_a_forgotten_await_says_what_to_await(place: Place, name: str) -> None:
    action, text = UNAWAITED[name]
    group: Any = await aiozarr.open_group(place.root / "g")
    array: Any = await aiozarr.open_array(place.root / "g/temperature")
    check(raised(lambda: action(array[0], array, group)), TypeError, text)


def test_a_handle_of_a_replaced_array_writes_nothing(tmp_path: Path) -> None:
    for opened in (False, True):
        array = sync.create_array(tmp_path, shape=8, dtype="i4", chunks=4, overwrite=True)
        old = sync.open_array(tmp_path, mode="r+") if opened else array
        sync.create_array(tmp_path, data=np.arange(6), chunks=3, overwrite=True)
        error = raised(lambda: old.__setitem__(slice(None), 1))  # noqa: B023  # called at once
        text = "was replaced since this handle was opened, and is now int64 of shape (6,); nothing was"
        check(error, aiozarr.ChangedError, text)
        assert sync.open_array(tmp_path)[:].tolist() == [0, 1, 2, 3, 4, 5]
        assert old.refresh()
        old[:] = 2
        assert sync.open_array(tmp_path)[:].tolist() == [2] * 6


def test_a_handle_of_a_deleted_array_writes_nothing(tmp_path: Path) -> None:
    group = sync.create_group(tmp_path)
    array = group.create_array("a", data=[1])
    del group["a"]
    check(raised(lambda: array.__setitem__(0, 2)), aiozarr.NodeNotFoundError, "there is no array and no group at")
    assert not (tmp_path / "a").exists()
