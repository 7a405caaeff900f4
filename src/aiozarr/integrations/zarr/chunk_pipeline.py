"""The codec pipeline below zarr-python's arrays: each read or write of one is a single operation of the engine.

zarr-python passes the chunks that a selection touches, with their keys, shapes and indices. Nothing else of the array
is used, because `resize` and `append` replace its metadata and keep the pipeline. Anything that aiozarr does not
support falls back to zarr-python's own pipeline, with a counter for each reason (`usage`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

try:
    import zarr.abc.codec
except ImportError as error:
    raise ImportError("the codec pipeline needs the package zarr: pip install 'zarr>=3.1.6'") from error

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import CodecError

if TYPE_CHECKING:
    from zarr.abc.store import ByteGetter, ByteSetter
    from zarr.abc.store import Store as ForeignStore
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

    from aiozarr.engine import ArrayLayout, ListedChunks
    from aiozarr.stores.contract import Store

PATH = "aiozarr.integrations.zarr.CodecPipeline"
"""The name that zarr-python's configuration has for the pipeline."""

_TELLS_PRESENCE = hasattr(zarr.abc.codec, "GetResult")
"""zarr-python 3.4 expects whether each chunk is stored; 3.1 expects None."""

_PRESENT, _MISSING = {"status": "present"}, {"status": "missing"}

_logger = logging.getLogger("aiozarr.integrations.zarr")


@dataclass(frozen=True)
class PipelineUsage:
    """Counts of the reads and writes of the pipeline in this process.

    Attributes:
        reads: number of selections read through aiozarr.
        writes: number of selections written through aiozarr.
        fallbacks: number of arrays and selections that zarr-python's own pipeline handled, by reason.
    """

    reads: int
    writes: int
    fallbacks: dict[str, int]


_counts: Counter[str] = Counter()
_fallbacks: Counter[str] = Counter()
_lock = ForkSafeLock()


def usage() -> PipelineUsage:
    """Return how many selections aiozarr has read and written, and how many fell back to zarr-python's own pipeline."""
    return PipelineUsage(_counts["read"], _counts["write"], dict(_fallbacks))


def enable() -> Any:
    """Let zarr-python read and write through aiozarr, for all arrays that are opened or created from now on.

    Set fields of `aiozarr.Settings` below `aiozarr` in zarr-python's configuration:
    `zarr.config.set({"aiozarr.max_requests": 64})`, or `ZARR_AIOZARR__MAX_REQUESTS=64` in the environment.

    Returns: a context manager for `with`, which restores the former pipeline at its end.
    """
    from zarr.registry import register_pipeline

    # The entry point has registered it, unless the package is only on the path and not installed.
    register_pipeline(ZarrCodecPipeline)
    return zarr.config.set({"codec_pipeline.path": PATH})


class ChunkValueError(CodecError, ValueError):
    """A chunk that cannot be decoded, or values that cannot be encoded; zarr-python raises `ValueError` for both."""


@contextmanager
def _values_checked() -> Iterator[None]:
    try:
        yield
    except CodecError as error:
        raise ChunkValueError(
            error.message, codec=error.codec, store=error.store, key=error.key, range=error.range
        ) from error


class _Plan(NamedTuple):
    """A selection that the engine reads or writes."""

    store: Store
    chunks: ListedChunks
    values: Any


class ZarrCodecPipeline(zarr.abc.codec.CodecPipeline):
    """zarr-python's contract of codec pipelines, carried out by the engine."""

    # zarr-python registers a class by these names.
    __module__ = "aiozarr.integrations.zarr"
    __qualname__ = "CodecPipeline"

    supports_partial_decode: ClassVar[Any] = True
    supports_partial_encode: ClassVar[Any] = True

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata
        self._own: Any = None
        self._layout: ArrayLayout | None = None

    # --- construction -----------------------------------------------------------------------------------------------

    @classmethod
    def from_codecs(cls, codecs: Iterable[Any]) -> Self:
        """Return zarr-python's own pipeline, for inner chunks of its sharding codec and for arrays that it reads."""
        from zarr.core.codec_pipeline import BatchedCodecPipeline

        stock: Any = BatchedCodecPipeline.from_codecs(codecs)
        return stock  # type: ignore[no-any-return]  # another class with the same methods

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: ForeignStore) -> Self:
        """Return the pipeline of an array.

        Raises:
            NotImplementedError: aiozarr cannot read the array. zarr-python then calls `from_codecs`.
        """
        from aiozarr.integrations.zarr.array_layout import UnsupportedArrayError, resolve_layout

        pipeline = cls(array_metadata)
        try:
            pipeline._layout = resolve_layout(array_metadata)
        except UnsupportedArrayError as error:
            _note_fallback(error.reason, error)
            raise NotImplementedError(str(error)) from error
        if hasattr(array_metadata, "codecs"):
            # It warns of probable mistakes, and refuses an impossible order of codecs.
            cls.from_codecs(array_metadata.codecs)
        return pipeline

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._metadata,))

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        return self

    @property
    def _stock(self) -> Any:
        """zarr-python's own pipeline of the array."""
        if self._own is None:
            from zarr.core.array import create_codec_pipeline

            # Without a store it calls `from_codecs` of the configured class.
            self._own = create_codec_pipeline(metadata=self._metadata)
        return self._own

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZarrCodecPipeline):
            return NotImplemented
        return bool(self._stock == other._stock)

    __hash__ = None  # type: ignore[assignment]  # as the codecs

    def __iter__(self) -> Any:
        return iter(self._stock)

    # --- without I/O ------------------------------------------------------------------------------------------------

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        self._stock.validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)

    def compute_encoded_size(self, byte_length: int, array_spec: ArraySpec) -> int:
        return int(self._stock.compute_encoded_size(byte_length, array_spec))

    async def decode(self, chunk_bytes_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]) -> Any:
        return await self._stock.decode(chunk_bytes_and_specs)

    async def encode(self, chunk_arrays_and_specs: Iterable[tuple[NDBuffer | None, ArraySpec]]) -> Any:
        return await self._stock.encode(chunk_arrays_and_specs)

    # --- reading and writing ----------------------------------------------------------------------------------------

    async def read(
        self,
        batch_info: Iterable[tuple[ByteGetter, ArraySpec, Any, Any, bool]],
        out: NDBuffer,
        drop_axes: tuple[int, ...] = (),
    ) -> Any:
        """Read the chunks into `out`.

        Returns: for each chunk whether it is stored, as zarr-python 3.4 expects; None for zarr-python 3.1.
        """
        batch = list(batch_info)
        if not batch:
            return () if _TELLS_PRESENCE else None
        plan = self._plan(batch, out, drop_axes)
        if plan is None:
            return await self._stock.read(batch, out, drop_axes)
        from aiozarr.engine import Read
        from aiozarr.integrations.zarr.listed_operations import run_read

        fresh = plan.values if plan.values.flags.c_contiguous else None
        read = Read.of_listed(plan.store, plan.chunks, plan.values, fresh=fresh)
        with _values_checked():
            await run_read(plan.store, read, _settings())
        _count(_counts, "read")
        if not _TELLS_PRESENCE:
            return None
        missing = read.missing or ()
        return tuple([_MISSING if item[0].path in missing else _PRESENT for item in batch])  # type: ignore[attr-defined]

    async def write(
        self,
        batch_info: Iterable[tuple[ByteSetter, ArraySpec, Any, Any, bool]],
        value: NDBuffer,
        drop_axes: tuple[int, ...] = (),
    ) -> None:
        """Write `value` to the chunks."""
        batch = list(batch_info)
        if not batch:
            return
        assert self._layout is not None
        if self._layout.shard is not None:
            # As in zarr-python, a shard at the array's end keeps its elements beyond the end, in case the array grows.
            batch = [(*item[:4], False) for item in batch]
        plan = self._plan(batch, value, drop_axes)
        if plan is not None and not _has_positions(plan):
            _note_fallback("shape of the values")
            plan = None
        if plan is None:
            await self._stock.write(batch, value, drop_axes)
            await _invalidate(batch)
            return
        from aiozarr.engine import Write
        from aiozarr.integrations.zarr.listed_operations import run_write

        batch[0][0].store._check_writable()  # type: ignore[attr-defined]
        write = Write.of_listed(
            plan.store, plan.chunks, plan.values, stores_empty=batch[0][1].config.write_empty_chunks
        )
        with _values_checked():
            await run_write(plan.store, write, _settings())
        _count(_counts, "write")

    def _plan(self, batch: Sequence[Any], values: NDBuffer, drop_axes: tuple[int, ...]) -> _Plan | None:
        """Return the read or write for the engine, or None if zarr-python's own pipeline has to do it."""
        from zarr.core.buffer import cpu
        from zarr.storage import StorePath

        from aiozarr.engine import ListedChunk, ListedChunks
        from aiozarr.errors import AiozarrError
        from aiozarr.stores.zarr_python_mapping import engine_store

        first = batch[0]
        prototype = first[1].prototype
        array: Any = values.as_ndarray_like()
        assert self._layout is not None
        if not all([type(item[0]) is StorePath for item in batch]):
            _note_fallback("a byte getter that is not a StorePath")
            return None
        if prototype.buffer is not cpu.Buffer or prototype.nd_buffer is not cpu.NDBuffer:
            _note_fallback("buffers of another kind")
            return None
        if type(array).__module__ != "numpy":
            _note_fallback("arrays of another kind")
            return None
        wanted = self._layout.spec.dtype
        if array.dtype != wanted and array.dtype.newbyteorder("=") != wanted.newbyteorder("="):
            _note_fallback("another data type")
            return None
        listed = [
            ListedChunk(getter.path, spec.shape, _as_tuple(inside), _as_tuple(outside), is_complete)
            for getter, spec, inside, outside, is_complete in batch
        ]
        try:
            chunks = ListedChunks(self._layout, listed, drop_axes)
        except AiozarrError as error:
            _note_fallback("an index of another kind", error)
            return None
        store = engine_store(first[0].store, asyncio.get_running_loop())
        # A subclass may index otherwise than numpy does.
        return _Plan(store, chunks, array.view(np.ndarray))


def _restore(metadata: Any) -> ZarrCodecPipeline:
    from aiozarr.integrations.zarr.array_layout import resolve_layout

    pipeline = ZarrCodecPipeline(metadata)
    pipeline._layout = resolve_layout(metadata)
    return pipeline


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _has_positions(plan: _Plan) -> bool:
    """Return whether the values have all positions that are written, or are one value for all of them."""
    shape, extents = plan.values.shape, plan.chunks.output_extents
    return not shape or (
        len(shape) == len(extents) and all([length >= end for length, end in zip(shape, extents, strict=True)])
    )


def _count(counter: Counter[str], name: str) -> int:
    """Add one, from any thread, and return the sum."""
    with _lock:
        counter[name] += 1
        return counter[name]


def _note_fallback(reason: str, error: Exception | None = None) -> None:
    """Count a fallback to zarr-python's own pipeline, and log it if the reason is new."""
    log = _logger.info if _count(_fallbacks, reason) == 1 else _logger.debug
    log("falling back to zarr-python's own pipeline: %s%s", reason, "" if error is None else f" ({error})")


async def _invalidate(batch: Sequence[Any]) -> None:
    """Tell the engine that zarr-python's own pipeline has written chunks, which it may have cached."""
    from aiozarr.engine import run
    from aiozarr.stores.zarr_python_mapping import engine_store

    paths = [item[0] for item in batch if hasattr(item[0], "path")]
    if not paths:
        return
    store = engine_store(paths[0].store, asyncio.get_running_loop())

    async def invalidate(engine: Any) -> None:
        for path in paths:
            engine.invalidate(store, path.path)

    await run(invalidate)


def _settings() -> Any:
    """Return the settings in zarr-python's configuration."""
    from aiozarr.integrations.zarr.array_layout import settings_of

    return settings_of(zarr.config.get("aiozarr", None))
