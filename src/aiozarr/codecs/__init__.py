"""Codecs: plain synchronous functions between arrays and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.codecs.blosc import BloscCodec
    from aiozarr.codecs.bytes import BytesCodec
    from aiozarr.codecs.cast_value import CastValueCodec
    from aiozarr.codecs.chain import CodecChain, NamedCodec
    from aiozarr.codecs.chunk_layouts import ShardIndex, ShardLayout
    from aiozarr.codecs.codec import (
        JSON,
        AnyArray,
        ArrayArrayCodec,
        ArrayBytesCodec,
        ArraySpec,
        BytesBytesCodec,
        Codec,
        Region,
    )
    from aiozarr.codecs.codec_pipeline import CodecPipeline
    from aiozarr.codecs.crc32c import Crc32cCodec
    from aiozarr.codecs.dimensions import ReshapeCodec, TransposeCodec
    from aiozarr.codecs.gzip import GzipCodec
    from aiozarr.codecs.n5_default import N5DefaultCodec
    from aiozarr.codecs.number_filters import BitroundCodec, ScaleOffsetCodec
    from aiozarr.codecs.numcodecs_bytes import (
        NumcodecsAdler32Codec,
        NumcodecsBase64Codec,
        NumcodecsCrc32cCodec,
        NumcodecsCrc32Codec,
        NumcodecsFletcher32Codec,
        NumcodecsJenkinsLookup3Codec,
        NumcodecsShuffleCodec,
    )
    from aiozarr.codecs.numcodecs_compressors import (
        NumcodecsBloscCodec,
        NumcodecsBz2Codec,
        NumcodecsGzipCodec,
        NumcodecsLz4Codec,
        NumcodecsLzmaCodec,
        NumcodecsZlibCodec,
        NumcodecsZstdCodec,
    )
    from aiozarr.codecs.numcodecs_filters import (
        NumcodecsAsTypeCodec,
        NumcodecsBitRoundCodec,
        NumcodecsDeltaCodec,
        NumcodecsFixedScaleOffsetCodec,
        NumcodecsPackBitsCodec,
        NumcodecsQuantizeCodec,
    )
    from aiozarr.codecs.numcodecs_numbers import NumcodecsPcodecCodec, NumcodecsZfpyCodec
    from aiozarr.codecs.packbits import PackbitsCodec
    from aiozarr.codecs.registry import get_codec, register_codec
    from aiozarr.codecs.sharding import ShardingCodec
    from aiozarr.codecs.v2_elements import V2ElementsCodec
    from aiozarr.codecs.vlen import VlenBytesCodec, VlenUtf8Codec
    from aiozarr.codecs.zfp import ZfpCodec
    from aiozarr.codecs.zstd import ZstdCodec
else:
    from aiozarr.codecs.registry import listed

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **{f".{module}": classes for module, classes in listed(1).items()},
            ".chain": "CodecChain NamedCodec",
            ".codec": "JSON AnyArray ArrayArrayCodec ArrayBytesCodec ArraySpec BytesBytesCodec Codec Region",
            ".registry": "get_codec register_codec",
            ".codec_pipeline": "CodecPipeline",
            ".chunk_layouts": "ShardIndex ShardLayout",
        },
    )

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
    "Region",
    "ReshapeCodec",
    "ScaleOffsetCodec",
    "ShardIndex",
    "ShardLayout",
    "ShardingCodec",
    "TransposeCodec",
    "V2ElementsCodec",
    "VlenBytesCodec",
    "VlenUtf8Codec",
    "ZfpCodec",
    "ZstdCodec",
    "get_codec",
    "register_codec",
]
