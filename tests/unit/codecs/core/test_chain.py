"""Codec lists of metadata documents: the built chain, and the member that an error names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, BytesBytesCodec, CodecPipeline, get_codec, register_codec
from aiozarr.errors import InvalidMetadataError, MetadataError, UnsupportedMetadataError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 0}}
CRC = {"name": "crc32c"}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
SPEC = ArraySpec((4, 6), np.dtype("<f4"), np.array(0, "<f4"))


def sharding(codecs: Any = (BYTES,), **configuration: Any) -> dict[str, Any]:
    members = {"chunk_shape": [2, 3], "codecs": list(codecs), "index_codecs": [BYTES, CRC], **configuration}
    return {"name": "sharding_indexed", "configuration": members}


def blosc(**configuration: Any) -> dict[str, Any]:
    members = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0, **configuration}
    return {"name": "blosc", "configuration": {key: value for key, value in members.items() if value is not None}}


def resolve(codecs: Any, spec: ArraySpec = SPEC) -> CodecPipeline:
    return CodecPipeline.resolve(codecs, spec)


@pytest.mark.parametrize(
    "codecs",
    [
        [BYTES],
        [TRANSPOSE, BYTES, CRC],
        [BYTES, {"name": "zstd", "configuration": {"level": -3, "checksum": True}}],
        [BYTES, {"name": "gzip", "configuration": {"level": 9}}, CRC],
        [BYTES, blosc()],
        [BYTES, blosc(shuffle="noshuffle", typesize=None)],
        [sharding([TRANSPOSE, BYTES, ZSTD], index_location="start")],
        [sharding([sharding(chunk_shape=[1, 3])]), CRC],
    ],
)
def test_the_json_of_a_pipeline_resolves_to_equal_codecs(codecs: list[Any]) -> None:
    pipeline = resolve(codecs)
    again = resolve(pipeline.to_json())
    assert again.codecs == pipeline.codecs
    assert again.to_json() == pipeline.to_json()
    assert [codec["name"] for codec in pipeline.to_json()] == [codec["name"] for codec in codecs]


def test_codecs_of_numcodecs_are_written_with_a_configuration_inside_of_shards_too() -> None:
    checked = [BYTES, {"name": "numcodecs.fletcher32"}]
    (written,) = resolve([sharding(checked)]).to_json()
    assert written["configuration"]["codecs"] == [BYTES, {"name": "numcodecs.fletcher32", "configuration": {}}]


def test_codecs_come_as_json_as_names_or_as_objects_with_a_name_and_a_configuration() -> None:
    expected = resolve([BYTES, CRC]).codecs
    named = [SimpleNamespace(**BYTES), SimpleNamespace(name="crc32c", configuration={}, must_understand=True)]
    assert resolve(named).codecs == expected
    assert resolve([BYTES, "crc32c"]).codecs == expected


def test_the_old_name_endian_is_read_and_the_new_one_written() -> None:
    assert resolve([{"name": "endian", "configuration": {"endian": "big"}}]).to_json() == [
        {"name": "bytes", "configuration": {"endian": "big"}}
    ]


def test_an_unknown_codec_is_skipped_only_if_it_need_not_be_understood() -> None:
    with pytest.raises(UnsupportedMetadataError, match="made_up") as caught:
        resolve([BYTES, {"name": "made_up", "configuration": {}}])
    assert (caught.value.member, caught.value.point, caught.value.name) == ("codecs[1].name", "codec", "made_up")
    optional = {"name": "made_up", "configuration": {}, "must_understand": False}
    assert resolve([BYTES, optional]).codecs == resolve([BYTES]).codecs
    with pytest.raises(UnsupportedMetadataError):
        resolve([BYTES, {**optional, "must_understand": True}])


@pytest.mark.parametrize(
    ("codecs", "member"),
    [
        ([], "codecs"),
        ({}, "codecs"),
        ("bytes", "codecs"),
        ([CRC], "codecs[0]"),
        ([TRANSPOSE], "codecs"),
        ([BYTES, BYTES], "codecs[1]"),
        ([ZSTD, BYTES], "codecs[0]"),
        ([BYTES, TRANSPOSE], "codecs[1]"),
        ([BYTES, sharding()], "codecs[1]"),
        ([3], "codecs[0]"),
        ([{"configuration": {}}], "codecs[0].name"),
        ([{"name": "bytes", "configuration": []}], "codecs[0].configuration"),
        ([{"name": "bytes", "must_understand": 1}], "codecs[0].must_understand"),
    ],
)
def test_invalid_chains_are_refused(codecs: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        resolve(codecs)
    assert caught.value.member == member


@pytest.mark.parametrize(
    ("codecs", "member"),
    [
        ([{"name": "bytes"}], "codecs[0].configuration.endian"),
        ([{"name": "bytes", "configuration": {"endian": "middle"}}], "codecs[0].configuration.endian"),
        ([{"name": "transpose", "configuration": {}}, BYTES], "codecs[0].configuration.order"),
        *(
            ([{"name": "transpose", "configuration": {"order": order}}, BYTES], "codecs[0].configuration.order")
            for order in ("F", "C", [0, 0], [-1, 0], [0, 1, 2], [0], [0, 2], [True, False], [1.0, 0.0], {}, 10**400)
        ),
        *(
            ([BYTES, {"name": "gzip", "configuration": level}], "codecs[1].configuration.level")
            for level in ({"level": 10}, {"level": -1}, {"level": "5"}, {"level": True}, {"level": 5.0}, {})
        ),
        ([BYTES, {"name": "zstd", "configuration": {"level": 23}}], "codecs[1].configuration.level"),
        ([BYTES, {"name": "zstd", "configuration": {}}], "codecs[1].configuration.level"),
        ([BYTES, {"name": "zstd", "configuration": {"level": 1, "checksum": 1}}], "codecs[1].configuration.checksum"),
        ([BYTES, blosc(cname="nope")], "codecs[1].configuration.cname"),
        ([BYTES, blosc(clevel=10)], "codecs[1].configuration.clevel"),
        ([BYTES, blosc(shuffle=1)], "codecs[1].configuration.shuffle"),
        ([BYTES, blosc(shuffle=["shuffle"])], "codecs[1].configuration.shuffle"),
        ([BYTES, blosc(typesize=0)], "codecs[1].configuration.typesize"),
        ([BYTES, blosc(typesize=None)], "codecs[1].configuration.typesize"),
        ([BYTES, blosc(blocksize=-1)], "codecs[1].configuration.blocksize"),
        ([BYTES, blosc(blocksize=None)], "codecs[1].configuration.blocksize"),
        ([sharding(chunk_shape=[3, 3])], "codecs[0].configuration.chunk_shape"),
        ([sharding(chunk_shape=[2])], "codecs[0].configuration.chunk_shape"),
        ([sharding(chunk_shape=[0, 3])], "codecs[0].configuration.chunk_shape"),
        ([sharding(chunk_shape=[8, 12])], "codecs[0].configuration.chunk_shape"),
        ([sharding(index_location="middle")], "codecs[0].configuration.index_location"),
        ([sharding(index_codecs=[BYTES, ZSTD])], "codecs[0].configuration.index_codecs"),
        ([sharding(index_codecs=[sharding(chunk_shape=[1, 1, 2])])], "codecs[0].configuration.index_codecs"),
        ([sharding(index_codecs=[{"name": "bytes"}])], "codecs[0].configuration.index_codecs[0].configuration.endian"),
        ([sharding(codecs=[])], "codecs[0].configuration.codecs"),
        (
            [TRANSPOSE, sharding(chunk_shape=[3, 2], codecs=[{"name": "bytes"}])],
            "codecs[1].configuration.codecs[0].configuration.endian",
        ),
        (
            [sharding(codecs=[BYTES, {"name": "gzip", "configuration": {"level": 42}}])],
            "codecs[0].configuration.codecs[1].configuration.level",
        ),
    ],
)
def test_errors_of_configurations_name_the_member(codecs: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        resolve(codecs)
    assert caught.value.member == member
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("member", ["chunk_shape", "codecs", "index_codecs"])
def test_sharding_needs_its_members(member: str) -> None:
    config = sharding()
    del config["configuration"][member]
    with pytest.raises(InvalidMetadataError) as caught:
        resolve([config])
    assert caught.value.member == f"codecs[0].configuration.{member}"


def test_an_unknown_member_of_a_configuration_is_refused_unless_it_need_not_be_understood() -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        resolve([BYTES, {"name": "crc32c", "configuration": {"seed": 1}}])
    assert caught.value.member == "codecs[1].configuration.seed"
    resolve([BYTES, {"name": "crc32c", "configuration": {"hint": {"must_understand": False}}}])
    with pytest.raises(UnsupportedMetadataError):
        resolve([{**BYTES, "extra": 1}])


def nested(depth: int) -> dict[str, Any]:
    config = BYTES
    for _ in range(depth):
        config = sharding([config])
    return config


def test_four_nested_shards_are_read_and_more_are_refused_without_recursion() -> None:
    assert resolve([nested(4)]).shard is not None
    for depth in (5, 200, 20_000):
        with pytest.raises(UnsupportedMetadataError, match="nested"):
            resolve([nested(depth)])


def test_a_list_of_a_hundred_thousand_codecs_is_refused_before_any_is_built() -> None:
    class Untouched:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    with pytest.raises(UnsupportedMetadataError, match="100000 codecs"):
        resolve([Untouched()] * 100_000)


def test_pickle_is_refused() -> None:
    for name in ("pickle", "PICKLE", "numcodecs.pickle"):
        with pytest.raises(UnsupportedMetadataError):
            resolve([BYTES, {"name": name, "configuration": {}}])


def test_a_type_without_byte_order_needs_no_endianness() -> None:
    for dtype in ("u1", "i1", "?", "V3", "V16"):
        resolve([{"name": "bytes"}], ArraySpec((2,), np.dtype(dtype), np.zeros((), dtype)))
    with pytest.raises(MetadataError):
        resolve([{"name": "bytes"}], ArraySpec((2,), np.dtype("c8"), np.zeros((), "c8")))
    with pytest.raises(UnsupportedMetadataError):
        resolve([BYTES], ArraySpec((2,), np.dtype("O"), np.array(None, "O")))


class Reversed(BytesBytesCodec):
    """A third party's codec."""

    name = "tests.reversed"

    @classmethod
    def from_json(cls, configuration: Any) -> Reversed:
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {}

    def encode(self, data: Any) -> Any:
        return bytes(data)[::-1]

    def decode(self, data: Any, *, max_size: int, out: memoryview | None = None) -> Any:
        return bytes(data)[::-1]

    def compute_encoded_size(self, size: int) -> int:
        return size


def test_a_registered_class_is_used_by_its_name() -> None:
    assert register_codec(Reversed) is Reversed
    assert get_codec("tests.reversed") is Reversed
    pipeline = resolve([BYTES, {"name": "tests.reversed"}])
    values = np.arange(24, dtype="<f4").reshape(4, 6)
    encoded = pipeline.encode(values)
    assert bytes(encoded) == values.tobytes()[::-1]
    assert np.array_equal(pipeline.decode(encoded, np.empty((4, 6), "<f4")), values)


def test_only_concrete_codecs_with_a_name_can_be_registered() -> None:
    class Nameless(Reversed):
        name = ""

    for bad in (int, "bytes", BytesBytesCodec, Nameless):
        with pytest.raises(TypeError):
            register_codec(bad)  # type: ignore[type-var]
