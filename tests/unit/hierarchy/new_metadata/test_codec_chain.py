"""Short forms of codecs become the full metadata of format 3."""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
import pytest

import aiozarr
from aiozarr.codecs import get_codec
from aiozarr.codecs.gzip import GzipCodec
from aiozarr.stores import MemoryStore

BYTES = ("bytes", {"endian": "little"})


async def names(codecs: Any, dtype: Any = "i4", **options: Any) -> list[tuple[str, dict[str, Any]]]:
    store = MemoryStore()
    array = await aiozarr.create_array(store, shape=(4, 4), dtype=dtype, codecs=codecs, **options)
    await array[...].write(np.ones((4, 4), array.dtype) if array.dtype.kind != "T" else "x")
    opened = await aiozarr.open_array(store)
    assert opened.metadata == array.metadata
    return [(codec.name, dict(codec.configuration)) for codec in opened.metadata.codecs]


@pytest.mark.parametrize(
    ("codecs", "expected"),
    [
        (["zstd"], [BYTES, ("zstd", {"level": 3, "checksum": False})]),
        ([{"name": "zstd", "level": 9}], [BYTES, ("zstd", {"level": 9, "checksum": False})]),
        ([{"name": "zstd", "configuration": {"level": 9}}], [BYTES, ("zstd", {"level": 9, "checksum": False})]),
        ([numcodecs.Zstd(9)], [BYTES, ("zstd", {"level": 9, "checksum": False})]),
        ([numcodecs.GZip(3)], [BYTES, ("gzip", {"level": 3})]),
        ([{"id": "zstd", "level": 1}], [BYTES, ("zstd", {"level": 1, "checksum": False})]),
        ([{"name": "bytes", "endian": "big"}, "crc32c"], [("bytes", {"endian": "big"}), ("crc32c", {})]),
        (
            [{"name": "blosc", "cname": "lz4"}],
            [BYTES, ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0, "typesize": 4})],
        ),
        (
            [numcodecs.Blosc("zlib", 1, numcodecs.Blosc.BITSHUFFLE)],
            [BYTES, ("blosc", {"cname": "zlib", "clevel": 1, "shuffle": "bitshuffle", "blocksize": 0, "typesize": 4})],
        ),
        ([], [BYTES]),
    ],
)
async def test_short_forms_are_completed(codecs: Any, expected: Any) -> None:
    assert await names(codecs) == expected


@pytest.mark.parametrize("name", ["gzip", "zstd", "blosc", "crc32c"])
async def test_a_name_alone_has_the_configuration_of_the_codec_class(name: str) -> None:
    kind = get_codec(name)
    default = {**kind.default_configuration}
    assert await names([name], "u1") == [("bytes", {}), (name, default)]
    assert kind.from_json(default).to_json() == default


def test_gzip_has_one_default_level() -> None:
    assert GzipCodec.default_configuration == GzipCodec().to_json() == {"level": 5}


async def test_codecs_before_the_bytes_stay_before_them() -> None:
    assert [name for name, _ in await names([{"name": "transpose", "order": [1, 0]}, "zstd"])] == [
        "transpose",
        "bytes",
        "zstd",
    ]
    assert [name for name, _ in await names(["zstd"], dtype=str)] == ["vlen-utf8", "zstd"]


async def test_numcodecs_without_a_registered_twin_keep_their_name() -> None:
    assert [name for name, _ in await names([numcodecs.LZ4()])] == ["bytes", "numcodecs.lz4"]


async def test_inner_codecs_of_shards_are_as_short() -> None:
    [(name, configuration)] = await names([{"name": "sharding_indexed", "chunk_shape": [2, 2], "codecs": ["zstd"]}])
    assert name == "sharding_indexed"
    assert [codec["name"] for codec in configuration["codecs"]] == ["bytes", "zstd"]
    assert [codec["name"] for codec in configuration["index_codecs"]] == ["bytes", "crc32c"]


@pytest.mark.parametrize(
    ("codecs", "error", "text"),
    [
        (["zsdt"], aiozarr.UnsupportedMetadataError, "unknown codec 'zsdt'; did you mean 'zstd'?"),
        (3, TypeError, r"codecs must be a list of codecs, such as codecs=\['zstd'\], not 3"),
        ([{"level": 3}], TypeError, "a codec needs a name, unlike {'level': 3}"),
        ([3], TypeError, "a codec is a name, a mapping, a Codec or a codec of numcodecs, not int"),
        (
            [{"name": "zstd", "level": 3, "configuration": {"level": 3}}],
            ValueError,
            "the parameter 'level' of 'zstd' belongs in its configuration",
        ),
    ],
)
async def test_other_forms_are_refused_with_advice(codecs: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace("?", r"\?")):
        await names(codecs)
