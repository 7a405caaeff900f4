"""Decodes every chunk and every shard index, in a worker, and copies the elements to the readers' arrays.

A decoder chooses the fastest method for each chunk:

- A completely selected chunk is decoded directly into the output, if its place there is contiguous.
- A compressor with blocks decompresses only the blocks that hold a partial selection. The elements are copied from the
  thread's block to the output.
- Small chunks that are adjacent in memory are decoded as a batch, in one call, and copied to the output together. Each
  call that reads, decodes or copies releases the interpreter's lock, and then waits for it behind other threads. A
  batch waits once.
- A chunk for a cache is decoded to a new array.
- A chunk that was stored without padding at the array's end is decoded by the codecs of the smaller shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from aiozarr.codecs.codec import array_over, byte_view
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.grid.projection import ChunkProjection, ChunkSelection, assign, row_type
from aiozarr.memory import thread_memory

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_BOXES = 16
"""The selections of more readers cover most of a chunk, so the whole chunk is decoded."""

MAX_BLOCK_BYTES = 64 << 20
"""Larger chunks are decoded to new memory, because threads keep their block as long as the process lives."""

MAX_CHUNK_BYTES = 128 << 10
"""Larger chunks are decoded one by one, because one call per chunk is then cheap."""

MAX_BATCH_BYTES = 1 << 20
"""Decoded bytes of a batch. They stay in a core's cache until they are copied to the output."""

MAX_BATCH_CHUNKS = 1024

MIN_INDEX_BYTES = 64 << 10
"""A smaller shard index is decoded on the loop. That takes at most 0.07 ms, less than the hand-over to a worker."""


class ChunkOutput(NamedTuple):
    """The elements of one chunk that one reader wants, and their array.

    Attributes:
        out: the array.
        projection: the elements of the chunk, and their places in `out`.
    """

    out: NDArray[Any]
    projection: ChunkSelection


class EncodedChunks(NamedTuple):
    """Encoded chunks in one block of memory: number `i` is `data[starts[i]:stops[i]]`."""

    data: memoryview
    starts: Sequence[int]
    stops: Sequence[int]

    @classmethod
    def join(cls, bodies: Sequence[Buffer]) -> Self:
        """Copy separate bodies into one block of memory."""
        stops = list(accumulate([memoryview(body).nbytes for body in bodies]))
        return cls(memoryview(b"".join(bodies)), [0, *stops[:-1]], stops)


class BatchOutput:
    """The places in an output of chunks that are decoded as a batch.

    Attributes:
        count: the number of chunks.
    """

    __slots__ = ("_groups", "_out", "count")

    def __init__(self, out: NDArray[Any]) -> None:
        self.count = 0
        self._out = out
        self._groups: list[tuple[Sequence[ChunkSelection], NDArray[Any] | None]] = []

    def add(self, projections: Sequence[ChunkSelection], window: NDArray[Any] | None) -> None:
        """Add the next chunks, whose selected elements are `projections`.

        Args:
            projections: one for each chunk.
            window: a view of the output of shape `(n, *chunk_shape)` over the chunks, if they are selected whole.
        """
        self._groups.append((projections, window))
        self.count += len(projections)

    @property
    def block(self) -> NDArray[Any] | None:
        """The part of the output for direct decoding of the batch, or None if it is not contiguous."""
        _, window = self._groups[0]
        return window if window is not None and len(self._groups) == 1 and window.flags.c_contiguous else None

    def scatter(self, block: NDArray[Any], row: np.dtype[Any] | None) -> None:
        """Copy the chunks in `block` to their places. `row` is the type of a whole row, if whole rows are copied."""
        rows = block if row is None else block.view(row)
        first = 0
        for projections, window in self._groups:
            end = first + len(projections)
            if window is None:
                scatter_chunks(self._out, block[first:end], projections)
            elif row is not None and window.strides[-1] == block.itemsize:
                window.view(row)[...] = rows[first:end]
            else:
                assign(window, block[first:end])
            first = end


class ChunkDecoder:
    """One thread's decoder of one pipeline's chunks. Get it from `thread_decoder`, for use in the same thread.

    Attributes:
        pipeline: the codecs.
        max_batch: the most chunks of a batch; 0 if these chunks are always decoded one by one.
        shares_batches: True if chunks that several readers want are decoded as batches, too.
    """

    __slots__ = (
        "_batch_block",
        "_block",
        "_decode",
        "_decode_batch",
        "_dtype",
        "_fills_windows",
        "_itemsize",
        "_regions",
        "_row",
        "_shape",
        "max_batch",
        "pipeline",
        "shares_batches",
    )

    def __init__(self, pipeline: CodecPipeline) -> None:
        spec, regions = pipeline.spec, pipeline.regions
        self.pipeline = pipeline
        self._regions = regions
        self._shape = spec.shape
        self._dtype = spec.dtype
        self._itemsize = spec.dtype.itemsize
        reorders = regions is not None and regions.reorders
        self._fills_windows = not reorders
        self._row = None if regions is None or reorders else row_type(spec.shape, spec.dtype)
        batches = regions is not None and 0 < spec.nbytes <= MAX_CHUNK_BYTES
        self._decode_batch = regions.run_decoder() if regions is not None and batches else None
        self.max_batch = 0 if self._decode_batch is None else min(MAX_BATCH_CHUNKS, MAX_BATCH_BYTES // spec.nbytes)
        self.shares_batches = self.max_batch > 1 and regions is not None and not regions.decodes_parts
        self._decode: Callable[[Buffer], NDArray[Any]] = pipeline.decode
        self._block: NDArray[Any] | None = None
        # Strings and other objects would live as long as the block, and each chunk creates new ones.
        if spec.nbytes <= MAX_BLOCK_BYTES and not spec.is_variable:
            memory = thread_memory.scratch(max(1, self.max_batch) * spec.nbytes).data
            self._block = block = np.ndarray(spec.shape, spec.dtype, buffer=memory)
            self._decode = partial(pipeline.decode, out=block) if regions is None else regions.decoder(block)
            if self.max_batch:
                self._batch_block = np.ndarray((self.max_batch, *spec.shape), spec.dtype, buffer=memory)

    # --- one chunk --------------------------------------------------------------------------------------------------

    def decode(self, data: Buffer, out: NDArray[Any], projection: ChunkSelection) -> None:
        """Decode one chunk for one reader.

        Raises:
            CodecError: `data` does not encode such a chunk.
        """
        window = projection.whole_window(out, self._shape)
        if window is None or window.dtype != self._dtype:
            projection.scatter(out, projection.gather(self._decode_box(data, (projection,))))
        elif self._fills_windows and window.flags.c_contiguous:
            chunk = self.pipeline.decode(data, out=window)
            if chunk is not window:
                window[...] = chunk
        elif self._row is not None and window.strides[-1] == self._itemsize and type(window) is np.ndarray:
            window.view(self._row)[...] = self._decode(data).view(self._row)
        else:
            assign(window, self._decode(data))

    def decode_for(self, data: Buffer, targets: Sequence[ChunkOutput]) -> None:
        """Decode one chunk for any number of readers.

        Raises:
            CodecError: `data` does not encode such a chunk.
        """
        if len(targets) == 1:
            self.decode(data, targets[0].out, targets[0].projection)
            return
        boxes = [target.projection for target in targets]
        copy_to(self._decode_box(data, boxes) if len(boxes) <= MAX_BOXES else self._decode(data), targets)

    def _decode_box(self, data: Buffer, projections: Sequence[ChunkSelection]) -> NDArray[Any]:
        """Return a chunk with the elements of `projections` decoded. It is valid until the thread decodes the next."""
        regions = self._regions
        if self._block is None or regions is None or not regions.decodes_parts:
            return self._decode(data)
        from aiozarr.grid.byte_runs import joint_bounding_box

        return regions.decode(data, self._block, joint_bounding_box(projections))

    # --- many chunks ------------------------------------------------------------------------------------------------

    def decode_chunks(
        self,
        chunks: EncodedChunks,
        out: NDArray[Any],
        projections: Sequence[ChunkSelection],
        *,
        on_error: Callable[[int, CodecError], None],
        check: Callable[[], None] | None = None,
    ) -> None:
        """Decode chunks for one reader: in batches where they are small and adjacent, one by one otherwise.

        Args:
            chunks: the encoded bytes.
            out: the output.
            projections: the selection of each chunk.
            on_error: called with the number of a damaged chunk, and the error. It raises an error, or decodes the
                chunk by other means.
            check: called before each batch or chunk. It raises an error to stop.
        """
        data, starts, stops = chunks
        at = adjacent = one_by_one = 0
        while at < len(projections):
            if check is not None:
                check()
            if self.max_batch and at >= one_by_one:
                if at >= adjacent:
                    adjacent = _end_of_adjacent(starts, stops, at)
                batch = self.plan_batch(out, projections, at, adjacent)
                if batch is not None:
                    first, end = starts[at], at + batch.count
                    offsets = [start - first for start in starts[at:end]]
                    if self.decode_batch(data[first : stops[end - 1]], offsets, batch):
                        at = end
                        continue
                    # All of them one by one. Otherwise the rest would be tried as a batch again after each.
                    one_by_one = end
            try:
                self.decode(data[starts[at] : stops[at]], out, projections[at])
            except CodecError as error:
                on_error(at, error)
            at += 1

    def plan_batch(
        self, out: NDArray[Any], projections: Sequence[ChunkSelection], first: int = 0, stop: int | None = None
    ) -> BatchOutput | None:
        """Return the places of chunks that may be decoded as a batch, from number `first` on and before `stop`.

        Returns:
            The places of at least two chunks, or None if number `first` has to be decoded alone.
        """
        if not self.max_batch:
            return None
        regions = self._regions
        takes_parts = regions is None or not regions.decodes_parts
        from aiozarr.grid.byte_runs import adjacent_window

        batch = BatchOutput(out)
        # A subclass of numpy.ndarray, such as a masked array, has more state than its memory.
        windowed = type(out) is np.ndarray and out.dtype == self._dtype
        stop = min(len(projections) if stop is None else stop, first + self.max_batch)
        parts: list[ChunkSelection] = []
        while first < stop:
            may_be_whole = windowed and type(projections[first]) is ChunkProjection
            window = adjacent_window(projections, first, stop, out, self._shape) if may_be_whole else None
            if window is None:
                if not takes_parts:
                    break
                parts.append(projections[first])
                first += 1
                continue
            if parts:
                batch.add(parts, None)
                parts = []
            batch.add(projections[first : first + len(window)], window)
            first += len(window)
        if parts:
            batch.add(parts, None)
        return batch if batch.count > 1 else None

    def decode_batch(self, data: memoryview, starts: Sequence[int], batch: BatchOutput) -> bool:
        """Decode adjacent chunks, which begin at `starts` of `data`, to the places that `plan_batch` has returned.

        Returns:
            False if the chunks cannot be decoded as a batch. The content of their places is then undefined. Decoding
            them one by one identifies the damaged chunk.
        """
        assert self._decode_batch is not None
        count, block = batch.count, batch.block
        memory = byte_view(self._batch_block[:count] if block is None else block)
        decoded = self._decode_batch(data, starts, memory)
        if decoded is None:
            return False
        if decoded is not memory:
            batch.scatter(array_over(decoded, (count, *self._shape), self._dtype), self._row)
        elif block is None:
            batch.scatter(self._batch_block, self._row)
        return True

    def decode_shared(self, bodies: Sequence[Buffer]) -> NDArray[Any] | None:
        """Decode at most `max_batch` chunks that several readers want, one call for all.

        Returns:
            The chunks, along the first axis, which are valid until the thread decodes the next; None if they cannot be
            decoded as a batch.
        """
        assert self._decode_batch is not None
        data, starts, _ = EncodedChunks.join(bodies)
        decoded = self._decode_batch(data, starts, byte_view(self._batch_block[: len(bodies)]))
        return None if decoded is None else array_over(decoded, (len(bodies), *self._shape), self._dtype)


def thread_decoder(pipeline: CodecPipeline) -> ChunkDecoder:
    """Return the calling thread's decoder of `pipeline`'s chunks."""
    return thread_memory.latest("chunk decoder", pipeline, ChunkDecoder)


def decode_chunk(pipeline: CodecPipeline, data: Buffer, targets: Sequence[ChunkOutput]) -> None:
    """Decode one chunk for any number of readers.

    Raises:
        CodecError: `data` does not encode such a chunk.
    """
    thread_decoder(pipeline).decode_for(data, targets)


def encoded_buffer() -> memoryview:
    """Return the calling thread's buffer of `MAX_BATCH_BYTES` for the encoded bytes of a batch."""
    return thread_memory.latest("encoded bytes", MAX_BATCH_BYTES, _make_buffer)


def _make_buffer(nbytes: int) -> memoryview:
    return memoryview(bytearray(nbytes))


def decode_to_new(pipeline: CodecPipeline, data: Buffer, targets: Sequence[ChunkOutput]) -> NDArray[Any]:
    """Decode one chunk to a new array, for a cache, and copy from it for the readers.

    Returns:
        The chunk, read-only.

    Raises:
        CodecError: `data` does not encode such a chunk.
    """
    spec = pipeline.spec
    block = np.empty(spec.shape, spec.dtype)
    chunk = pipeline.decode(data, out=block)
    if chunk is not block:
        # The codecs may have returned a view of larger memory.
        assign(block, chunk)
    block.flags.writeable = False
    copy_to(block, targets)
    return block


def copy_to(chunk: NDArray[Any], targets: Sequence[ChunkOutput]) -> None:
    """Copy from a decoded chunk for its readers."""
    for target in targets:
        target.projection.scatter(target.out, target.projection.gather(chunk))


def scatter_chunks(out: NDArray[Any], chunks: NDArray[Any], projections: Sequence[ChunkSelection]) -> None:
    """Copy the selected elements of decoded `chunks`, stacked along the first axis, to their positions in `out`."""
    if len(projections) > 1 and type(projections[0]) is not ChunkProjection:
        from aiozarr.grid.points import scatter_points

        if scatter_points(out, chunks, projections):
            return
    for number, projection in enumerate(projections):
        projection.scatter(out, projection.gather(chunks[number, ...]))


def kept_copy(chunk: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of a small C-contiguous chunk for a cache, read-only."""
    kept = np.empty_like(chunk)
    # numpy would give the interpreter's lock away for the few microseconds that this takes.
    byte_view(kept)[:] = byte_view(chunk)
    kept.flags.writeable = False
    return kept


def decode_unpadded(
    pipeline: CodecPipeline | None, error: CodecError, data: Buffer, targets: Sequence[ChunkOutput]
) -> bool:
    """Decode a chunk that failed with `error` as a chunk without padding.

    Some writers store chunks at the array's end without padding. `pipeline` has the codecs for their smaller shape.

    Returns:
        False if the missing padding does not explain the error, or there is no such pipeline.
    """
    if pipeline is None or isinstance(error, ChecksumError):
        return False
    try:
        decode_chunk(pipeline, data, targets)
    except CodecError:
        return False
    return True


def _end_of_adjacent(starts: Sequence[int], stops: Sequence[int], first: int) -> int:
    """Return the number after the last chunk that follows number `first` without a gap."""
    end = first + 1
    while end < len(starts) and starts[end] == stops[end - 1]:
        end += 1
    return end
