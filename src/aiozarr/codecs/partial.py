"""Decoding of regions through a whole chain of codecs, as far as each of them can do with less than everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from typing_extensions import Buffer

from aiozarr.codecs.base import AnyArray, ArraySpec, BytesBytesCodec, ReadBytes, Region, view_region
from aiozarr.codecs.chain import CodecChain
from aiozarr.model import ByteRange, resolve_range


def read_decoded(
    chain: CodecChain,
    specs: Sequence[ArraySpec],
    decode: Callable[[Buffer], AnyArray],
    read: ReadBytes,
    regions: Sequence[Region],
) -> list[AnyArray]:
    """Return the elements of each region of the decoded array.

    Args:
        chain: the codecs.
        specs: the array representation before each array -> array codec, and the one that becomes bytes.
        decode: decodes the whole encoded array, for chains that cannot do with less.
        read: gives encoded bytes.
        regions: slices of step 1, one for each dimension.
    """
    stages = _encode_regions(chain, specs, regions)
    sizes = _sizes(chain, specs[-1])
    if stages is None or sizes is None:
        whole = decode(read(None))
        return [view_region(whole, region) for region in regions]
    for codec, size in zip(reversed(chain.bytes_bytes), reversed(sizes), strict=True):
        read = _Through(codec, size, read)
    arrays = chain.array_bytes.partial_decode(read, specs[-1], stages[-1])
    for step, spec, before in zip(reversed(chain.array_array), specs[-2::-1], stages[-2::-1], strict=True):
        arrays = [
            step.decode(array, replace(spec, shape=_shape(region, spec)))
            for array, region in zip(arrays, before, strict=True)
        ]
    return arrays


def _encode_regions(
    chain: CodecChain, specs: Sequence[ArraySpec], regions: Sequence[Region]
) -> list[list[Region]] | None:
    stages = [list(regions)]
    for codec, spec in zip(chain.array_array, specs, strict=False):
        encoded = [codec.encode_region(region, spec) for region in stages[-1]]
        known = [region for region in encoded if region is not None]
        if len(known) < len(encoded):
            return None
        stages.append(known)
    return stages


def _sizes(chain: CodecChain, spec: ArraySpec) -> list[int] | None:
    """Return the number of bytes before each bytes -> bytes codec; None where one of them varies."""
    sizes: list[int] = []
    size = chain.array_bytes.compute_encoded_size(spec)
    for codec in chain.bytes_bytes:
        if size is None:
            return None
        sizes.append(size)
        size = codec.compute_encoded_size(size)
    return sizes


def _shape(region: Region, spec: ArraySpec) -> tuple[int, ...]:
    return tuple(len(range(*part.indices(length))) for part, length in zip(region, spec.shape, strict=True))


class _Through:
    """Reads decoded bytes of one bytes -> bytes codec; what it had to decode whole, it keeps."""

    def __init__(self, codec: BytesBytesCodec, size: int, read: ReadBytes) -> None:
        self._codec = codec
        self._size = size
        self._read = read
        self._whole: memoryview | None = None

    def __call__(self, byte_range: ByteRange | None) -> Buffer:
        if self._whole is None and byte_range is not None:
            parts = self._codec.partial_decode(self._read, self._size, [byte_range])
            if parts is not None:
                return parts[0]
        if self._whole is None:
            self._whole = memoryview(self._codec.decode(self._read(None), max_size=self._size)).cast("B")
        start, stop = resolve_range(len(self._whole), byte_range)
        return self._whole[start:stop]
