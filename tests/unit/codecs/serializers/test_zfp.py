"""zfp without its header."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, InvalidMetadataError, UnsupportedMetadataError

zfpy = pytest.importorskip("zfpy", reason="the extra 'codecs' is not installed")


def pipeline_of(dtype: Any, shape: tuple[int, ...], mode: str = "reversible", **configuration: Any) -> CodecPipeline:
    spec = ArraySpec(shape, np.dtype(dtype), np.zeros((), dtype))
    return CodecPipeline.resolve([{"name": "zfp", "configuration": {"mode": mode, **configuration}}], spec)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (7,), (5, 6), (3, 4, 5), (2, 3, 4, 5)])
def test_reversible_mode_round_trips_bit_for_bit(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.random.default_rng(0).normal(size=shape) * 1e6).astype(dtype)
    pipeline = pipeline_of(dtype, shape)
    encoded = pipeline.encode(array)
    assert pipeline.decode(encoded).tobytes() == array.tobytes()
    assert bytes(encoded) == zfpy.compress_numpy(np.atleast_1d(array), write_header=False)


@pytest.mark.parametrize(
    ("mode", "parameter", "bound"),
    [
        ("fixed_accuracy", {"tolerance": 0.01}, 0.01),
        ("fixed_rate", {"rate": 32}, 1e-3),
        ("fixed_precision", {"precision": 40}, 1e-3),
    ],
)
def test_lossy_modes_stay_within_their_error(mode: str, parameter: dict[str, Any], bound: float) -> None:
    array = np.random.default_rng(1).normal(size=(9, 9))
    pipeline = pipeline_of("f8", (9, 9), mode, **parameter)
    assert np.abs(pipeline.decode(pipeline.encode(array)) - array).max() <= bound
    assert pipeline.to_json()[0]["configuration"] == {"mode": mode, **parameter}


@pytest.mark.parametrize("dtype", ["i1", "i2", "u1", "u2"])
def test_small_integers_are_widened_and_round_trip(dtype: str) -> None:
    limits = np.iinfo(dtype)
    array = np.linspace(limits.min, limits.max, 60).astype(dtype).reshape(6, 10)
    pipeline = pipeline_of(dtype, array.shape)
    assert np.array_equal(pipeline.decode(pipeline.encode(array)), array)


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16])
def test_small_floats_are_widened_and_round_trip(dtype: Any) -> None:
    array = np.linspace(-5, 5, 20).astype(dtype)
    pipeline = pipeline_of(dtype, array.shape)
    assert pipeline.decode(pipeline.encode(array)).tobytes() == array.tobytes()


@settings(deadline=None, max_examples=50)
@given(data=st.binary(min_size=1, max_size=60), shape=st.sampled_from([(1,), (17,), (5, 9), (4, 5, 6), (3, 3, 3, 5)]))
def test_any_bytes_decode_to_an_array_of_the_shape(data: bytes, shape: tuple[int, ...]) -> None:
    modes: list[dict[str, Any]] = [
        {},
        {"mode": "fixed_rate", "rate": 64},
        {"mode": "fixed_accuracy", "tolerance": 1e-9},
    ]
    for configuration in modes:
        for dtype in ("i4", "f8"):
            assert pipeline_of(dtype, shape, **configuration).decode(data).shape == shape


def test_empty_and_too_long_input_is_refused() -> None:
    for data in (b"", bytes(10_000)):
        with pytest.raises(CodecError, match="expected 1 to"):
            pipeline_of("f4", (4,)).decode(data)


@pytest.mark.parametrize(
    "configuration",
    [
        {"mode": "lossless"},
        {"mode": "fixed_rate"},
        {"mode": "fixed_rate", "rate": 1e9},
        {"mode": "fixed_accuracy", "tolerance": "0.1"},
        {"mode": "fixed_accuracy", "tolerance": -1},
        {"mode": "fixed_accuracy", "tolerance": 10**400},
        {"mode": "fixed_precision", "precision": 1.5},
    ],
)
def test_parameters_are_checked(configuration: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadataError):
        pipeline_of("f8", (4,), **configuration)


def test_unsupported_modes_types_and_shapes_are_refused() -> None:
    with pytest.raises(InvalidMetadataError, match="4 dimensions"):
        pipeline_of("f8", (1, 1, 1, 1, 1))
    with pytest.raises(UnsupportedMetadataError, match="expert"):
        pipeline_of("f8", (4,), "expert", minbits=1, maxbits=2, maxprec=3, minexp=4)
    with pytest.raises(UnsupportedMetadataError, match="does not support"):
        pipeline_of("u4", (4,))


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zfpy", None)
    with pytest.raises(UnsupportedMetadataError, match="pip install"):
        pipeline_of("f8", (4,))
