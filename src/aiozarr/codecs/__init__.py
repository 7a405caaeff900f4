"""Codecs: plain synchronous functions between arrays and bytes."""

from aiozarr.codecs.base import (
    JSON,
    AnyArray,
    ArrayArrayCodec,
    ArrayBytesCodec,
    ArraySpec,
    BytesBytesCodec,
    Codec,
    ReadBytes,
    Region,
)
from aiozarr.codecs.blosc import BloscCodec
from aiozarr.codecs.bytes import BytesCodec
from aiozarr.codecs.chain import CodecChain, NamedCodec
from aiozarr.codecs.crc32c import Crc32cCodec
from aiozarr.codecs.gzip import GzipCodec
from aiozarr.codecs.pipeline import CodecPipeline, default_codecs
from aiozarr.codecs.registry import get_codec, register
from aiozarr.codecs.shard_index import ShardIndex
from aiozarr.codecs.shard_layout import ShardLayout
from aiozarr.codecs.sharding import ShardingCodec
from aiozarr.codecs.transpose import TransposeCodec
from aiozarr.codecs.vlen import VlenBytesCodec, VlenUtf8Codec
from aiozarr.codecs.zstd import ZstdCodec

__all__ = [
    "JSON",
    "AnyArray",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "BloscCodec",
    "BytesBytesCodec",
    "BytesCodec",
    "Codec",
    "CodecChain",
    "CodecPipeline",
    "Crc32cCodec",
    "GzipCodec",
    "NamedCodec",
    "ReadBytes",
    "Region",
    "ShardIndex",
    "ShardLayout",
    "ShardingCodec",
    "TransposeCodec",
    "VlenBytesCodec",
    "VlenUtf8Codec",
    "ZstdCodec",
    "default_codecs",
    "get_codec",
    "register",
]
