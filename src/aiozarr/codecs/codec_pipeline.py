"""Decodes the stored bytes of one kind of chunk to an array, and encodes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from aiozarr.codecs.bytes import bits_used, clear_spare_bits, packed_type
from aiozarr.codecs.chain import CodecChain, NamedCodec, parse_chain
from aiozarr.codecs.codec import (
    JSON,
    AnyArray,
    ArraySpec,
    Codec,
    Region,
    byte_view,
    fast_byte_view,
    has_fast_view,
    view_region,
)
from aiozarr.codecs.region_decoder import RegionDecoder
from aiozarr.errors import MetadataError, UnsupportedMetadataError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.codecs.chunk_layouts import RawLayout, ShardLayout

_SLACK = 1 << 24

MAX_PADDING_FACTOR = 4
"""The factor by which a compressed object may exceed the bound of its codecs."""

DIAGNOSED_BYTES = 1 << 16
"""Excess bytes up to which an object that is too long is decoded, because its codecs describe the fault best."""


class CodecPipeline:
    """Codecs resolved for arrays of one shape and type. It is immutable and used by many threads at once.

    Attributes:
        spec: the decoded representation.
        codecs: the codecs in the order of encoding.
        encoded_size: bytes that every such array encodes to, or None if they vary.
        plain_size: bytes before compression and checksums, or None if they vary.
        max_encoded_size: a bound on the bytes that such an array encodes to.
        max_stored_size: a bound on the bytes that decode to such an array, also those of other writers, or None.
        shard: the layout of inner chunks that can be read by ranges; None if there are none.
        regions: decodes a box of elements that is copied at once; None if only `decode` is possible.
        raw: the layout of elements in the encoded bytes; None if they have no fixed positions.
    """

    spec: ArraySpec
    codecs: tuple[Codec, ...]
    encoded_size: int | None
    plain_size: int | None
    max_encoded_size: int
    max_stored_size: int | None
    shard: ShardLayout | None
    raw: RawLayout | None
    regions: RegionDecoder | None

    def __init__(self, chain: CodecChain, spec: ArraySpec, *, member: str = "codecs") -> None:
        self.spec = spec
        specs = _resolve_specs(chain, spec, member)
        chain = chain.for_items(chain.array_bytes.encoded_item_size(specs[-1]))
        self._chain = chain
        self.codecs = chain.codecs
        self._specs = specs
        self._inner_spec = specs[-1]
        self._array_decode = chain.array_bytes.decode
        # In decoding order, with their bounds: per chunk only a loop of calls remains.
        self._array_steps = tuple(
            (codec.decode, before) for codec, before in zip(reversed(chain.array_array), specs[-2::-1], strict=True)
        )
        bounds = self._compute_sizes(member)
        steps = [
            (codec.decode, bound) for codec, bound in zip(reversed(chain.bytes_bytes), bounds[-2::-1], strict=True)
        ]
        self._stores_memory = not chain.array_array and chain.array_bytes.stores_memory(self._inner_spec)
        direct = bool(steps) and self._stores_memory
        self._outer_steps = tuple(steps[:-1] if direct else steps)
        self._fill_step = steps[-1] if direct else None
        self._is_fill = value_test(spec.fill_value)
        self._byte_view = fast_byte_view if has_fast_view(spec.dtype) else byte_view
        whole = not chain.array_array and not chain.bytes_bytes
        self.shard = _shard_layout(chain, spec) if whole else None
        self.raw = None if chain.bytes_bytes else _raw_layout(chain, specs)
        self.regions = RegionDecoder.of(chain, specs, bounds[:-1])

    def required_divisor(self) -> tuple[int, ...] | None:
        """Return the shape that must divide the shape of every such array: that of the inner chunks of a shard.

        Unlike `shard`, other codecs may precede or follow the sharding codec.

        Returns:
            The shape in elements, or None if the chain does not shard or its divisor is unknown.
        """
        shard = _shard_layout(self._chain, self._inner_spec)
        if shard is None:
            return None
        region: Region | None = tuple([slice(dim, dim + 1) for dim in range(len(self.spec.shape))])
        for codec, spec in zip(self._chain.array_array, self._specs, strict=False):
            region = None if region is None else codec.encode_region(region, spec)
        if region is None:
            return None
        # A codec that keeps or permutes dimensions shows by its region which dimension each became.
        lengths = {part.start: length for part, length in zip(region, shard.inner_shape, strict=True)}
        dims = range(len(self.spec.shape))
        return tuple([lengths[dim] for dim in dims]) if sorted(lengths) == list(dims) else None

    @classmethod
    def resolve(cls, codecs: Sequence[NamedCodec] | JSON, spec: ArraySpec, *, member: str = "codecs") -> CodecPipeline:
        """Build the pipeline of a `codecs` member for arrays of `spec`.

        Args:
            codecs: named codecs, or the JSON value of the member.
            spec: the decoded representation.
            member: the path of the member in the document, for errors.

        Raises:
            InvalidMetadataError: a codec is invalid, misplaced, or does not support such arrays.
            UnsupportedMetadataError: a codec is unknown, or there are too many codecs or levels.
                The `member` of both errors is a path such as `codecs[1].configuration.level`.
        """
        return cls(parse_chain(codecs, member=member), spec, member=member)

    def _compute_sizes(self, member: str) -> list[int]:
        """Set the encoded sizes. Return bounds on the bytes before each bytes -> bytes codec and after the last."""
        array_bytes = self._chain.array_bytes
        exact = self.plain_size = array_bytes.compute_encoded_size(self._inner_spec)
        bounds = [array_bytes.max_encoded_size(self._inner_spec)]
        # Each codec's bound allows for growth, so many codecs together would allow any growth. Real bytes hardly grow.
        most = 4 * bounds[0] + _SLACK
        for i, codec in enumerate(self._chain.bytes_bytes, len(self.codecs) - len(self._chain.bytes_bytes)):
            bounds.append(min(codec.max_encoded_size(bounds[-1]), most))
            exact = None if exact is None else codec.compute_encoded_size(exact)
            if exact is not None and exact > most:
                raise UnsupportedMetadataError(
                    f"codecs that encode {bounds[0]} bytes to {exact}", member=f"{member}[{i}]", point="codec"
                )
        self.encoded_size = exact
        self.max_encoded_size = bounds[-1]
        # Each decoder refuses more than the bound of its result, so only the last codec's own bound counts.
        self.max_stored_size = self._max_stored_size()
        return bounds

    def _max_stored_size(self) -> int | None:
        """Return a bound on the bytes of every object that decodes.

        Each codec's `max_encoded_size` bounds its own output; a compressor's includes room for headers and for data
        that do not compress. Streams of other writers may have more: padding, empty members, blocks of a few bytes. The
        formats do not bound that, so four times as much is accepted. For inner chunks, a shard index enforces the
        codecs' bound itself.

        Returns:
            The bound, or None for shards and for filters that another package has registered. A shard may have any
            number of unused bytes between its inner chunks (codec specification "sharding-indexed").
        """
        is_compressed = bool(self._chain.bytes_bytes)
        if not is_compressed and not self._chain.array_bytes._is_bounded(self._inner_spec):
            return None
        size = self.max_encoded_size
        # The bound of elements of variable length comes from a setting and not from the values, so it has enough room.
        is_padded = is_compressed and self.encoded_size is None and not self.spec.is_variable
        return (MAX_PADDING_FACTOR * size if is_padded else size) + DIAGNOSED_BYTES

    def decode(self, data: Buffer, out: AnyArray | None = None) -> AnyArray:
        """Return the array that `data` encodes, of `spec.shape` and `spec.dtype`.

        Args:
            data: the encoded bytes.
            out: a writable C-contiguous array of that shape and type, which is used if it saves a copy.

        Returns:
            `out` itself, or another array. That one may be a view of `data`, read-only, or not contiguous.

        Raises:
            CodecError: `data` does not encode such an array. The error names the codec; the caller adds the store, the
                key and the range.
        """
        for decode, bound in self._outer_steps:
            data = decode(data, max_size=bound)
        if self._fill_step is not None:
            decode, bound = self._fill_step
            if out is None:
                data = decode(data, max_size=bound)
            else:
                memory = self._byte_view(out)
                if memory.readonly or len(memory) != bound:
                    raise ValueError(f"`out` must be writable and have {bound} bytes")
                data = decode(data, max_size=bound, out=memory)
                if data is memory:
                    return out
        array = self._array_decode(data, self._inner_spec, out=None if self._array_steps else out)
        for step, spec in self._array_steps:
            array = step(array, spec)
        return array

    def encode(self, array: AnyArray) -> Buffer:
        """Return the encoding of `array`, of `spec.shape` and `spec.dtype` and any strides.

        The result is the memory of `array` if no codec makes new bytes. It is then valid until `array` changes.

        Raises:
            CodecError: a codec cannot encode these values.
        """
        if array.shape != self.spec.shape or array.dtype != self.spec.dtype:
            raise ValueError(
                f"the codecs encode {self.spec.dtype} of shape {self.spec.shape}, not {array.dtype} of {array.shape}"
            )
        for codec, spec in zip(self._chain.array_array, self._specs, strict=False):
            array = codec.encode(array, spec)
        data = self._chain.array_bytes.encode(array, self._inner_spec)
        for outer in self._chain.bytes_bytes:
            data = outer.encode(data)
        return data

    def encoder(self, block: AnyArray) -> Callable[[], Buffer]:
        """Return a function that encodes the current content of `block`, as `encode` does, for use by one thread.

        `block` is a C-contiguous array of the pipeline's shape and type.
        """
        codecs = self._chain.bytes_bytes
        if not self._stores_memory or not codecs:
            return partial(self.encode, block)
        memory = byte_view(block)
        first, *others = codecs
        encode = first.encoder(len(memory))
        if not others:
            return partial(encode, memory)

        def encode_all() -> Buffer:
            data = encode(memory)
            for outer in others:
                data = outer.encode(data)
            return data

        return encode_all

    def is_fill(self, array: AnyArray) -> bool:
        """Return whether every element of `array` equals the fill value bit for bit.

        Therefore -0.0 differs from 0.0, and a NaN equals only NaNs of the same payload.
        """
        return self._is_fill(array)

    def to_json(self) -> list[dict[str, JSON]]:
        """Return the `codecs` member of a metadata document."""
        return self._chain.to_json()

    def __repr__(self) -> str:
        names = ", ".join(codec.name for codec in self.codecs)
        return f"CodecPipeline([{names}], shape={self.spec.shape}, dtype={self.spec.dtype})"


def _shard_layout(chain: CodecChain, spec: ArraySpec) -> ShardLayout | None:
    if chain.array_bytes.name != "sharding_indexed":
        return None
    from aiozarr.codecs.chunk_layouts import ShardedArrayBytesCodec

    codec = chain.array_bytes
    return codec.shard_layout(spec) if isinstance(codec, ShardedArrayBytesCodec) else None


def _raw_layout(chain: CodecChain, specs: list[ArraySpec]) -> RawLayout | None:
    from aiozarr.codecs.chunk_layouts import RawLayout

    return RawLayout.of(chain, specs)


def _resolve_specs(chain: CodecChain, spec: ArraySpec, member: str) -> list[ArraySpec]:
    """Return the array representation before each array -> array codec, and before the array -> bytes codec."""
    specs = [spec]
    try:
        for codec in chain.array_array:
            specs.append(codec.resolve(specs[-1]))
        chain.array_bytes.resolve(specs[-1])
    except MetadataError as error:
        # `specs` has one entry for each codec that was resolved, and the first.
        place = f"{member}[{len(specs) - 1}]"
        error.member = place if error.member is None else f"{place}.{error.member}"
        raise
    return specs


_BLOCK = 1 << 16
_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}


def equals_everywhere(array: AnyArray, value: AnyArray) -> bool:
    """Return whether every element of `array` has the bytes of `value`, a 0-d array of the same type.

    Padding between fields and unused bits are ignored. Strings and other objects are equal if they have one type and
    compare equal; None equals None. The test begins with the first element and stops at the first block that differs.
    """
    if array.size == 0:
        return True
    if array.dtype.hasobject:
        return _objects_equal(array, value[()])
    if array.dtype.kind == "T":
        return _rows_equal(array, value)
    array, value = _comparable(array), _comparable(value)
    # A region instead of an element: the scalars of text types lose their trailing zeros.
    if view_region(array, (slice(1),) * array.ndim).tobytes() != value.tobytes():
        return False
    unsigned = _UNSIGNED.get(array.dtype.itemsize)
    if unsigned is None:
        flat: AnyArray = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
        wanted: AnyArray = np.frombuffer(value.tobytes(), np.uint8)
    else:
        # A view of a type of the same item size needs no contiguity.
        flat = array.view(unsigned).reshape(-1) if array.flags.c_contiguous else array.view(unsigned)
        wanted = np.frombuffer(value.tobytes(), unsigned)[0]
    return _rows_equal(flat, wanted)


def value_test(value: AnyArray) -> Callable[[AnyArray], bool]:
    """Return `equals_everywhere` for one 0-d array. It is fast for arrays that differ at their first element."""
    dtype: np.dtype[Any] = value.dtype
    if dtype.kind not in "biufc" or dtype.itemsize not in _UNSIGNED or dtype.isbuiltin != 1:
        return lambda array: equals_everywhere(array, value)
    wanted = value.tobytes()

    def is_value(array: AnyArray) -> bool:
        if array.size and array[(0,) * array.ndim].tobytes() != wanted:
            return False
        return equals_everywhere(array, value)

    return is_value


def _comparable(array: AnyArray) -> AnyArray:
    """Return `array` in a form in which equal values have equal bytes."""
    dtype = array.dtype
    if dtype.names is not None:
        packed = packed_type(dtype)
        return array if packed == dtype else array.astype(packed)
    if bits_used(dtype) == 8 * dtype.itemsize:
        return array
    array = array.copy()
    clear_spare_bits(array)
    return array


def _rows_equal(rows: AnyArray, wanted: AnyArray) -> bool:
    if rows.ndim == 0:
        return bool(rows == wanted)
    per_row = max(1, rows.size // len(rows))
    step = max(1, _BLOCK // per_row)
    return all(bool((rows[start : start + step] == wanted).all()) for start in range(0, len(rows), step))


def _objects_equal(array: AnyArray, wanted: Any) -> bool:
    return all(_same(item, wanted) for item in array.flat)


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())
    return bool(left == right)
