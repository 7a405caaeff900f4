"""Numcodecs' filters and its codecs of numbers in chains of v3, with numcodecs itself and zarr-python as oracles."""

from __future__ import annotations

import sys
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, InvalidMetadataError, MetadataError, UnsupportedMetadataError

Values = np.ndarray[Any, Any]
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def resolve(dtype: str, shape: tuple[int, ...], *codecs: Any) -> CodecPipeline:
    return CodecPipeline.resolve(list(codecs), ArraySpec(shape, np.dtype(dtype), np.zeros((), dtype)))


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


FILTERS = [
    ("<i4", codec("delta", dtype="<i4")),
    ("<i4", codec("delta", dtype="<i4", astype="<i8")),
    ("<f4", codec("bitround", keepbits=7)),
    ("<f8", codec("fixedscaleoffset", offset=10, scale=8, dtype="<f8", astype="<i4")),
    ("<f8", codec("quantize", digits=2, dtype="<f8", astype="<f4")),
    ("<i4", codec("astype", encode_dtype="<i2", decode_dtype="<i4")),
    ("|b1", codec("packbits")),
]


@pytest.mark.parametrize(("dtype", "config"), FILTERS, ids=str)
@given(data=st.data())
def test_a_filter_makes_the_same_bytes_as_numcodecs(dtype: str, config: Any, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=6))
    elements = (
        st.integers(-99, 99) if dtype == "<i4" else st.booleans() if dtype == "|b1" else st.floats(-99, 99, width=16)
    )
    array = data.draw(hnp.arrays(dtype, shape, elements=elements))
    pipeline = resolve(dtype, shape, config, LITTLE)
    peer = numcodecs.get_codec({"id": config["name"].removeprefix("numcodecs."), **config["configuration"]})
    encoded = bytes(pipeline.encode(array))
    assert encoded == np.asarray(peer.encode(array)).tobytes()
    assert pipeline.encoded_size == len(encoded)
    expected = np.asarray(peer.decode(np.asarray(peer.encode(array)))).view(dtype).reshape(shape)
    np.testing.assert_array_equal(pipeline.decode(encoded), expected)


def test_omitted_types_are_those_of_the_array() -> None:
    array = np.array([1.25, 2.5, 3.75], "<f4")
    for config in (codec("fixedscaleoffset", offset=0, scale=4, astype="<i2"), codec("quantize", digits=2)):
        pipeline = resolve("<f4", (3,), config, LITTLE)
        np.testing.assert_array_equal(pipeline.decode(pipeline.encode(array)), array)


def test_the_fill_value_is_encoded_like_an_element() -> None:
    spec = ArraySpec((4,), np.dtype("<f8"), np.array(12.5))
    chain = [codec("fixedscaleoffset", offset=10, scale=2, dtype="<f8", astype="|u1"), {"name": "bytes"}]
    filter_ = CodecPipeline.resolve(chain, spec).codecs[0]
    assert filter_.resolve(spec).fill_value == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("dtype", "config"),
    [
        ("<i4", codec("delta", dtype="<i8")),
        ("<i4", codec("packbits")),
        ("<i4", codec("bitround", keepbits=3)),
        ("<f2", codec("bitround", keepbits=11)),
        ("<f4", codec("quantize", digits=2, dtype="<i4")),
        ("<f4", codec("fixedscaleoffset", offset=1, scale=0)),
        ("<f4", codec("fixedscaleoffset", scale=1)),
        ("<f4", codec("astype")),
        ("<f4", codec("delta", dtype="|O")),
        ("<f4", codec("delta", dtype="i4,i4")),
        ("<f4", codec("delta", dtype="<U0")),
        ("<f4", codec("delta", dtype=["<f4"])),
        ("<i4", codec("zfpy", mode=9)),
        ("|b1", codec("zfpy")),
        ("|b1", codec("pcodec")),
        ("<f4", codec("pcodec", level=13)),
    ],
    ids=str,
)
def test_unsuitable_parameters_are_refused_from_the_metadata(dtype: str, config: Any) -> None:
    after = [] if config["name"] in ("numcodecs.zfpy", "numcodecs.pcodec") else [LITTLE]
    with pytest.raises(MetadataError):
        resolve(dtype, (4,), config, *after)


@pytest.mark.parametrize("dtype", ["<i4", "<u2", "<f8", "<M8[s]"])
def test_pcodec_is_lossless(dtype: str) -> None:
    pytest.importorskip("pcodec")
    array = np.arange(60).astype(dtype).reshape(5, 12)
    pipeline = resolve(dtype, (5, 12), codec("pcodec", level=3))
    encoded = bytes(pipeline.encode(array))
    np.testing.assert_array_equal(pipeline.decode(encoded), array)
    assert np.asarray(numcodecs.get_codec({"id": "pcodec"}).decode(encoded)).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "parameters", [{"mode": 4, "tolerance": 1e-3}, {"mode": 2, "rate": 24}, {"mode": 3, "precision": 30}]
)
def test_zfpy_makes_the_same_bytes_as_numcodecs(parameters: Any) -> None:
    pytest.importorskip("zfpy")
    array = np.linspace(0, 1, 60).reshape(5, 12)
    pipeline = resolve("<f8", (5, 12), codec("zfpy", **parameters))
    encoded = bytes(pipeline.encode(array))
    peer = numcodecs.get_codec({"id": "zfpy", **parameters})
    assert encoded == peer.encode(array)
    np.testing.assert_array_equal(pipeline.decode(encoded), peer.decode(encoded))
    assert len(encoded) <= pipeline.max_encoded_size


@pytest.mark.parametrize("name", ["pcodec", "zfpy"])
@given(damage=st.data())
def test_damaged_numbers_are_refused_or_keep_their_shape(name: str, damage: st.DataObject) -> None:
    pytest.importorskip(name)
    pipeline = resolve("<f8", (5, 12), codec(name))
    good = bytearray(pipeline.encode(np.linspace(0, 1, 60).reshape(5, 12)))
    for _ in range(damage.draw(st.integers(1, 4))):
        good[damage.draw(st.integers(0, len(good) - 1))] = damage.draw(st.integers(0, 255))
    try:
        array = pipeline.decode(bytes(good[: damage.draw(st.integers(0, len(good)))]))
    except CodecError:
        return
    assert array.shape == (5, 12)


@pytest.mark.parametrize("name", ["pcodec", "zfpy"])
def test_numbers_of_another_chunk_are_refused(name: str) -> None:
    pytest.importorskip(name)
    encoded = resolve("<f8", (8, 8), codec(name)).encode(np.ones((8, 8)))
    with pytest.raises(CodecError):
        resolve("<f8", (5, 12), codec(name)).decode(encoded)
    with pytest.raises(CodecError):
        resolve("<f4", (8, 8), codec(name)).decode(encoded)


@pytest.mark.parametrize("name", ["pcodec", "zfpy"])
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedMetadataError, match="pip install"):
        resolve("<f8", (4,), codec(name))


@pytest.mark.parametrize("data", [b"", b"\x09", b"\x01", b"\x03\xff\xff"])
def test_packed_bits_of_another_array_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        resolve("|b1", (8,), codec("packbits"), {"name": "bytes"}).decode(data)


def test_variable_types_have_no_filters() -> None:
    spec = ArraySpec((4,), np.dtype(object), np.array("", object))
    with pytest.raises(InvalidMetadataError):
        CodecPipeline.resolve([codec("delta", dtype="<i4"), LITTLE], spec)
