"""The codecs of aiozarr: the one list of their names and classes, by module, which imports none of them."""

CODECS = {
    "compressors.blosc": "blosc:BloscCodec",
    "compressors.crc32c": "crc32c:Crc32cCodec",
    "compressors.gzip": "gzip:GzipCodec",
    "compressors.zstd": "zstd:ZstdCodec",
    "dimensions": (
        "reshape:ReshapeCodec singleton_dim:SingletonDimCodec transpose:TransposeCodec zarrs.squeeze:SqueezeCodec"
    ),
    "numcodecs.filters": (
        "numcodecs.astype:NumcodecsAsTypeCodec numcodecs.bitround:NumcodecsBitRoundCodec "
        "numcodecs.delta:NumcodecsDeltaCodec numcodecs.fixedscaleoffset:NumcodecsFixedScaleOffsetCodec "
        "numcodecs.packbits:NumcodecsPackBitsCodec numcodecs.quantize:NumcodecsQuantizeCodec"
    ),
    "numcodecs.byte_filters": (
        "numcodecs.adler32:NumcodecsAdler32Codec numcodecs.base64:NumcodecsBase64Codec "
        "numcodecs.crc32:NumcodecsCrc32Codec numcodecs.crc32c:NumcodecsCrc32cCodec "
        "numcodecs.fletcher32:NumcodecsFletcher32Codec "
        "numcodecs.jenkins_lookup3:NumcodecsJenkinsLookup3Codec numcodecs.shuffle:NumcodecsShuffleCodec"
    ),
    "numcodecs.compressors": (
        "numcodecs.blosc:NumcodecsBloscCodec numcodecs.bz2:NumcodecsBz2Codec "
        "numcodecs.gzip:NumcodecsGzipCodec numcodecs.lz4:NumcodecsLz4Codec numcodecs.lzma:NumcodecsLzmaCodec "
        "numcodecs.zlib:NumcodecsZlibCodec numcodecs.zstd:NumcodecsZstdCodec"
    ),
    "numcodecs.numbers": "numcodecs.pcodec:NumcodecsPcodecCodec numcodecs.zfpy:NumcodecsZfpyCodec",
    "bitround": "bitround:BitroundCodec",
    "cast_value": "cast_value:CastValueCodec",
    "scale_offset": "scale_offset:ScaleOffsetCodec",
    "serializers.bytes": "bytes:BytesCodec",
    "serializers.n5_default": "n5_default:N5DefaultCodec",
    "serializers.packbits": "packbits:PackbitsCodec",
    "serializers.sharding": "sharding_indexed:ShardingCodec",
    "serializers.vlen": "vlen-bytes:VlenBytesCodec vlen-utf8:VlenUtf8Codec",
    "serializers.zfp": "zfp:ZfpCodec",
    "v2_elements": "v2_elements:V2ElementsCodec",
}
"""By module: the name in documents and the class of each codec."""


def listed(part: int) -> dict[str, str]:
    """Return the names (`part` 0) or classes (1) of each module, separated by spaces."""
    return {module: " ".join([pair.split(":")[part] for pair in pairs.split()]) for module, pairs in CODECS.items()}
