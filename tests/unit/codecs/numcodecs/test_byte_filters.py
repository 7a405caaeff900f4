"""Compressors and checksums of numcodecs: the same bytes as numcodecs, and bounded output for hostile input."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.codecs import BytesBytesCodec, get_codec
from aiozarr.codecs.chain import strict_copy
from aiozarr.codecs.codec import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.v2_elements import BYTES_CODEC_IDS
from aiozarr.errors import ChecksumError, CodecError, InvalidMetadataError, UnsupportedMetadataError
from tests.support.inflate_libraries import inflating

__all__ = ["inflating"]

CONFIGS: list[dict[str, Any]] = [
    {"id": "blosc"},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": -1, "blocksize": 64},
    {"id": "blosc", "cname": "zlib", "clevel": 0, "shuffle": 2, "typesize": 4},
    {"id": "zstd", "level": -5},
    {"id": "zstd", "level": 100, "checksum": True},
    {"id": "zlib"},
    {"id": "zlib", "level": -1},
    {"id": "gzip", "level": 9},
    {"id": "bz2", "level": 3},
    {"id": "lzma"},
    {"id": "lzma", "format": 1, "check": 0, "preset": 1},
    {"id": "lzma", "format": 2},
    {"id": "lzma", "format": 3, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]},
    {"id": "lz4", "acceleration": -1},
    {"id": "shuffle", "elementsize": 1},
    {"id": "shuffle", "elementsize": 0},
    {"id": "base64"},
    {"id": "crc32"},
    {"id": "crc32", "location": "end"},
    {"id": "crc32c"},
    {"id": "adler32"},
    {"id": "fletcher32"},
    {"id": "jenkins_lookup3", "initval": 7},
]
COMPRESSORS = ("blosc", "zstd", "zlib", "gzip", "bz2", "lzma", "lz4")
CHECKSUMS = ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")


def build(config: dict[str, Any]) -> BytesBytesCodec:
    codec = get_codec(f"numcodecs.{config['id']}").from_json({k: v for k, v in config.items() if k != "id"})
    assert isinstance(codec, BytesBytesCodec)
    return codec


def oracle(config: dict[str, Any]) -> Any:
    return numcodecs.get_codec(config)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@given(data=st.binary(min_size=1, max_size=600).map(lambda part: part * 3))
def test_numcodecs_reads_our_bytes_and_we_read_its_bytes(config: dict[str, Any], data: bytes) -> None:
    codec, peer = build(config), oracle(config)
    assert bytes(peer.decode(bytes(codec.encode(data)))) == data
    assert bytes(codec.decode(bytes(peer.encode(data)), max_size=len(data))) == data


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_configuration_round_trips(config: dict[str, Any]) -> None:
    codec = build(config)
    assert type(codec).from_json(codec.to_json()) == codec


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@given(damage=st.data())
def test_damaged_bytes_give_a_codec_error_or_bounded_data(config: dict[str, Any], damage: st.DataObject) -> None:
    codec = build(config)
    good = bytearray(codec.encode(bytes(range(200)) * 2))
    for _ in range(damage.draw(st.integers(1, 4))):
        good[damage.draw(st.integers(0, len(good) - 1))] = damage.draw(st.integers(0, 255))
    cut = bytes(good[: damage.draw(st.integers(0, len(good)))])
    try:
        decoded = codec.decode(cut, max_size=500)
    except CodecError as error:
        refused_by = error.codec
        assert refused_by == codec.name  # that it is refused is not certain
        return
    assert len(memoryview(decoded)) <= 500


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_bomb_stops_at_the_bound(name: str) -> None:
    codec = build({"id": name})
    bomb = codec.encode(bytes(1 << 22))
    with pytest.raises(CodecError):
        codec.decode(bomb, max_size=64)


@pytest.mark.parametrize("name", [*COMPRESSORS, *CHECKSUMS])
def test_empty_input_is_refused(name: str) -> None:
    codec = build({"id": name})
    with pytest.raises(CodecError):
        codec.decode(b"", max_size=4)


@pytest.mark.parametrize("name", CHECKSUMS)
def test_a_changed_byte_fails_the_checksum(name: str) -> None:
    codec = build({"id": name})
    data = bytearray(codec.encode(b"some content here"))
    data[9] ^= 1
    with pytest.raises(ChecksumError):
        codec.decode(bytes(data), max_size=100)


@pytest.mark.parametrize("name", CHECKSUMS)
def test_the_checksum_of_empty_content_is_checked(name: str) -> None:
    codec = build({"id": name})
    assert bytes(codec.decode(codec.encode(b""), max_size=0)) == b""


@pytest.mark.parametrize("excess", [b"\0", bytes(5000), b"junk"])
@pytest.mark.parametrize("name", ["zlib", "bz2", "lzma", "gzip", "blosc", "zstd"])
def test_bytes_after_the_data_are_ignored_unless_strict(name: str, excess: bytes) -> None:
    codec = build({"id": name})
    encoded = bytes(codec.encode(b"content")) + excess
    assert bytes(codec.decode(encoded, max_size=7)) == b"content"
    with pytest.raises(CodecError):
        codec.decode(encoded, max_size=6)
    with pytest.raises(CodecError):
        strict_copy(codec).decode(encoded, max_size=100)


@pytest.mark.parametrize("name", ["bz2", "lzma", "gzip", "zstd"])
def test_adjacent_streams_are_one_value(name: str) -> None:
    codec = build({"id": name})
    encoded = bytes(codec.encode(b"one ")) + bytes(codec.encode(b"two"))
    assert bytes(codec.decode(encoded, max_size=100)) == b"one two"


@pytest.mark.parametrize("claim", [-1, -(2**31), 2**31 - 1, 1000, 0])
def test_a_wrong_lz4_size_is_refused(claim: int) -> None:
    codec = build({"id": "lz4"})
    honest = bytes(codec.encode(b"abcdefgh" * 4))
    with pytest.raises(CodecError):
        codec.decode(struct.pack("<i", claim) + honest[4:], max_size=2**31)


def test_an_lzma_dictionary_of_4_gib_is_refused() -> None:
    alone = bytearray(lzma.compress(b"content", lzma.FORMAT_ALONE))
    alone[1:5] = b"\xff\xff\xff\xff"
    with pytest.raises(CodecError, match="cannot decompress"):
        build({"id": "lzma", "format": 2}).decode(bytes(alone), max_size=100)
    with pytest.raises(InvalidMetadataError):
        build({"id": "lzma", "format": 3, "filters": [{"id": 33, "dict_size": 2**32 - 1}]})


def test_gdal_writes_the_delta_of_lzma_as_a_member() -> None:
    data = np.arange(1000, dtype="<i2").tobytes()
    with_delta = build({"id": "lzma", "preset": 6, "delta": 2})
    assert bytes(with_delta.decode(lzma.compress(data), max_size=len(data))) == data
    assert lzma.decompress(bytes(with_delta.encode(data))) == data
    assert len(bytes(with_delta.encode(data))) < len(bytes(build({"id": "lzma"}).encode(data)))
    assert build({"id": "lzma", "delta": None}) == build({"id": "lzma"})


def test_gdal_writes_the_checksum_of_zstd_as_a_word() -> None:
    assert build({"id": "zstd", "level": 13, "checksum": "NO"}) == build({"id": "zstd", "level": 13})
    assert build({"id": "zstd", "checksum": "YES"}) == build({"id": "zstd", "checksum": True})


@pytest.mark.parametrize("name", [name for name in COMPRESSORS if name != "lzma"])
def test_members_without_effect_on_decoding_are_tolerated(name: str) -> None:
    assert build({"id": name, "nthreads": 4}) == build({"id": name})


@pytest.mark.parametrize(
    "config",
    [
        {"id": "blosc", "cname": "brotli"},
        {"id": "blosc", "clevel": 10},
        {"id": "zlib", "level": "high"},
        {"id": "gzip", "level": None},
        {"id": "zstd", "checksum": "maybe"},
        {"id": "lzma", "format": 3},
        {"id": "lzma", "preset": 1, "filters": [{"id": 33}]},
        {"id": "lzma", "filters": [{"id": 99}]},
        {"id": "lzma", "filters": [{"id": 33, "surprise": 1}]},
        {"id": "shuffle", "elementsize": -1},
        {"id": "crc32", "location": "middle"},
    ],
    ids=str,
)
def test_invalid_parameters_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadataError):
        build(config)


@pytest.mark.parametrize("name", ["shuffle", "base64", *CHECKSUMS])
def test_an_unknown_member_that_could_matter_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedMetadataError):
        build({"id": name, "surprise": 1})


def test_a_shuffle_without_a_size_uses_that_of_the_elements() -> None:
    spec = ArraySpec((40,), np.dtype("<f8"), np.zeros((), "<f8"))
    array = np.linspace(0, 1, 40)
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "numcodecs.shuffle"}]
    encoded = bytes(CodecPipeline.resolve(codecs, spec).encode(array))
    assert encoded == bytes(numcodecs.Shuffle(8).encode(array))
    np.testing.assert_array_equal(CodecPipeline.resolve(codecs, spec).decode(encoded), array)


def test_blosc_knows_the_size_of_the_elements() -> None:
    spec = ArraySpec((1000,), np.dtype("<i4"), np.zeros((), "<i4"))
    array = np.arange(1000, dtype="<i4")
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "numcodecs.blosc"}]
    pipeline = CodecPipeline.resolve(codecs, spec)
    encoded = bytes(pipeline.encode(array))
    assert encoded == bytes(numcodecs.Blosc().encode(array))
    assert pipeline.to_json()[1]["configuration"] == {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}


def test_a_shuffle_of_a_partial_element_is_refused() -> None:
    codec = build({"id": "shuffle", "elementsize": 4})
    with pytest.raises(CodecError):
        codec.decode(b"12345", max_size=100)
    with pytest.raises(CodecError):
        codec.decode(b"12345678", max_size=7)


def test_all_ids_are_registered() -> None:
    assert {get_codec(f"numcodecs.{name}").name for name in BYTES_CODEC_IDS} == {
        f"numcodecs.{name}" for name in BYTES_CODEC_IDS
    }


def test_the_number_of_streams_is_bounded() -> None:
    empty = bz2.compress(b"")
    with pytest.raises(CodecError):
        build({"id": "bz2"}).decode(empty * 5000, max_size=10)


def test_truncated_zlib_is_refused() -> None:
    whole = zlib.compress(bytes(range(256)) * 8)
    for length in range(len(whole)):
        with pytest.raises(CodecError):
            build({"id": "zlib"}).decode(whole[:length], max_size=2048)


@pytest.mark.parametrize("name", ["numcodecs.pickle", "numcodecs.Pickle", "numcodecs.surprise"])
def test_pickle_and_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedMetadataError) as refused:
        get_codec(name)
    assert refused.value.name == name
