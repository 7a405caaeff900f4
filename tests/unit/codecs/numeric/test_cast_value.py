"""Values in another type: rounded, clamped, wrapped, mapped or refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.cast_value import Casting, Rounding
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, InvalidMetadataError, UnsupportedMetadataError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ROUNDINGS: list[Rounding] = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
SMALL_FLOATS = [
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz"),
        "float8_e3m4",
    )
]


def pipeline_of(dtype: Any, fill: Any = 0, *, size: int = 1, **configuration: Any) -> CodecPipeline:
    spec = ArraySpec((size,), np.dtype(dtype), np.array(fill).astype(dtype))
    return CodecPipeline.resolve([{"name": "cast_value", "configuration": configuration}, BYTES], spec)


def stored(values: Any, dtype: str, target: str, **configuration: Any) -> list[Any]:
    array = np.array(values, dtype)
    pipeline = pipeline_of(dtype, size=len(array), data_type=target, **configuration)
    result: list[Any] = np.frombuffer(bytes(pipeline.encode(array)), target).tolist()
    return result


def whole(value: Fraction, rounding: Rounding) -> int:
    down = value.numerator // value.denominator
    match rounding:
        case "nearest-even":
            return round(value)
        case "towards-zero":
            return int(value)
        case "towards-positive":
            return down + (value > down)
        case "towards-negative":
            return down
        case "nearest-away":
            return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


@given(
    value=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-600, 600).map(lambda n: n / 2),
    rounding=st.sampled_from(ROUNDINGS),
    target=st.sampled_from(["int8", "uint8", "int32", "int64", "uint64"]),
    beyond=st.sampled_from([None, "clamp", "wrap"]),
)
def test_floats_are_cast_to_integers_as_by_exact_arithmetic(
    value: float, rounding: Rounding, target: str, beyond: Any
) -> None:
    limits = np.iinfo(target)
    least, most = int(limits.min), int(limits.max)
    expected = whole(Fraction(value), rounding)
    casting = Casting(rounding, beyond, "cast_value")
    if not least <= expected <= most:
        if beyond is None:
            with pytest.raises(CodecError, match="cannot represent"):
                casting.cast(np.array([value]), np.dtype(target))
            return
        modulus = most - least + 1
        expected = min(max(expected, least), most) if beyond == "clamp" else (expected - least) % modulus + least
    assert casting.cast(np.array([value]), np.dtype(target)).tolist() == [expected]


@settings(deadline=None)
@given(value=st.integers(-(2**63), 2**64 - 1), rounding=st.sampled_from(ROUNDINGS), target=st.sampled_from("efd"))
def test_integers_are_cast_to_floats_with_one_rounding(value: int, rounding: Rounding, target: str) -> None:
    source = np.array([value], np.int64 if value < 0 else np.uint64)
    try:
        (result,) = Casting(rounding, None, "cast_value").cast(source, np.dtype(target)).tolist()
    except CodecError:
        assert abs(value) > 65504
        assert target == "e"
        return
    exact, found = Fraction(value), Fraction(result)
    scalar = np.dtype(target).type(result)
    with np.errstate(over="ignore"):
        below, above = (float(np.nextafter(scalar, scalar.dtype.type(way))) for way in (-np.inf, np.inf))
    match rounding:
        case "towards-positive":
            assert below < exact <= found
        case "towards-negative":
            assert found <= exact < above
        case "towards-zero":
            assert abs(found) <= abs(exact)
            assert below < exact < above
        case _:
            assert all(
                [abs(found - exact) <= abs(Fraction(other) - exact) for other in (below, above) if abs(other) < np.inf]
            )


@pytest.mark.parametrize("target", SMALL_FLOATS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_small_floats_are_rounded_to_the_requested_neighbour(target: np.dtype[Any], rounding: Rounding) -> None:
    bits = 8 if target.name.startswith("float8") else int(target.name[5])
    grid = np.arange(1 << bits, dtype=np.uint8).view(target).astype(np.float64)
    grid = np.unique(grid[np.isfinite(grid)])
    casting = Casting(rounding, None, "cast_value")
    assert np.array_equal(casting.cast(grid, target).astype(np.float64), grid)
    for share in (0.25, 0.5, 0.75):
        between = grid[:-1] + share * np.diff(grid)
        found = casting.cast(between, target).astype(np.float64)
        low, high = grid[:-1], grid[1:]
        if rounding == "towards-positive":
            expected = high
        elif rounding == "towards-negative":
            expected = low
        elif rounding == "towards-zero":
            expected = np.where(between < 0, high, low)
        elif share != 0.5:
            expected = low if share < 0.5 else high
        elif rounding == "nearest-away":
            expected = np.where(between < 0, low, high)
        else:
            expected = between.astype(target).astype(np.float64)
        assert np.array_equal(found, expected)


def test_values_beyond_the_greatest_float_raise_or_clamp() -> None:
    with pytest.raises(CodecError, match="cannot represent"):
        stored([1e39], "f8", "float32")
    assert stored([1e39, -1e39], "f8", "float32", out_of_range="clamp") == [np.inf, -np.inf]
    assert stored([1e39], "f8", "float32", out_of_range="clamp", rounding="towards-zero") == [np.inf]
    clamped = Casting("nearest-even", "clamp", "x").cast(np.array([9.0, -9.0]), np.dtype(ml_dtypes.float4_e2m1fn))
    assert clamped.tolist() == [6.0, -6.0]
    assert stored([np.inf, -0.0], "f8", "float32") == [np.inf, 0.0]
    assert np.signbit(stored([-0.0], "f8", "float32")).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_need_a_map_to_become_integers(value: float) -> None:
    for beyond in ("error", "clamp", "wrap"):
        with pytest.raises(CodecError, match="NaN or infinity"):
            stored([value], "f8", "uint8", out_of_range=beyond)
    with pytest.raises(CodecError, match="cannot represent"):
        Casting("nearest-even", "clamp", "x").cast(np.array([value]), np.dtype(ml_dtypes.float4_e2m1fn))


def test_the_first_matching_pair_of_a_map_replaces_casting() -> None:
    scalar_map = {"encode": [["NaN", 255], ["+Infinity", 7], ["NaN", 1]], "decode": [[255, "NaN"]]}
    pipeline = pipeline_of("f8", np.nan, size=3, data_type="uint8", scalar_map=scalar_map)
    assert int(pipeline._specs[-1].fill_value) == 255
    encoded = bytes(pipeline.encode(np.array([np.nan, np.inf, 3.0])))
    assert encoded == b"\xff\x07\x03"
    assert np.array_equal(pipeline.decode(encoded), [np.nan, 7.0, 3.0], equal_nan=True)
    assert pipeline.to_json()[0]["configuration"] == {"data_type": "uint8", "scalar_map": scalar_map}


def test_the_example_of_the_registry_wraps() -> None:
    assert stored([32768, 32769, -32769], "i4", "int16", out_of_range="wrap") == [-32768, -32767, 32767]
    small = Casting("nearest-even", "wrap", "x").cast(np.array([8, -9], np.int16), np.dtype(ml_dtypes.int4))
    assert small.tolist() == [-8, 7]


def test_a_fill_value_that_does_not_round_trip_is_refused() -> None:
    with pytest.raises(InvalidMetadataError, match="is cast back to"):
        pipeline_of("f8", 0.5, data_type="uint8")
    with pytest.raises(InvalidMetadataError, match="fill value is not supported"):
        pipeline_of("f8", np.nan, data_type="uint8")


def test_stored_values_that_the_array_cannot_hold_are_refused() -> None:
    with pytest.raises(CodecError, match="cannot represent"):
        pipeline_of("u1", data_type="int16").decode(b"\x00\x01")


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"data_type": 3},
        {"data_type": "uint8", "rounding": "up"},
        {"data_type": "uint8", "out_of_range": "saturate"},
        {"data_type": "float32", "out_of_range": "wrap"},
        {"data_type": "uint8", "scalar_map": []},
        {"data_type": "uint8", "scalar_map": {"encode": [["NaN"]]}},
        {"data_type": "uint8", "scalar_map": {"encode": [["NaN", 256]]}},
        {"data_type": "uint8", "scalar_map": {"encode": [["NaN", None]]}},
    ],
)
def test_invalid_configurations_are_refused(configuration: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadataError):
        pipeline_of("f8", **configuration)


def test_other_types_are_refused() -> None:
    with pytest.raises(UnsupportedMetadataError, match="not to 'string'"):
        pipeline_of("f8", data_type="string")
    with pytest.raises(UnsupportedMetadataError, match="real numbers"):
        pipeline_of("c8", data_type="uint8")


def test_scaled_floats_are_stored_in_small_integers() -> None:
    spec = ArraySpec((4,), np.dtype("f8"), np.array(10.0))
    codecs = [
        {"name": "scale_offset", "configuration": {"offset": 10, "scale": 4}},
        {"name": "cast_value", "configuration": {"data_type": "uint8", "out_of_range": "clamp"}},
        "bytes",
    ]
    pipeline = CodecPipeline.resolve(codecs, spec)
    array = np.array([10.0, 10.3, 73.75, 99.0])
    assert bytes(pipeline.encode(array)) == bytes([0, 1, 255, 255])
    assert pipeline.decode(pipeline.encode(array)).tolist() == [10.0, 10.25, 73.75, 73.75]
