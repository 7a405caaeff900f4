"""A chain of codecs that fits one kind of chunk: the way from stored bytes to an array and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import Buffer

from aiozarr.codecs._buffers import byte_view, fast_byte_view, has_fast_view
from aiozarr.codecs.base import JSON, AnyArray, ArraySpec, Codec, ReadBytes, Region
from aiozarr.codecs.chain import CodecChain, NamedCodec, parse_chain
from aiozarr.codecs.equality import value_test
from aiozarr.codecs.partial import read_decoded
from aiozarr.codecs.raw_layout import RawLayout
from aiozarr.codecs.region import RegionDecoder
from aiozarr.errors import MetadataError, UnsupportedMetadataError

if TYPE_CHECKING:
    from aiozarr.codecs.shard_layout import ShardLayout

_SLACK = 1 << 24


class CodecPipeline:
    """Codecs resolved for arrays of one shape and type. It is immutable and used by many threads at once.

    Attributes:
        spec: the decoded representation.
        codecs: the codecs in the order of encoding.
        encoded_size: bytes that every such array encodes to; None where it varies.
        plain_size: bytes before compression and checksums; None where they vary.
        max_encoded_size: a bound on the bytes that such an array encodes to.
        shard: where parts of the encoded bytes can be read by ranges; None where they cannot.
        regions: decodes for readers who take out a box of elements at once; None where `decode` is all there is.
        raw: where elements lie in the encoded bytes, if nothing is compressed; None where they have no such places.
    """

    spec: ArraySpec
    codecs: tuple[Codec, ...]
    encoded_size: int | None
    plain_size: int | None
    max_encoded_size: int
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
        # In decoding order, with all that is known now: what is left for each chunk is a loop of calls.
        self._array_steps = tuple(
            (codec.decode, before) for codec, before in zip(reversed(chain.array_array), specs[-2::-1], strict=True)
        )
        bounds = self._measure(member)
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
        self.shard = chain.array_bytes.shard_layout(spec) if whole else None
        self.raw = RawLayout.of(chain, specs)
        self.regions = RegionDecoder.of(chain, specs, bounds[:-1])

    def unit(self) -> tuple[int, ...] | None:
        """Return the shape that must divide that of every such array, as shards are divided; None: none is known.

        Unlike `shard` it does not ask whether parts can be read by ranges: other codecs may come before and behind.
        """
        shard = self._chain.array_bytes.shard_layout(self._inner_spec)
        if shard is None:
            return None
        region: Region | None = tuple([slice(dim, dim + 1) for dim in range(len(self.spec.shape))])
        for codec, spec in zip(self._chain.array_array, self._specs, strict=False):
            region = None if region is None else codec.encode_region(region, spec)
        if region is None:
            return None
        # Where a codec has left or moved each dimension as it is, its region says where it went.
        lengths = {part.start: length for part, length in zip(region, shard.inner_shape, strict=True)}
        dims = range(len(self.spec.shape))
        return tuple([lengths[dim] for dim in dims]) if sorted(lengths) == list(dims) else None

    @classmethod
    def resolve(cls, codecs: Sequence[NamedCodec] | JSON, spec: ArraySpec, *, member: str = "codecs") -> CodecPipeline:
        """Build the pipeline of a `codecs` member for arrays of `spec`.

        `codecs` holds objects with `name`, `configuration` and perhaps `must_understand`, or JSON.

        Raises:
            InvalidMetadataError: the codecs are not valid, in an illegal order, or do not take such arrays.
            UnsupportedMetadataError: a codec is not known, or there are too many or too deeply nested ones.
                In both, `member` names the place, such as `codecs[1].configuration.level`.
        """
        return cls(parse_chain(codecs, member=member), spec, member=member)

    def _measure(self, member: str) -> list[int]:
        """Set the encoded sizes; return bounds on the bytes before each bytes -> bytes codec and after the last."""
        array_bytes = self._chain.array_bytes
        exact = self.plain_size = array_bytes.compute_encoded_size(self._inner_spec)
        bounds = [array_bytes.max_encoded_size(self._inner_spec)]
        # Each codec's bound allows for growth, and many of them together for any growth: real bytes hardly grow.
        most = 4 * bounds[0] + _SLACK
        for i, codec in enumerate(self._chain.bytes_bytes, len(self.codecs) - len(self._chain.bytes_bytes)):
            bounds.append(min(codec.max_encoded_size(bounds[-1]), most))
            exact = None if exact is None else codec.compute_encoded_size(exact)
            if exact is not None and exact > most:
                raise UnsupportedMetadataError(
                    f"codecs that make {exact} bytes of {bounds[0]}", member=f"{member}[{i}]", point="codec"
                )
        self.encoded_size = exact
        self.max_encoded_size = bounds[-1]
        return bounds

    def decode(self, data: Buffer, out: AnyArray | None = None) -> AnyArray:
        """Return the array that `data` encodes, of `spec.shape` and `spec.dtype`.

        `out`, a writable C-contiguous array of that shape and type, is used where it saves a copy; `result is out`
        tells. Else the result may be a view of `data`, may be read-only, and need not be contiguous.

        Raises:
            CodecError: `data` is no such array's encoding. It names the codec; store, key and range are the caller's.
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

        Without a codec that makes new bytes, the result is the memory of `array`: it is valid until `array` changes.

        Raises:
            CodecError: a codec cannot encode these values.
        """
        if array.shape != self.spec.shape or array.dtype != self.spec.dtype:
            raise ValueError(
                f"the codecs take {self.spec.dtype} of shape {self.spec.shape}, not {array.dtype} of {array.shape}"
            )
        for codec, spec in zip(self._chain.array_array, self._specs, strict=False):
            array = codec.encode(array, spec)
        data = self._chain.array_bytes.encode(array, self._inner_spec)
        for outer in self._chain.bytes_bytes:
            data = outer.encode(data)
        return data

    def encoder(self, block: AnyArray) -> Callable[[], Buffer]:
        """Return a function that encodes what is in `block` when it is called, as `encode` does, for one thread's use.

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

    def partial_decode(self, read: ReadBytes, regions: Sequence[Region]) -> list[AnyArray]:
        """Return the elements of each region, asking `read` for as little of the encoded bytes as the codecs allow.

        Raises:
            CodecError: the bytes are no such array's encoding.
        """
        return read_decoded(self._chain, self._specs, self.decode, read, regions)

    def is_fill(self, array: AnyArray) -> bool:
        """Return whether every element of `array` is the fill value bit for bit.

        So -0.0 is not 0.0, and a NaN equals only NaNs of the same payload.
        """
        return self._is_fill(array)

    def to_json(self) -> list[dict[str, JSON]]:
        """Return the `codecs` member of a metadata document."""
        return self._chain.to_json()

    def __repr__(self) -> str:
        names = ", ".join(codec.name for codec in self.codecs)
        return f"CodecPipeline([{names}], shape={self.spec.shape}, dtype={self.spec.dtype})"


def _resolve_specs(chain: CodecChain, spec: ArraySpec, member: str) -> list[ArraySpec]:
    """Return the array representation before each array -> array codec, and the one that becomes bytes."""
    specs = [spec]
    try:
        for codec in chain.array_array:
            specs.append(codec.resolve(specs[-1]))
        chain.array_bytes.resolve(specs[-1])
    except MetadataError as error:
        # As many representations as there are now, so many codecs had passed before this one.
        place = f"{member}[{len(specs) - 1}]"
        error.member = place if error.member is None else f"{place}.{error.member}"
        raise
    return specs
