"""Data types: names, numpy types, registration, and rejected members."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import ml_dtypes
import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata import DataType, register_data_type
from aiozarr.metadata import data_type as data_type_module
from aiozarr.metadata.data_type import MAX_ITEM_SIZE, FillValue, frozen


def named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


CORE = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
SMALL = [
    *("int2", "int4", "uint2", "uint4", "bfloat16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]
POINT = named("struct", fields=[{"name": "x", "data_type": "float32"}, {"name": "y", "data_type": "int16"}])
# The member as documents hold it, the numpy type, and whether numpy's type leads back to the same member.
TYPES: list[tuple[Any, np.dtype[Any], bool]] = [
    *[(name, np.dtype(name), True) for name in CORE],
    *[(name, np.dtype(getattr(ml_dtypes, name)), True) for name in SMALL],
    ("r8", np.dtype("V1"), False),
    ("r24", np.dtype("V3"), False),
    ("r8388608", np.dtype(f"V{1 << 20}"), False),
    (named("raw_bytes", length_bytes=3), np.dtype("V3"), True),
    (named("null_terminated_bytes", length_bytes=5), np.dtype("S5"), True),
    (named("fixed_length_utf32", length_bytes=20), np.dtype("U5"), True),
    (named("numpy.datetime64", unit="ms", scale_factor=10), np.dtype("M8[10ms]"), True),
    (named("numpy.datetime64", unit="generic", scale_factor=1), np.dtype("M8"), True),
    (named("numpy.timedelta64", unit="generic", scale_factor=10), np.dtype("m8[10generic]"), True),
    (named("numpy.timedelta64", unit="Y", scale_factor=1), np.dtype("m8[Y]"), True),
    (POINT, np.dtype([("x", "f4"), ("y", "i2")]), True),
    ("string", np.dtype(np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else object), False),
    ("bytes", np.dtype(object), False),
    ("variable_length_bytes", np.dtype(object), False),
]
IDS = [str(each[0]) for each in TYPES]


@pytest.fixture
def _registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registrations that the test's end takes back."""
    with monkeypatch.context() as patch:
        patch.setattr(data_type_module._registry, "classes", dict(data_type_module._registry.classes))
        yield


@pytest.mark.parametrize(("value", "dtype", "both_ways"), TYPES, ids=IDS)
def test_names_and_numpy_types_correspond(value: Any, dtype: np.dtype[Any], both_ways: bool) -> None:
    data_type = DataType.from_json(value)
    assert data_type.to_json() == value
    assert data_type.name == (value if isinstance(value, str) else value["name"])
    assert data_type.dtype == dtype
    assert data_type.dtype.isnative
    if both_ways:
        for order in "<>=":
            assert DataType.from_numpy(dtype.newbyteorder(order)) == data_type  # type: ignore[arg-type]
    if isinstance(value, str):
        assert DataType.from_json({"name": value}) == data_type
        assert DataType.from_json({"name": value, "configuration": {}, "must_understand": True}) == data_type


@pytest.mark.parametrize(("value", "dtype", "both_ways"), TYPES, ids=IDS)
def test_a_type_compares_by_value_and_can_be_pickled(value: Any, dtype: np.dtype[Any], both_ways: bool) -> None:
    data_type = DataType.from_json(value)
    assert data_type.dtype == dtype  # computed before the journey
    other = pickle.loads(pickle.dumps(data_type))
    assert other == data_type
    assert other.dtype == dtype
    assert hash(other) == hash(data_type)
    assert [value for value, _, _ in TYPES if DataType.from_json(value) == data_type] == [value]


@pytest.mark.parametrize(("value", "dtype", "both_ways"), TYPES, ids=IDS)
def test_the_default_fill_value_is_parsed_from_its_document(value: Any, dtype: np.dtype[Any], both_ways: bool) -> None:
    data_type = DataType.from_json(value)
    fill = data_type.default_fill_value
    assert (fill.shape, fill.dtype) == ((), dtype)
    assert not fill.flags.writeable
    again = data_type.parse_fill_value(data_type.render_fill_value(fill), strict=True)
    assert data_type.fill_key(again) == data_type.fill_key(fill)
    assert data_type.fill_key(data_type.make_fill_value(None)) == data_type.fill_key(fill)
    assert not again.flags.writeable


@pytest.mark.parametrize("name", [*CORE, *SMALL, "r24"])
def test_the_default_fill_value_of_numbers_and_raw_bytes_is_zero(name: str) -> None:
    assert not any(DataType.from_json(name).default_fill_value.tobytes())


def test_types_of_equal_width_are_one_type() -> None:
    assert DataType.from_numpy(np.longlong) == DataType.from_numpy(np.int64) == DataType.from_numpy(int)
    assert DataType.from_numpy("f4").dtype is DataType.from_json("float32").dtype


def test_strings_without_a_length_are_of_variable_length() -> None:
    for dtype in (str, "U", np.dtype(object, metadata={"vlen": str})):
        assert DataType.from_numpy(dtype) == DataType.from_json("string")
    for dtype in (bytes, "S", np.dtype(object, metadata={"vlen": bytes})):
        assert DataType.from_numpy(dtype) == DataType.from_json("bytes")
    if hasattr(np.dtypes, "StringDType"):
        assert DataType.from_numpy(np.dtypes.StringDType(na_object=None)) == DataType.from_json("string")
    assert DataType.from_json("string").is_variable
    assert DataType.from_json("bytes").is_variable
    assert not any(DataType.from_json(value).is_variable for value, _, _ in TYPES[:-3])


def test_names_that_mean_the_same_are_read_and_the_cores_are_written() -> None:
    assert DataType.from_json("complex_float32").to_json() == "complex64"
    assert DataType.from_json("complex_float64").to_json() == "complex128"
    for micro in ("\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s"):
        given = named("numpy.datetime64", unit=micro, scale_factor=2)
        assert DataType.from_json(given).to_json() == named("numpy.datetime64", unit="us", scale_factor=2)
    legacy = named("structured", fields=[["x", "float32"], ["y", "int16"]])
    assert DataType.from_json(legacy) == DataType.from_json(POINT)
    assert DataType.from_json(legacy).to_json() == POINT


@pytest.mark.skipif(not hasattr(ml_dtypes, "complex32"), reason="an older ml_dtypes")
def test_complex_numbers_of_two_small_parts() -> None:
    for name, theirs in (("complex_float16", "complex32"), ("complex_bfloat16", "bcomplex32")):
        data_type = DataType.from_json(name)
        assert data_type.dtype == np.dtype(getattr(ml_dtypes, theirs))
        assert DataType.from_numpy(data_type.dtype) == data_type
        fill = data_type.parse_fill_value([1.5, "NaN"])
        assert data_type.render_fill_value(fill) == [1.5, "NaN"]
        assert fill.tobytes()[:2] == DataType.from_json(name.removeprefix("complex_")).parse_fill_value(1.5).tobytes()


@pytest.mark.parametrize(
    "dtype",
    [
        *("O", "V0", ("i4", (2,)), [("a", "O")], [], f"V{MAX_ITEM_SIZE + 1}", f"S{MAX_ITEM_SIZE + 1}"),
        f"U{MAX_ITEM_SIZE // 4 + 1}",
        pytest.param(
            np.longdouble, marks=pytest.mark.skipif(np.dtype("g").itemsize == 8, reason="long double is float64 here")
        ),
    ],
)
def test_a_numpy_type_without_data_type_is_rejected_by_name(dtype: Any) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        DataType.from_numpy(dtype)
    assert caught.value.point == "data_type"
    assert caught.value.name in (str(np.dtype(dtype)), "object", "struct")


@pytest.mark.parametrize("dtype", [None, "no such type", object()])
def test_other_values_than_types_are_type_errors(dtype: Any) -> None:
    with pytest.raises(TypeError):
        DataType.from_numpy(dtype)


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (None, "data_type"),
        (8, "data_type"),
        (["int8"], "data_type"),
        ({}, "data_type.name"),
        ({"name": 8}, "data_type.name"),
        ({"name": "int8", "configuration": {"bits": 4}}, "data_type.configuration"),
        ({"name": "int8", "configuration": []}, "data_type.configuration"),
        ({"name": "int8", "must_understand": False}, "data_type.must_understand"),
        ({"name": "int8", "endian": "big"}, "data_type.endian"),
        ("r0", "data_type"),
        ("r7", "data_type"),
        ("r12", "data_type"),
        *[
            (named(name, **configuration), f"data_type.configuration.{member}")
            for name in ("fixed_length_utf32", "null_terminated_bytes", "raw_bytes")
            for configuration, member in (
                ({}, "length_bytes"),
                ({"length_bytes": -4}, "length_bytes"),
                ({"length_bytes": 4.0}, "length_bytes"),
                ({"length_bytes": True}, "length_bytes"),
                ({"length_bytes": "4"}, "length_bytes"),
                ({"length_bytes": 4, "endian": "big"}, "endian"),
            )
        ],
        (named("fixed_length_utf32", length_bytes=5), "data_type.configuration.length_bytes"),
        ("fixed_length_utf32", "data_type.configuration.length_bytes"),
        *[
            (named("numpy.datetime64", **configuration), f"data_type.configuration.{member}")
            for configuration, member in (
                ({}, "unit"),
                ({"unit": "sec", "scale_factor": 1}, "unit"),
                ({"unit": ["s"], "scale_factor": 1}, "unit"),
                ({"unit": "s"}, "scale_factor"),
                ({"unit": "s", "scale_factor": 0}, "scale_factor"),
                ({"unit": "s", "scale_factor": 1 << 31}, "scale_factor"),
                ({"unit": "s", "scale_factor": 1.0}, "scale_factor"),
                ({"unit": "s", "scale_factor": 1, "timezone": "UTC"}, "timezone"),
            )
        ],
    ],
)
def test_invalid_data_types_are_rejected_with_their_path(value: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        DataType.from_json(value)
    assert caught.value.member == member


@pytest.mark.parametrize(
    "value",
    [
        *[
            named(name, length_bytes=length)
            for name in ("fixed_length_utf32", "null_terminated_bytes", "raw_bytes")
            for length in (0, MAX_ITEM_SIZE + 4, 1 << 31, 10**30)
        ],
        *("r17179869184", "r8388616", "r" + "8" * 5000, "complex_float8_e4m3", "complex_float4_e2m1fn"),
    ],
)
def test_unsupported_types_of_the_registry_are_rejected_as_unsupported(value: Any) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        DataType.from_json(value)
    assert caught.value.point == "data_type"
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "name",
    [
        *("", "float128", "Int8", "int8 ", "<i4", "O", "object", "r", "r*", "r08", "r-8", "r8.0", "r8\n"),
        *("r\N{ARABIC-INDIC DIGIT EIGHT}", "datetime64", "strings", "x" * 100_000),
    ],
)
def test_unknown_types_are_named_and_how_to_add_one(name: str) -> None:
    for value in (name, {"name": name, "configuration": {"length_bytes": 1 << 31}}, {"name": name, "endian": "big"}):
        with pytest.raises(UnsupportedMetadataError, match="register_data_type") as caught:
            DataType.from_json(value)
        assert caught.value.point == "data_type"
        assert caught.value.name is not None
        assert name.startswith(caught.value.name.rstrip("…"))
        assert len(str(caught.value)) < 2000


@dataclass(frozen=True)
class Degrees(DataType):
    """A third party's type."""

    names = ("https://example.org/degrees",)
    turns: int = 1
    name: str = "https://example.org/degrees"

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, Any], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        return cls(configuration.get("turns", 1))

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls() if dtype == np.dtype("f8") else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype("f8")

    @property
    def configuration(self) -> Mapping[str, Any]:
        return {"turns": self.turns}

    def parse_fill_value(self, value: Any, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        return frozen(np.array(value, "f8"))

    def render_fill_value(self, array: FillValue) -> Any:
        return float(array)

    def make_fill_value(self, value: object) -> FillValue:
        return self.parse_fill_value(value or 0)


@pytest.mark.usefixtures("_registry")
def test_a_third_party_adds_a_type_and_the_last_registration_holds() -> None:
    with pytest.raises(UnsupportedMetadataError):
        DataType.from_json("https://example.org/degrees")
    assert register_data_type(Degrees) is Degrees
    value = named("https://example.org/degrees", turns=3)
    assert DataType.from_json(value) == Degrees(3)
    assert DataType.from_json(value).to_json() == value
    assert DataType.from_numpy("f8") == Degrees()
    assert DataType.from_json("float64").name == "float64"


@pytest.mark.parametrize("given", [int, "float64", DataType, type("Nameless", (Degrees,), {"names": ()}), Degrees(1)])
def test_only_concrete_classes_with_names_can_be_registered(given: Any) -> None:
    with pytest.raises(TypeError):
        register_data_type(given)
