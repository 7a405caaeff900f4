"""Hypothesis strategies for elements: the data types of every format, and arrays of any values that they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from aiozarr.metadata import DataType

AnyArray: TypeAlias = NDArray[Any]
Draw: TypeAlias = Callable[..., Any]

CORE = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
"""The data types of the v3 core that numpy names."""
NARROW_INTEGERS = ("int2", "int4", "uint2", "uint4")
NARROW_FLOATS = {
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "float8_e3m4": 8,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 8,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "bfloat16": 16,
}
"""Names of the registry's types that only ml_dtypes has, with the bits that they use."""
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
"""Units of times; numpy cannot print moments without a unit, so these are left out."""
TEXTS = ("", "a", "é", "日本語", "🦆 duck", "x" * 70, "two\nlines", '"\\', "\x7f", "NaN", "0x00")
BYTES = (b"", b"a", b"\0", b"\x00\xff\x00", bytes(70), b"\n\r", b"NaN=")


@dataclass(frozen=True)
class Elements:
    """A data type, as it is requested, and the items of an object array.

    Attributes:
        given: what `create_array` takes as `dtype`.
        dtype: the type of the elements in memory, in native byte order.
        filters: in format 2, the filter that makes bytes of objects; empty where `given` implies one, or needs none.
        items: elements to choose from, where the type has no bits of its own that could be drawn.
    """

    given: Any
    dtype: np.dtype[Any]
    filters: tuple[dict[str, Any], ...] = ()
    items: tuple[Any, ...] = ()


def number_elements() -> st.SearchStrategy[Elements]:
    """The numbers of formats 2 and 3: the core in both byte orders, and those of ml_dtypes."""
    return st.one_of(_core(), _narrow())


def v3_elements() -> st.SearchStrategy[Elements]:
    """Every data type of format 3: the core, the registry, records of them, and raw bits."""
    return st.one_of(_core(), _narrow(), _of_length(), _times("named"), _variable(), _struct())


def v2_elements() -> st.SearchStrategy[Elements]:
    """Every data type of format 2, in both byte orders: simple ones, records, and objects with their filter."""
    return st.one_of(v1_elements(), _variable(), _objects(), _narrow())


def v1_elements() -> st.SearchStrategy[Elements]:
    """Every data type of format 1, in both byte orders."""
    return st.one_of(_simple(), _simple(), _records()).map(_of_numpy)


def contents(
    shape: tuple[int, ...], elements: Elements, fill_value: AnyArray | None = None
) -> st.SearchStrategy[AnyArray]:
    """Arrays of any bits that the type has, or of few values, the fill value sometimes among them."""
    return st.builds(
        lambda seed, plan: _contents(np.random.default_rng(seed), plan, shape, elements, fill_value),
        st.integers(0, 2**32 - 1),
        st.sampled_from(["bits", "few", "partly fill", "fill"]),
    )


def fill_values(elements: Elements) -> st.SearchStrategy[AnyArray | None]:
    """Fill values that documents of every format can hold: of the NaNs that one which they have a name for; or None."""
    if any([isinstance(item, np.ndarray) for item in elements.items]):
        return st.none()
    return st.none() | contents((), elements).map(lambda array: _canonical(array, array.dtype))


def same_elements(first: Any, second: Any) -> bool:
    """Whether two arrays or scalars are of one shape and type and the same bits; objects: of one class, and equal."""
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind == "T":
        return bool((first == second).all())
    if first.dtype.kind == "O":
        return all([_same_object(a, b) for a, b in zip(first.flat, second.flat, strict=True)])
    if first.dtype.name in NARROW_INTEGERS:
        # What the upper bits of their bytes hold says nothing.
        first, second = first.astype(np.int8), second.astype(np.int8)
    return bool(first.tobytes() == second.tobytes())


# --- types --------------------------------------------------------------------------------------------------------


def _of_numpy(given: np.dtype[Any]) -> Elements:
    return Elements(given, given.newbyteorder("="))


def _named(given: Any) -> Elements:
    return Elements(given, DataType.from_json(given).dtype)


def _core() -> st.SearchStrategy[Elements]:
    native = st.sampled_from(CORE).map(np.dtype)
    return native.flatmap(lambda dtype: st.sampled_from([dtype, dtype.newbyteorder(">")])).map(_of_numpy)


def _narrow() -> st.SearchStrategy[Elements]:
    return st.sampled_from([*NARROW_INTEGERS, *NARROW_FLOATS]).map(_named)


def _of_length() -> st.SearchStrategy[Elements]:
    length = st.integers(1, 9)
    return st.one_of(
        length.map(lambda n: _named(f"r{8 * n}")),
        length.map(lambda n: _named({"name": "raw_bytes", "configuration": {"length_bytes": n}})),
        length.map(lambda n: _named({"name": "null_terminated_bytes", "configuration": {"length_bytes": n}})),
        length.map(lambda n: _named({"name": "fixed_length_utf32", "configuration": {"length_bytes": 4 * n}})),
        st.sampled_from(["S3", "<U2", ">U2", "V5"]).map(np.dtype).map(_of_numpy),
    )


def _times(kind: str) -> st.SearchStrategy[Any]:
    units = st.tuples(st.sampled_from(UNITS), st.sampled_from([1, 1, 10]))
    if kind != "named":
        return st.builds(
            lambda order, code, unit: np.dtype(f"{order}{code}8[{unit[1]}{unit[0]}]"),
            _ORDERS,
            st.sampled_from("Mm"),
            units,
        )
    return st.builds(
        lambda name, unit: _named({"name": name, "configuration": {"unit": unit[0], "scale_factor": unit[1]}}),
        st.sampled_from(["numpy.datetime64", "numpy.timedelta64"]),
        units,
    )


_ORDERS = st.sampled_from("<>")


def _variable() -> st.SearchStrategy[Elements]:
    text = Elements("string", DataType.from_json("string").dtype, items=TEXTS)
    data = Elements("bytes", DataType.from_json("bytes").dtype, items=BYTES)
    return st.sampled_from([text, data])


def _struct() -> st.SearchStrategy[Elements]:
    parts = st.one_of(_core(), _of_length(), _times("named"), _narrow()).map(lambda each: each.given)
    types = st.recursive(
        parts.map(lambda given: DataType.from_numpy(given).to_json() if isinstance(given, np.dtype) else given),
        lambda inner: _fields(inner).map(lambda fields: {"name": "struct", "configuration": {"fields": fields}}),
        max_leaves=3,
    )
    return _fields(types).map(lambda fields: _named({"name": "struct", "configuration": {"fields": fields}}))


def _fields(types: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    names = st.lists(st.sampled_from(["a", "b", "é", "c d"]), min_size=1, max_size=3, unique=True)
    return names.flatmap(
        lambda names: st.tuples(*[types] * len(names)).map(
            lambda each: [{"name": name, "data_type": one} for name, one in zip(names, each, strict=True)]
        )
    )


def _simple() -> st.SearchStrategy[np.dtype[Any]]:
    codes = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
    codes += ["S1", "S5", "U1", "U4", "V1", "V6"]
    numbers: st.SearchStrategy[np.dtype[Any]] = st.builds(
        lambda order, code: np.dtype(order + code), _ORDERS, st.sampled_from(codes)
    )
    return st.one_of(numbers, numbers, _times("numpy"))


def _records() -> st.SearchStrategy[np.dtype[Any]]:
    """Records of up to three fields, with sub-arrays and records inside."""
    names = st.lists(st.sampled_from(["a", "b", "é", "c d"]), min_size=1, max_size=3, unique=True)
    lengths = st.sampled_from([(), (), (2,), (2, 3)])

    def of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return names.flatmap(
            lambda names: st.tuples(*[st.tuples(inner, lengths)] * len(names)).map(
                lambda each: np.dtype([(name, *one) for name, one in zip(names, each, strict=True)])
            )
        )

    return of(st.recursive(_simple(), of, max_leaves=3))


def _objects() -> st.SearchStrategy[Elements]:
    json_items: tuple[Any, ...] = (None, 1, -2.5, "é", True, {"k": [1, None]}, "", {})
    numbers = tuple([np.arange(n, dtype="<i4") - 1 for n in range(4)])
    labels = ["a", "é", "two words"]
    kinds: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
        ({"id": "vlen-utf8"}, TEXTS),
        ({"id": "vlen-bytes"}, BYTES),
        ({"id": "json2"}, json_items),
        ({"id": "msgpack2"}, json_items),
        ({"id": "vlen-array", "dtype": "<i4"}, numbers),
        ({"id": "categorize", "labels": labels, "dtype": "|O", "astype": "|u1"}, ("", *labels)),
    ]
    # Strings are numpy's own in memory; everything else is objects.
    texts = DataType.from_json("string").dtype
    types = [texts if codec["id"] == "vlen-utf8" else np.dtype(object) for codec, _ in kinds]
    return st.sampled_from(
        [Elements(object, dtype, (codec,), items) for (codec, items), dtype in zip(kinds, types, strict=True)]
    )


# --- values -------------------------------------------------------------------------------------------------------


def _contents(
    rng: np.random.Generator, plan: str, shape: tuple[int, ...], elements: Elements, fill_value: AnyArray | None
) -> AnyArray:
    size = int(np.prod(shape, dtype=np.int64))
    fill_value = np.asarray(_values(rng, 1, elements)).reshape(()) if fill_value is None else fill_value
    if plan == "bits":
        return _values(rng, size, elements).reshape(shape)
    pool = _values(rng, 1 if plan == "fill" else 4, elements)
    pool[0] = fill_value[()]
    chosen = rng.integers(0, 1 if plan == "fill" else 4, size)
    if plan == "partly fill":
        chosen[: size // 2] = 0
    return pool[chosen].reshape(shape)


def _values(rng: np.random.Generator, size: int, elements: Elements) -> AnyArray:
    if elements.items:
        values = np.empty(size, elements.dtype)
        for i, choice in enumerate(rng.integers(0, len(elements.items), size)):
            values[i] = elements.items[choice]
        return values
    return _bits(rng, size, elements.dtype)


def _bits(rng: np.random.Generator, size: int, dtype: np.dtype[Any]) -> AnyArray:
    """Elements of any bits that a type has, in all their fields."""
    if dtype.names is not None:
        records = np.zeros(size, dtype)
        for name in dtype.names:
            records[name] = _bits(rng, records[name].size, dtype[name].base).reshape(records[name].shape)
        return records
    if dtype.kind == "U":
        characters = np.array([0, 65, 0xE9, 0x65E5, 0x1F986], "u4")
        codes = characters[rng.integers(0, len(characters), (size, dtype.itemsize // 4))]
        return codes.view(dtype.newbyteorder("=")).reshape(size)
    if dtype.name in NARROW_INTEGERS:
        least, bits = (0 if dtype.name[0] == "u" else -1), int(dtype.name[-1])
        return (rng.integers(0, 1 << bits, size) + (least << bits - 1)).astype(np.int8).astype(dtype)
    limit = 2 if dtype.kind == "b" else 1 << min(8, NARROW_FLOATS.get(dtype.name, 8))
    return rng.integers(0, limit, size * dtype.itemsize, np.uint8).view(dtype)


def _canonical(array: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """The array with other NaNs replaced; those inside of records are stored bit by bit."""
    if dtype.kind not in "fc" and dtype.name not in NARROW_FLOATS:
        return array
    parts = np.array(array, ndmin=1)
    parts = parts.view(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else parts
    parts[np.isnan(parts)] = np.array(np.nan).astype(parts.dtype)
    return parts.view(dtype).reshape(array.shape)


def _same_object(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        # Where an array is missing, vlen-array stores an empty one.
        return len(other) == 0 if one is None else len(one) == 0 if other is None else same_elements(one, other)
    return type(one) is type(other) and bool(one == other)
