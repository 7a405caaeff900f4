"""Hypothesis strategies for codecs of format 3, and for filters and compressors of formats 2 and 1.

All of them give back the bits that they were given, whatever these are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from aiozarr.codecs.bytes import has_byte_order

Codec: TypeAlias = dict[str, Any]
Draw: TypeAlias = Callable[..., Any]

_MANTISSA = {"float16": 10, "float32": 23, "float64": 52}
_N5 = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
_PCODEC = ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8")
_ZFP = ("i4", "i8", "f4", "f8")
_PACKED = ("b", "i", "u")
_CHECKSUMS = ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")
_ENDIANS = st.sampled_from(["little", "big"])


def named(name: str, **configuration: Any) -> Codec:
    """A codec as a document of format 3 writes it."""
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def numcodecs_bytes() -> st.SearchStrategy[Codec]:
    """Codecs of numcodecs that make bytes of bytes, by their configurations."""
    return st.one_of(
        st.builds(lambda level: {"id": "zlib", "level": level}, st.integers(0, 9)),
        st.builds(lambda level: {"id": "gzip", "level": level}, st.integers(0, 9)),
        st.builds(lambda level: {"id": "bz2", "level": level}, st.integers(1, 9)),
        st.builds(lambda level: {"id": "zstd", "level": level}, st.integers(-3, 9)),
        st.builds(lambda acceleration: {"id": "lz4", "acceleration": acceleration}, st.integers(1, 9)),
        st.sampled_from([1, 2]).map(
            lambda form: {"id": "lzma", "format": form, "check": -1, "preset": 1, "filters": None}
        ),
        blosc_options().map(lambda options: {"id": "blosc", **options}),
        st.sampled_from([{"id": "base64"}, *[{"id": each} for each in _CHECKSUMS]]),
    )


def blosc_options() -> st.SearchStrategy[dict[str, Any]]:
    """Options of blosc as numcodecs names them."""
    return st.builds(
        lambda cname, clevel, shuffle: {"cname": cname, "clevel": clevel, "shuffle": shuffle, "blocksize": 0},
        st.sampled_from(["lz4", "lz4hc", "blosclz", "zstd", "zlib"]),
        st.integers(0, 9),
        st.integers(0, 2),
    )


def v1_compressions() -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of `create_array` for the compression of an array of format 1."""
    lzma = {"format": 1, "check": -1, "preset": 1, "filters": None}
    options = blosc_options().map(lambda each: {key: each[key] for key in ("cname", "clevel", "shuffle")})
    return st.one_of(
        st.sampled_from([{}, {"compression": None}, {"compression": "lzma", "compression_opts": lzma}]),
        st.integers(1, 9).map(lambda level: {"compression": "zlib", "compression_opts": level}),
        st.integers(1, 9).map(lambda level: {"compression": "bz2", "compression_opts": level}),
        options.map(lambda each: {"compression": "blosc", "compression_opts": each}),
    )


@st.composite
def v2_codecs(draw: Draw, dtype: np.dtype[Any], objects: tuple[Codec, ...] = ()) -> dict[str, Any]:
    """Arguments of `create_array` for the filters and the compressor of an array of format 2.

    Elements are stored as `dtype` says; `objects` holds the filter that makes bytes of objects.
    """
    filters = [*objects]
    variable = dtype.kind in "OT"
    if not variable and draw(st.booleans()):
        filters += draw(st.lists(st.sampled_from(_v2_filters(dtype)), max_size=1))
    if (not variable or objects) and draw(st.booleans()):
        filters.append(draw(numcodecs_bytes()))
    given: dict[str, Any] = {"compressor": draw(st.none() | st.just("auto") | numcodecs_bytes())}
    # Where strings of any length imply their filter, none is given.
    return given if variable and not objects else {**given, "filters": filters or draw(st.sampled_from([None, "auto"]))}


def _v2_filters(dtype: np.dtype[Any]) -> list[Codec]:
    """Filters that move no bits of elements of `dtype`, or that move them back."""
    code = dtype.str
    found: list[Codec] = [{"id": "shuffle", "elementsize": dtype.itemsize}]
    if dtype.kind in "iu" and dtype.isbuiltin != 2:
        found += [{"id": "delta", "dtype": code}, {"id": "delta", "dtype": code, "astype": code}]
        if dtype.itemsize < 8:
            wide = f"{'>' if code[0] == '>' else '<'}i8"
            found.append({"id": "astype", "encode_dtype": wide, "decode_dtype": code})
            found.append({"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": code})
    if dtype.kind == "b":
        found.append({"id": "packbits"})
    if dtype.name in _MANTISSA and dtype.isnative:
        found.append({"id": "bitround", "keepbits": _MANTISSA[dtype.name]})
    if code in [f"<{each}" for each in _PCODEC]:
        found.append({"id": "pcodec", "level": 3})
    return found


@st.composite
def v3_codecs(draw: Draw, dtype: np.dtype[Any], ndim: int) -> list[Codec]:
    """Chains of codecs of the core, the registry and numcodecs for chunks of `dtype` and `ndim` dimensions."""
    order = list(draw(st.permutations(range(ndim))))
    chain = draw(st.sampled_from([[], [], *[[each] for each in _v3_array_codecs(dtype, order)]]))
    stored = np.dtype(np.uint8) if chain and chain[0]["name"] == "numcodecs.packbits" else dtype
    chain = [*chain, draw(_array_bytes(stored, ndim, plain=bool(chain)))]
    if chain[-1]["name"] == "bytes" and draw(st.booleans()):
        chain.append(named("numcodecs.shuffle", elementsize=stored.itemsize))
    return [*chain, *draw(st.lists(v3_bytes_codecs(stored), max_size=2))]


def v3_bytes_codecs(dtype: np.dtype[Any]) -> st.SearchStrategy[Codec]:
    """Codecs of format 3 that make bytes of bytes."""
    shuffles = ["noshuffle", "shuffle", "bitshuffle"]
    size = dtype.itemsize if dtype.kind not in "OT" and dtype.itemsize < 256 else 1
    return st.one_of(
        st.just(named("crc32c")),
        st.integers(0, 9).map(lambda level: named("gzip", level=level)),
        st.builds(
            lambda level, checksum: named("zstd", level=level, checksum=checksum), st.integers(-5, 9), st.booleans()
        ),
        blosc_options().map(
            lambda each: named("blosc", **{**each, "shuffle": shuffles[each["shuffle"]]}, typesize=size)
        ),
        numcodecs_bytes().map(
            lambda each: named(f"numcodecs.{each['id']}", **{key: value for key, value in each.items() if key != "id"})
        ),
    )


def _v3_array_codecs(dtype: np.dtype[Any], order: list[int]) -> list[Codec]:
    found = [named("transpose", order=order)] if order else []
    if order and dtype.kind not in "OT":
        found.append(named("reshape", shape=[list(range(len(order)))]))
    if dtype.isbuiltin == 2 or dtype.kind not in "iufb":
        return found
    code = dtype.str
    if dtype.kind in "iu":
        found += [named("numcodecs.delta", dtype=code), named("scale_offset", offset=0, scale=1)]
        if dtype.itemsize < 8:
            found.append(named("numcodecs.astype", encode_dtype="<i8", decode_dtype=code))
            found.append(named("cast_value", data_type="int64"))
    if dtype.kind == "b":
        found.append(named("numcodecs.packbits"))
    if dtype.kind == "f":
        found += [named(f"{prefix}bitround", keepbits=_MANTISSA[dtype.name]) for prefix in ("", "numcodecs.")]
    return found


@st.composite
def _array_bytes(draw: Draw, dtype: np.dtype[Any], ndim: int, *, plain: bool) -> Codec:
    """The codec that makes bytes of an array; `plain`: one that takes the output of any other codec."""
    if dtype.kind in "OT":
        return named("vlen-utf8" if dtype.kind == "T" else "vlen-bytes")
    elements = named("bytes", endian=draw(_ENDIANS)) if plain or has_byte_order(dtype) else named("bytes")
    if plain or dtype.names is not None:
        return elements
    found = [elements, elements]
    numpys = dtype.isbuiltin != 2
    if (numpys and dtype.kind in _PACKED) or not numpys:
        found.append(named("packbits", padding_encoding=draw(st.sampled_from(["none", "first_byte", "last_byte"]))))
    code = dtype.str[1:]
    if numpys and code in _PCODEC:
        found.append(named("numcodecs.pcodec", level=draw(st.integers(0, 8))))
    if numpys and code in _ZFP and 1 <= ndim <= 4:
        found += [named("zfp", mode="reversible"), named("numcodecs.zfpy", mode=4, tolerance=-1)]
    if numpys and code in _N5 and ndim:
        inner = [named("transpose", order=list(range(ndim))[::-1]), named("bytes", endian="big")]
        found.append(named("n5_default", codecs=[*inner, *draw(st.sampled_from([[], [named("gzip", level=1)]]))]))
    chosen: Codec = draw(st.sampled_from(found))
    return chosen
