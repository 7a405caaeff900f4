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
from aiozarr.codecs.bitround import BitroundCodec
from aiozarr.codecs.blosc import BloscCodec
from aiozarr.codecs.bytes import BytesCodec
from aiozarr.codecs.cast_value import CastValueCodec
from aiozarr.codecs.chain import CodecChain, NamedCodec
from aiozarr.codecs.crc32c import Crc32cCodec
from aiozarr.codecs.gzip import GzipCodec
from aiozarr.codecs.n5_default import N5DefaultCodec
from aiozarr.codecs.numcodecs.arrays import (
    NumcodecsAsTypeCodec,
    NumcodecsBitRoundCodec,
    NumcodecsDeltaCodec,
    NumcodecsFixedScaleOffsetCodec,
    NumcodecsPackBitsCodec,
    NumcodecsQuantizeCodec,
)
from aiozarr.codecs.numcodecs.bytes import NumcodecsBase64Codec, NumcodecsShuffleCodec
from aiozarr.codecs.numcodecs.checksums import (
    NumcodecsAdler32Codec,
    NumcodecsCrc32cCodec,
    NumcodecsCrc32Codec,
    NumcodecsFletcher32Codec,
    NumcodecsJenkinsLookup3Codec,
)
from aiozarr.codecs.numcodecs.deflate import NumcodecsBz2Codec, NumcodecsLzmaCodec, NumcodecsZlibCodec
from aiozarr.codecs.numcodecs.lz4 import NumcodecsLz4Codec
from aiozarr.codecs.numcodecs.native import NumcodecsBloscCodec, NumcodecsGzipCodec, NumcodecsZstdCodec
from aiozarr.codecs.numcodecs.numbers import NumcodecsPcodecCodec, NumcodecsZfpyCodec
from aiozarr.codecs.packbits import PackbitsCodec
from aiozarr.codecs.pipeline import CodecPipeline
from aiozarr.codecs.registry import get_codec, register
from aiozarr.codecs.reshape import ReshapeCodec, SingletonDimCodec, SqueezeCodec
from aiozarr.codecs.scale_offset import ScaleOffsetCodec
from aiozarr.codecs.shard_index import ShardIndex
from aiozarr.codecs.shard_layout import ShardLayout
from aiozarr.codecs.sharding import ShardingCodec
from aiozarr.codecs.transpose import TransposeCodec
from aiozarr.codecs.v2.elements import V2ElementsCodec
from aiozarr.codecs.vlen import VlenBytesCodec, VlenUtf8Codec
from aiozarr.codecs.zfp import ZfpCodec
from aiozarr.codecs.zstd import ZstdCodec

__all__ = [
    "JSON",
    "AnyArray",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "BitroundCodec",
    "BloscCodec",
    "BytesBytesCodec",
    "BytesCodec",
    "CastValueCodec",
    "Codec",
    "CodecChain",
    "CodecPipeline",
    "Crc32cCodec",
    "GzipCodec",
    "N5DefaultCodec",
    "NamedCodec",
    "NumcodecsAdler32Codec",
    "NumcodecsAsTypeCodec",
    "NumcodecsBase64Codec",
    "NumcodecsBitRoundCodec",
    "NumcodecsBloscCodec",
    "NumcodecsBz2Codec",
    "NumcodecsCrc32Codec",
    "NumcodecsCrc32cCodec",
    "NumcodecsDeltaCodec",
    "NumcodecsFixedScaleOffsetCodec",
    "NumcodecsFletcher32Codec",
    "NumcodecsGzipCodec",
    "NumcodecsJenkinsLookup3Codec",
    "NumcodecsLz4Codec",
    "NumcodecsLzmaCodec",
    "NumcodecsPackBitsCodec",
    "NumcodecsPcodecCodec",
    "NumcodecsQuantizeCodec",
    "NumcodecsShuffleCodec",
    "NumcodecsZfpyCodec",
    "NumcodecsZlibCodec",
    "NumcodecsZstdCodec",
    "PackbitsCodec",
    "ReadBytes",
    "Region",
    "ReshapeCodec",
    "ScaleOffsetCodec",
    "ShardIndex",
    "ShardLayout",
    "ShardingCodec",
    "SingletonDimCodec",
    "SqueezeCodec",
    "TransposeCodec",
    "V2ElementsCodec",
    "VlenBytesCodec",
    "VlenUtf8Codec",
    "ZfpCodec",
    "ZstdCodec",
    "get_codec",
    "register",
]
