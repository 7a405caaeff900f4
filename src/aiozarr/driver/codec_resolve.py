"""Completes codec chains with default options and transposes, and derives chunk layouts from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from aiozarr.driver.codec_spec import SHARDING, CodecChainSpec, CodecSpec, resolve_order
from aiozarr.driver.json_members import JSON, invalid

MAX_INNER_CHUNKS = 1 << 30
MAX_TYPESIZE = 255
INDEX_CODECS = CodecChainSpec((), CodecSpec("bytes", {"endian": "little"}), (CodecSpec("crc32c"),))


@dataclass(frozen=True)
class Elements:
    """The properties of arrays on which their codecs depend.

    Attributes:
        rank: number of dimensions.
        item_bytes: bytes of a stored element.
        has_byte_order: True if elements have more than one byte.
        chunk_shape: lengths of the chunk; None if unknown.
        read_shape: lengths of the chosen read chunk, for inner chunks without a shape of their own.
        inner_order: the requested order of elements; None for any order.
    """

    rank: int
    item_bytes: int
    has_byte_order: bool
    chunk_shape: tuple[int, ...] | None = None
    read_shape: tuple[int, ...] | None = None
    inner_order: tuple[int, ...] | None = None

    def transposed(self, order: Sequence[int]) -> Elements:
        """Return the array after a transpose by `order`."""
        inverse = [order.index(dimension) for dimension in range(len(order))]
        wanted = self.inner_order
        return replace(
            self,
            chunk_shape=None if self.chunk_shape is None else tuple([self.chunk_shape[i] for i in order]),
            read_shape=None if self.read_shape is None else tuple([self.read_shape[i] for i in order]),
            inner_order=None if wanted is None else tuple([inverse[i] for i in wanted]),
        )


def resolve_chain(chain: CodecChainSpec, elements: Elements, member: str) -> CodecChainSpec:
    """Return the complete chain, as it is stored.

    A missing codec from arrays to bytes becomes `bytes`. A `transpose` is added before it if elements would not be in
    the requested order.

    Raises:
        InvalidSpecError: an option does not fit the arrays.
    """
    transposes: list[CodecSpec] = []
    for codec in chain.array_to_array:
        order = resolve_order(codec.options["order"], elements.rank)
        if len(order) != elements.rank:
            raise invalid(member, f"the transpose {list(order)} must have the rank {elements.rank} of the array")
        transposes.append(_transpose(order))
        elements = elements.transposed(order)
    serializer = chain.array_to_bytes or CodecSpec("bytes")
    if serializer.name == SHARDING:
        if chain.bytes_to_bytes:
            raise invalid(member, f"codecs after {SHARDING!r} would apply to whole shards; put them into its 'codecs'")
        return CodecChainSpec(tuple(transposes), _resolve_sharding(serializer, elements, member), ())
    if elements.inner_order not in (None, tuple(range(elements.rank))):
        assert elements.inner_order is not None
        transposes.append(_transpose(elements.inner_order))
        elements = elements.transposed(elements.inner_order)
    endian = serializer.options.get("endian", "little")
    options: dict[str, JSON] = {"endian": endian} if elements.has_byte_order else {}
    item: int | None = elements.item_bytes
    compressors: list[CodecSpec] = []
    for codec in chain.bytes_to_bytes:
        compressors.append(_resolve_bytes_codec(codec, item, member))
        item = None
    return CodecChainSpec(tuple(transposes), CodecSpec("bytes", options), tuple(compressors))


def _transpose(order: Sequence[int]) -> CodecSpec:
    return CodecSpec("transpose", {"order": tuple(order)})


def _resolve_sharding(codec: CodecSpec, elements: Elements, member: str) -> CodecSpec:
    inner = codec.options.get("chunk_shape", elements.read_shape)
    if inner is None:
        raise invalid(member, "the shape of inner chunks is unknown")
    if len(inner) != elements.rank:
        raise invalid(member, f"inner chunks of shape {list(inner)} must have the rank {elements.rank} of the array")
    outer = elements.chunk_shape
    if outer is not None:
        if any(length % part for length, part in zip(outer, inner, strict=True)):
            raise invalid(member, f"inner chunks of shape {list(inner)} must divide chunks of shape {list(outer)}")
        count = prod([length // part for length, part in zip(outer, inner, strict=True)])
        if count > MAX_INNER_CHUNKS:
            raise invalid(member, f"a shard may have at most {MAX_INNER_CHUNKS} inner chunks, not {count}")
    index = codec.options.get("index_codecs", INDEX_CODECS)
    if index.is_sharded or any(each.name != "crc32c" for each in index.bytes_to_bytes):
        raise invalid(member, "the codecs of a shard index must have output of fixed size; use 'bytes' and 'crc32c'")
    inside = replace(elements, chunk_shape=tuple(inner))
    options: dict[str, JSON] = {
        "chunk_shape": tuple(inner),
        "codecs": resolve_chain(codec.options.get("codecs", CodecChainSpec()), inside, member),
        "index_codecs": resolve_chain(index, Elements(elements.rank + 1, 8, True), member),
    }
    if codec.options.get("index_location", "end") == "start":
        options["index_location"] = "start"
    return CodecSpec(SHARDING, options)


def _resolve_bytes_codec(codec: CodecSpec, item_bytes: int | None, member: str) -> CodecSpec:
    """Return the codec with its defaults; `item_bytes` is None after a codec that compresses."""
    if codec.name == "gzip":
        return CodecSpec("gzip", {"level": 6, **codec.options})
    if codec.name == "zstd":
        return CodecSpec("zstd", {"level": 3, "checksum": False, **codec.options})
    if codec.name != "blosc":
        return codec
    shuffle, typesize = codec.options.get("shuffle"), codec.options.get("typesize")
    if shuffle != "noshuffle" and typesize is None:
        if item_bytes is not None and item_bytes <= MAX_TYPESIZE:
            typesize = item_bytes
        elif shuffle is None:
            shuffle = "noshuffle"
        else:
            raise invalid(member, f"blosc needs a typesize for {shuffle!r}, because it follows a codec that compresses")
    if shuffle is None:
        shuffle = "bitshuffle" if typesize == 1 else "shuffle"
    options: dict[str, JSON] = {"cname": "lz4", "clevel": 5, "blocksize": 0, **codec.options, "shuffle": shuffle}
    options.pop("typesize", None)
    if shuffle != "noshuffle":
        options["typesize"] = typesize
    return CodecSpec("blosc", options)


# --- the layout of a chain ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChainLayout:
    """The part of the layout that a chain determines.

    Attributes:
        inner_order: order of the elements, the slowest dimension first; None if undetermined.
        read_shape: lengths of the smallest chunks that can be read by themselves; None if undetermined.
    """

    inner_order: tuple[int, ...] | None = None
    read_shape: tuple[int, ...] | None = None


def chain_layout(chain: CodecChainSpec, rank: int, chunk_shape: Sequence[int] | None) -> ChainLayout:
    """Return the layout that a chain, possibly partial, gives to chunks of this shape (None: unknown)."""
    orders = [resolve_order(codec.options["order"], rank) for codec in chain.array_to_array]
    if any(len(order) != rank for order in orders):
        return ChainLayout()  # `resolve_chain` refuses such a chain
    shape = None if chunk_shape is None else tuple(chunk_shape)
    for order in orders:
        shape = None if shape is None else tuple([shape[i] for i in order])
    layout = ChainLayout()
    if chain.array_to_bytes is not None:
        if chain.is_sharded:
            inner = chain.array_to_bytes.options.get("chunk_shape")
            layout = chain_layout(chain.inner, rank, inner)
            if layout.read_shape is None and inner is not None and not chain.inner.is_sharded:
                layout = replace(layout, read_shape=tuple(inner))
        else:
            layout = ChainLayout(tuple(range(rank)), shape)
    for order in reversed(orders):
        layout = ChainLayout(
            None if layout.inner_order is None else tuple([order[i] for i in layout.inner_order]),
            None if layout.read_shape is None else tuple([layout.read_shape[order.index(i)] for i in range(rank)]),
        )
    return layout
