"""The codec `bytes`: elements in C order, each in a fixed number of bytes of a chosen endianness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs._buffers import array_over, byte_view
from aiozarr.codecs._configuration import check_members, one_of
from aiozarr.codecs.base import JSON, AnyArray, ArrayBytesCodec, ArraySpec, ReadBytes, Region, view_region
from aiozarr.codecs.registry import register
from aiozarr.codecs.storage_type import (
    StorageType,
    clear_spare_bits,
    has_byte_order,
    holds_valid_text,
    storage_type,
)
from aiozarr.errors import CodecError, InvalidMetadataError, UnsupportedMetadataError
from aiozarr.model import Range


@register
@dataclass(frozen=True)
class BytesCodec(ArrayBytesCodec):
    """The codec `bytes` (codec specification "bytes"); `endian` is None for types that have no byte order.

    All fields of structured types have one byte order, and no padding between them. Of elements smaller than a byte
    the low bits count: the others are ignored, and written as zeros.
    """

    name = "bytes"
    endian: Literal["little", "big"] | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("endian",), name=cls.name)
        if "endian" not in configuration:
            return cls(None)
        return cls("big" if one_of(configuration, "endian", ("little", "big")) == "big" else "little")

    def to_json(self) -> dict[str, JSON]:
        return {} if self.endian is None else {"endian": self.endian}

    def resolve(self, spec: ArraySpec) -> None:
        if spec.is_variable:
            raise UnsupportedMetadataError(
                f"codec 'bytes' takes types of fixed size, not {spec.dtype}", point="codec", name=self.name
            )
        # Structured arrays without one are read as little-endian: zarr-python 3.1 wrote them so.
        if self.endian is None and spec.dtype.names is None and has_byte_order(spec.dtype):
            raise InvalidMetadataError(f"the type {spec.dtype} needs an endianness", member="configuration.endian")

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        storage = storage_type(spec.dtype, self.endian)
        if storage.has_spare_bits:
            array = array.copy()
            clear_spare_bits(array)
        # Copies only what is not contiguous or of another byte order; else the array's memory is handed on as it is.
        return byte_view(np.ascontiguousarray(array.view(storage.plain), storage.stored))

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        storage = storage_type(spec.dtype, self.endian)
        _check_size(data, spec.size * storage.stored.itemsize)
        if storage.is_memory:
            return array_over(data, spec.shape, spec.dtype)
        return _load(array_over(data, spec.shape, storage.stored), storage, spec, out)

    def compute_encoded_size(self, spec: ArraySpec) -> int:
        return spec.size * storage_type(spec.dtype, self.endian).stored.itemsize

    def stores_memory(self, spec: ArraySpec) -> bool:
        return storage_type(spec.dtype, self.endian).is_memory

    def stored_type(self, spec: ArraySpec) -> np.dtype[Any]:
        return storage_type(spec.dtype, self.endian).stored

    def partial_decode(self, read: ReadBytes, spec: ArraySpec, regions: Sequence[Region]) -> list[AnyArray]:
        return [self._read_region(read, spec, region) for region in regions]

    def _read_region(self, read: ReadBytes, spec: ArraySpec, region: Region) -> AnyArray:
        bounds = [part.indices(length) for part, length in zip(region, spec.shape, strict=True)]
        if any(step < 1 for _, _, step in bounds):
            raise ValueError("the slices of a region have steps of at least 1")
        box = tuple(max(0, stop - start) for start, stop, _ in bounds)
        storage = storage_type(spec.dtype, self.endian)
        covered: AnyArray = np.empty(box, storage.stored)
        if covered.size:
            self._read_runs(read, spec, [start for start, _, _ in bounds], covered)
        steps = tuple(slice(None, None, step) for _, _, step in bounds)
        wanted = view_region(covered, steps)
        if storage.is_memory:
            return wanted.view(spec.dtype)
        return _load(wanted, storage, ArraySpec(wanted.shape, spec.dtype, spec.fill_value), None)

    @staticmethod
    def _read_runs(read: ReadBytes, spec: ArraySpec, start: list[int], covered: AnyArray) -> None:
        # Dimensions from `split` on are taken whole, so the dimension before them is contiguous with them.
        split = len(spec.shape)
        while split > 0 and covered.shape[split - 1] == spec.shape[split - 1]:
            split -= 1
        outer = max(0, split - 1)
        strides = [covered.dtype.itemsize] * len(spec.shape)
        for dim in range(len(spec.shape) - 2, -1, -1):
            strides[dim] = strides[dim + 1] * spec.shape[dim + 1]
        origin = sum(index * stride for index, stride in zip(start, strides, strict=True))
        for position in product(*map(range, covered.shape[:outer])):
            # Slices, not indices: a run stays an array, whose scalars may be of another size.
            run = view_region(covered, tuple(slice(index, index + 1) for index in position))
            offset = origin + sum(index * stride for index, stride in zip(position, strides, strict=False))
            data = read(Range(offset, run.nbytes))
            _check_size(data, run.nbytes)
            run[...] = array_over(data, run.shape, covered.dtype)


def _load(raw: AnyArray, storage: StorageType, spec: ArraySpec, out: AnyArray | None) -> AnyArray:
    """Return `raw`, of the stored type, as an array of the type in memory; in `out` where it is given."""
    result = np.empty(spec.shape, spec.dtype) if out is None else out
    np.copyto(result.view(storage.plain), raw)
    if storage.has_spare_bits:
        clear_spare_bits(result)
    if storage.has_text and not holds_valid_text(result):
        raise CodecError("the text has code points that Unicode does not have", codec=BytesCodec.name)
    return result


def _check_size(data: Buffer, expected: int) -> None:
    size = memoryview(data).nbytes
    if size != expected:
        raise CodecError(f"chunk has {size} bytes, expected {expected}", codec=BytesCodec.name)
