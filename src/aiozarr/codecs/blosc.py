"""The codec `blosc`: chunks of the Blosc 1 format. The header is checked before native code reads it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import lt
from struct import Struct, unpack_from
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numcodecs import blosc as _native  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs import blosc_snappy
from aiozarr.codecs.codec import JSON, BytesBytesCodec, FramedCodec, Span, byte_view, codec_errors
from aiozarr.codecs.registry import FieldsCodec, check_members, integer, one_of, register_codec
from aiozarr.errors import CodecError

_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_FORMAT_NAMES = ("blosclz", "lz4", "snappy", "zlib", "zstd")
_MAX_SIZE = 2**31 - 1
_FORMAT_VERSION = 2
_HAS_SNAPPY = "snappy" in _native.list_compressors()


@register_codec
@dataclass(frozen=True)
class BloscCodec(FieldsCodec, FramedCodec, BytesBytesCodec):
    """The codec `blosc` (codec specification "blosc").

    Attributes:
        cname: the inner compressor.
        clevel: 0 to 9.
        shuffle: "noshuffle", "shuffle" for bytes or "bitshuffle" for bits.
        typesize: bytes of an element for the shuffle; None only with "noshuffle".
        blocksize: bytes of a block, or 0 if Blosc chooses it.
    """

    name = "blosc"
    # The number of bytes in an element replaces the typesize.
    default_configuration: ClassVar[Mapping[str, JSON]] = {
        "cname": "zstd",
        "clevel": 5,
        "shuffle": "shuffle",
        "typesize": 1,
        "blocksize": 0,
    }
    cname: str
    clevel: int
    shuffle: str
    typesize: int | None
    blocksize: int

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("cname", "clevel", "shuffle", "typesize", "blocksize"), name=cls.name)
        shuffle = one_of(configuration, "shuffle", _SHUFFLES)
        untyped = shuffle == "noshuffle" and "typesize" not in configuration
        return cls(
            cname=one_of(configuration, "cname", _COMPRESSORS),
            clevel=integer(configuration, "clevel", 0, 9),
            shuffle=shuffle,
            typesize=None if untyped else integer(configuration, "typesize", 1, _MAX_SIZE),
            blocksize=integer(configuration, "blocksize", 0, _MAX_SIZE),
        )

    def encode(self, data: Buffer) -> Buffer:
        size = memoryview(data).nbytes
        if size > _MAX_SIZE - _native.MAX_OVERHEAD:
            raise CodecError(f"blosc takes less than 2 GiB, not {size} bytes", codec=self.name)
        shuffle, typesize = _SHUFFLES[self.shuffle], self.typesize or 1
        with codec_errors("compress", self.name, RuntimeError, ValueError):
            encoded: bytes = _native.compress(data, self.cname.encode(), self.clevel, shuffle, self.blocksize, typesize)
        return encoded

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        view = memoryview(data).cast("B")
        header = self._check_header(view, max_size)
        if header.cbytes < view.nbytes:
            view = view[: header.cbytes]
        if header.nbytes == 0:
            # The decoder treats a size of zero as an error.
            return b""
        if header.flags & COPIED and out is None:
            return view[FORMAT.size :]
        if _needs_snappy(header):
            with codec_errors("decompress", self.name, ValueError, struct.error):
                return blosc_snappy.decompress(view)
        size = header.nbytes
        result = out if out is not None and len(out) == size else byte_view(np.empty(size, np.uint8))
        with codec_errors("decompress", self.name, RuntimeError, ValueError):
            _native.decompress(view, result)
        return result

    def decode_spans(self, data: Buffer, spans: Sequence[Span], *, max_size: int, out: memoryview) -> Buffer | None:
        view = memoryview(data).cast("B")
        header = self._check_header(view, max_size)
        view = view[: header.cbytes]
        if header.flags & COPIED:
            return view[FORMAT.size :]
        if header.nbytes != len(out) or _needs_snappy(header):
            return None
        runs = find_blocks(header, spans)
        if runs is None:
            return None
        for run in runs:
            chunk = cut_blocks(view, header, run)
            if chunk is None:
                return None
            low, high = header.bounds(run)
            try:
                _native.decompress(chunk, out[low:high])
            except (RuntimeError, ValueError):
                # The caller decodes the whole chunk then, which raises the error of a damaged one.
                return None
        return out

    def _check_header(self, view: memoryview, max_size: int) -> Header:
        """Return the header, with the fields checked that the C library trusts."""
        length = view.nbytes
        if length < FORMAT.size:
            raise CodecError(f"{length} bytes are too few for a blosc header", codec=self.name)
        header = Header(*FORMAT.unpack_from(view))
        version, _, flags, typesize, nbytes, blocksize, cbytes = header
        if version != _FORMAT_VERSION:
            raise CodecError(f"the blosc format has version {version}, not {_FORMAT_VERSION}", codec=self.name)
        if nbytes > max_size:
            raise CodecError(f"it decodes to {nbytes} bytes, of at most {max_size}", codec=self.name)
        # z5py stores 16 zero bytes behind the end.
        if cbytes > length or (self._is_strict and cbytes != length):
            raise CodecError(f"the blosc header declares {cbytes} bytes, but the chunk has {length}", codec=self.name)
        if typesize < 1 or (nbytes and not 1 <= blocksize <= nbytes):
            raise CodecError(
                f"a blosc header with typesize {typesize}, blocksize {blocksize} and {nbytes} bytes", codec=self.name
            )
        if flags & COPIED:
            fits = cbytes == nbytes + FORMAT.size
        else:
            fits = nbytes == 0 or cbytes >= FORMAT.size + 4 * header.blocks
        if not fits or flags >> 5 >= len(_FORMAT_NAMES):
            raise CodecError(f"a blosc header with flags {flags:#04x} for {cbytes} bytes", codec=self.name)
        return header


def _needs_snappy(header: Header) -> bool:
    """Return whether the chunk needs snappy and the library was built without it."""
    return not _HAS_SNAPPY and header.flags >> 5 == blosc_snappy.FORMAT and not header.flags & COPIED


FORMAT = Struct("<BBBBIII")
COPIED = 0x02
"""The flag of a chunk that is stored without compression."""

RUN_BYTES = 64 << 10
"""The cost of one more run of blocks, in decoded bytes: about 10 microseconds."""


class Header(NamedTuple):
    """The header of a chunk.

    Attributes:
        version: the version of the format.
        versionlz: the version of the compressor's format.
        flags: the shuffle and the compressor.
        typesize: bytes of an item.
        nbytes: decoded bytes.
        blocksize: decoded bytes of each block; the last block may be shorter.
        cbytes: bytes of the chunk.
    """

    version: int
    versionlz: int
    flags: int
    typesize: int
    nbytes: int
    blocksize: int
    cbytes: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.nbytes // self.blocksize)

    def bounds(self, blocks: Span) -> Span:
        """Return the span of the decoded bytes of `blocks`."""
        return blocks[0] * self.blocksize, min(blocks[1] * self.blocksize, self.nbytes)


def find_blocks(header: Header, spans: Iterable[Span]) -> list[Span] | None:
    """Return the runs of blocks that hold the decoded bytes of `spans`, which ascend.

    A shorter last block is never a run alone, because a chunk is not smaller than its block size.

    Returns:
        The runs, or None if decoding the whole chunk is cheaper.
    """
    size, blocks, nbytes = header.blocksize, header.blocks, header.nbytes
    if blocks < 2:
        return None
    runs: list[Span] = []
    for start, stop in spans:
        first, behind = start // size, -(-stop // size)
        if first == blocks - 1 and nbytes % size:
            first -= 1
        if runs and (first - runs[-1][1]) * size <= RUN_BYTES:
            runs[-1] = (runs[-1][0], max(behind, runs[-1][1]))
        else:
            runs.append((first, behind))
    cost = sum([(behind - first) * size + RUN_BYTES for first, behind in runs])
    return runs if cost < nbytes else None


def cut_blocks(view: memoryview, header: Header, run: Span) -> bytes | None:
    """Return a chunk that consists of a run of blocks, or None if the offsets are not inside of the chunk `view`."""
    count = run[1] - run[0]
    places = _places(view, header, run)
    if not all([FORMAT.size <= start <= stop <= header.cbytes for start, stop in places]):
        return None
    # In a damaged chunk many blocks may begin at one position, each as long as the chunk.
    if sum([stop - start for start, stop in places]) > header.cbytes:
        return None
    base = FORMAT.size + 4 * count
    if len(places) < count:
        # One piece: it may include other blocks, which are not decoded.
        first = places[0][0]
        moved = [base + offset - first for offset in _offsets(view, run[0], count)]
    else:
        moved = list(accumulate([stop - start for start, stop in places[:-1]], initial=base))
    parts = [view[start:stop] for start, stop in places]
    low, high = header.bounds(run)
    told = header._replace(nbytes=high - low, cbytes=base + sum(map(len, parts)))
    return b"".join((FORMAT.pack(*told), Struct(f"<{count}I").pack(*moved), *parts))


def _places(view: memoryview, header: Header, run: Span) -> list[Span]:
    """Return the span of each block of a run in the chunk, or one span if they are adjacent."""
    first, behind = run
    if behind < header.blocks:
        offsets = _offsets(view, first, behind - first + 1)
    else:
        offsets = (*_offsets(view, first, behind - first), header.cbytes)
    if all(map(lt, offsets, offsets[1:])):
        return [(offsets[0], offsets[-1])]
    # Several threads wrote the blocks in any order: each block ends where the next one in the chunk begins.
    ordered = sorted(_offsets(view, 0, header.blocks))
    ends = dict(zip(ordered, [*ordered[1:], header.cbytes], strict=True))
    return [(offset, ends[offset]) for offset in _offsets(view, first, behind - first)]


def _offsets(view: memoryview, first: int, count: int) -> tuple[int, ...]:
    return unpack_from(f"<{count}I", view, FORMAT.size + 4 * first)
