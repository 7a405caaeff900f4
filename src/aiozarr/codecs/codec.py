"""The codec contract: plain synchronous functions between arrays and bytes (v3 core specification, "Codecs").

Views of memory as bytes and as arrays are made here too, without a copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.common.formatting import clip, printable
from aiozarr.errors import CodecError

if TYPE_CHECKING:
    from typing_extensions import Buffer

JSON: TypeAlias = Any
AnyArray: TypeAlias = NDArray[Any]
Region: TypeAlias = tuple[slice, ...]
Span: TypeAlias = tuple[int, int]
"""Byte positions: the first, and the one after the last."""


@dataclass(frozen=True)
class ArraySpec:
    """A decoded representation: the shape, numpy data type and fill value of an array.

    Attributes:
        shape: the shape in elements.
        dtype: the type of the elements in memory.
        fill_value: a 0-d array of that type.
        max_bytes: a bound on the decoded bytes of elements of variable length.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: AnyArray
    max_bytes: int = 1 << 30

    # Not functools.cached_property: before Python 3.12 it takes a lock, which a fork leaves locked in the child.
    @fork_safe_cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @fork_safe_cached_property
    def nbytes(self) -> int:
        """Number of bytes of the elements, or of the references to variable elements, as an unbounded integer."""
        return self.size * self.dtype.itemsize

    @fork_safe_cached_property
    def is_variable(self) -> bool:
        """True if the array refers to its elements: strings, bytes and other objects of any length."""
        return self.dtype.hasobject or self.dtype.kind == "T"


def view_region(array: AnyArray, region: Region) -> AnyArray:
    """Return a view of a region. Unlike plain indexing it also returns a view of a 0-d array, not a scalar."""
    return array[region] if region else array


class Codec(ABC):
    """The base class of the three kinds of codec.

    A codec is immutable, compares by value, and is used by many threads at once.

    Other packages subclass one of the three kinds and register the class with `aiozarr.codecs.register_codec`.

    Attributes:
        name: the name in documents.
        default_configuration: the configuration in a new array, if the codec is given by name only.
    """

    name: ClassVar[str]
    default_configuration: ClassVar[Mapping[str, JSON]] = {}

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        """Build the codec from its `configuration` member.

        Raises:
            InvalidMetadataError: the configuration is invalid. Its `member` names the path in the codec, such as
                `configuration.level`.
        """

    @abstractmethod
    def to_json(self) -> dict[str, JSON]:
        """Return the `configuration` member, which is empty if the codec has no parameters."""


@dataclass(frozen=True)
class FramedCodec:
    """Base of codecs and filters whose encoding marks its own end.

    Attributes:
        _is_strict: bytes behind the end are refused. Otherwise they are ignored, as zarr-python ignores them.
    """

    _is_strict: bool = field(default=False, kw_only=True, compare=False, repr=False)


class ArrayArrayCodec(Codec):
    """An array -> array codec."""

    @property
    def _permutation(self) -> tuple[int, ...] | None:
        """The decoded dimension of each encoded one, of a codec that only permutes dimensions; else None."""
        return None

    @abstractmethod
    def resolve(self, spec: ArraySpec) -> ArraySpec:
        """Return the encoded representation (`compute_encoded_representation_type`).

        The codec may change the shape and the type by `dataclasses.replace(spec, ...)`, but not `max_bytes`. It also
        encodes the fill value: missing inner chunks of a shard after this codec are decoded from it. Missing chunks
        of the array are not decoded.

        Raises:
            InvalidMetadataError: the codec does not support such arrays.
        """

    @abstractmethod
    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        """Return the encoded array; `spec` is the decoded representation."""

    @abstractmethod
    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        """Return the decoded array, which may be a view; `spec` is the decoded representation."""

    def encode_region(self, region: Region, spec: ArraySpec) -> Region | None:
        """Return the region of the encoded array that contains `region` of the decoded array.

        A codec that returns regions must decode each of them with `decode` and a spec of that region's shape.

        Returns:
            The region, or None if the elements do not form a region of the encoded array.
        """
        return None


class ArrayBytesCodec(Codec):
    """The array -> bytes codec of a chain."""

    def resolve(self, spec: ArraySpec) -> None:
        """Check that the codec supports such arrays.

        Raises:
            InvalidMetadataError: the codec does not support them.
        """

    @abstractmethod
    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        """Return the encoded bytes."""

    @abstractmethod
    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        """Return an array of `spec.shape` and `spec.dtype`.

        The codec may decode into `out`, a C-contiguous array of that shape and type. It may also return a view of
        `data`, which is valid as long as `data` does not change.

        Raises:
            CodecError: `data` does not encode such an array.
        """

    def compute_encoded_size(self, spec: ArraySpec) -> int | None:
        """Return the number of bytes that every such array encodes to, or None (the default) if it varies."""
        return None

    def max_encoded_size(self, spec: ArraySpec) -> int:
        """Return a bound on the bytes that such an array encodes to. The next decoder refuses more bytes."""
        size = self.compute_encoded_size(spec)
        if size is not None:
            return size
        return spec.max_bytes if spec.is_variable else 2 * spec.nbytes + 65536

    def _is_bounded(self, spec: ArraySpec) -> bool:
        """Return whether `max_encoded_size` bounds all bytes that decode, including those of other writers."""
        return True

    def encoded_item_size(self, spec: ArraySpec) -> int:
        """Return the number of bytes of each item in the encoding, or 1 if the items differ in size."""
        return 1 if spec.is_variable else spec.dtype.itemsize

    def stores_memory(self, spec: ArraySpec) -> bool:
        """Return whether the encoding equals the array's memory in C order. Decompressors then write to it directly."""
        return False

    def stored_type(self, spec: ArraySpec) -> np.dtype[Any] | None:
        """Return the element type of an encoding that is an array in C order.

        A codec that returns a type must decode any such array with `decode` and a spec of its shape.

        Returns:
            The type, or None if the encoding is not an array in C order.
        """
        return None


class BytesBytesCodec(Codec):
    """A bytes -> bytes codec."""

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Return the encoded bytes."""

    @abstractmethod
    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        """Return the decoded bytes, at most `max_size`. The codec never allocates more than that.

        The codec may decode into `out`, a writable contiguous block of bytes, if the result fills it exactly.

        Raises:
            CodecError: `data` is not a valid encoding, or decodes to more than `max_size` bytes.
        """

    def decoder(self, *, max_size: int, out: memoryview) -> Callable[[Buffer], Buffer]:
        """Return `decode` with these arguments, for use by one thread. A subclass may prepare the calls."""
        return partial(self.decode, max_size=max_size, out=out)

    def encoder(self, size: int) -> Callable[[Buffer], Buffer]:
        """Return `encode` for inputs of `size` bytes, for use by one thread. A subclass may reuse its memory."""
        return self.encode

    def run_decoder(self, size: int) -> Callable[[memoryview, Sequence[int], memoryview], bool] | None:
        """Return a function that decodes adjacent encodings in one call, each to `size` bytes.

        The function takes the encodings, the start of each, and a buffer for all decoded bytes. It returns False if it
        cannot decode them. The caller then finds the damaged encoding with `decode`.

        Returns:
            The function, or None if one call is not faster than one call per encoding.
        """
        return None

    def decode_spans(self, data: Buffer, spans: Sequence[Span], *, max_size: int, out: memoryview) -> Buffer | None:
        """Decode the bytes in `spans` only, which ascend and do not overlap.

        Returns:
            As many bytes as `decode` returns, in `out` or not. Bytes outside `spans` are undefined. None if the codec
            cannot save time this way.
        """
        return None

    def for_items(self, item_size: int) -> BytesBytesCodec:
        """Return the codec for bytes that consist of items of `item_size` bytes.

        A codec that regroups bytes by items overrides this if its configuration does not give the item size. The
        returned codec has the same configuration.
        """
        return self

    def compute_encoded_size(self, size: int) -> int | None:
        """Return the bytes that every input of `size` bytes encodes to, or None (the default) if it varies."""
        return None

    def max_encoded_size(self, size: int) -> int:
        """Return a bound on the number of bytes that an input of `size` bytes encodes to."""
        exact = self.compute_encoded_size(size)
        return size + size // 4 + 65536 if exact is None else exact


_UINT8 = np.dtype(np.uint8)


def byte_view(array: AnyArray) -> memoryview:
    """Return the memory of a C-contiguous array of any type as bytes; read-only if the array is.

    Raises:
        ValueError: the array is not C-contiguous.
    """
    if not array.flags.c_contiguous:
        raise ValueError("the array must be C-contiguous")
    # Numpy's stubs declare the buffer protocol from Python 3.12 on only; arrays support it in all versions.
    return memoryview(cast("Buffer", array.reshape(-1).view(_UINT8)))


def fast_byte_view(array: AnyArray) -> memoryview:
    """Return the same as `byte_view` in half the time, for arrays whose type `has_fast_view` accepts."""
    return array.data.cast("B")


def has_fast_view(dtype: np.dtype[Any]) -> bool:
    """Return whether `fast_byte_view` accepts arrays of `dtype`. It refuses complex, raw and structured types."""
    try:
        np.empty(1, dtype).data.cast("B")
    except (TypeError, ValueError):
        return False
    return True


def byte_array(data: Buffer) -> NDArray[np.uint8]:
    """Return a contiguous buffer as an array of bytes; read-only if the buffer is."""
    return np.frombuffer(cast("bytes", data), _UINT8)


def array_over(data: Buffer, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
    """Return an array over a contiguous buffer of at least its size; read-only if the buffer is."""
    return np.ndarray(shape, dtype, buffer=cast("bytes", data))


class codec_errors:  # noqa: N801  # used in `with`, like contextlib.suppress
    """`with codec_errors("decompress", self.name, ValueError):` raises a `ValueError` of the block as a `CodecError`.

    A class, because a context manager of contextlib takes a microsecond for each chunk.

    Args:
        action: what the block does, for the message "cannot ...".
        codec: the name of the codec.
        kinds: the classes of errors.
    """

    __slots__ = ("_action", "_codec", "_kinds")

    def __init__(self, action: str, codec: str, *kinds: type[BaseException]) -> None:
        self._action = action
        self._codec = codec
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, self._kinds) and not isinstance(error, CodecError):
            raise CodecError(f"cannot {self._action}: {clip(printable(str(error)))}", codec=self._codec) from error
