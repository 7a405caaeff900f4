"""The layout of an array, resolved once from its metadata: grid, keys, codecs.

Functions tell which stored objects and inner chunks a selection touches, and whether they are too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.chain import CodecChain, parse_chain, strict_copy
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.registry import get_codec
from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.errors import InvalidMetadataError, LimitError, MetadataError
from aiozarr.grid.axes import Axis, RegularAxis, regular_axes
from aiozarr.grid.chunk_grid import ChunkGrid, chunk_count_bound, count_chunks, resolve_grid
from aiozarr.grid.key_encoding import ChunkKeyEncoding, resolve_key_encoding
from aiozarr.grid.projection import ChunkSelection
from aiozarr.grid.transform import DimensionMap, IndexTransform
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.plugins import SharedResults
from aiozarr.settings import Settings

if TYPE_CHECKING:
    from aiozarr.codecs.chunk_layouts import ShardLayout
    from aiozarr.metadata.formats import NodeMetadata

MAX_LISTED = 1_000_000
"""The most chunk lengths that `ArrayLayout.objects` lists."""

MAX_OBJECTS = 256
"""An array with stored objects of many shapes has the resolved codecs of at most this many shapes in memory."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ObjectLayout:
    """The layout of one stored object, a chunk or a shard, which follows from its shape.

    Attributes:
        pipeline: its codecs.
        spec: its decoded representation.
        shard: its division into inner chunks that can be read by ranges, or None.
        inner_axes: the dimensions of the grid of its inner chunks; empty without shards.
    """

    pipeline: CodecPipeline
    spec: ArraySpec
    shard: ShardLayout | None
    inner_axes: tuple[RegularAxis, ...]

    @classmethod
    def of(cls, pipeline: CodecPipeline) -> ObjectLayout:
        """Return the layout of the objects of these codecs."""
        shard = pipeline.shard
        inner_axes = () if shard is None else regular_axes(shard.inner_shape, shard.shard_shape)
        return cls(pipeline, pipeline.spec, shard, inner_axes)


@dataclass(frozen=True, eq=False, repr=False)
class ArrayLayout:
    """Grid, keys and codecs of one array.

    Attributes:
        node: the array's URL or path, for errors.
        metadata: the array's metadata.
        grid: the grid of stored objects.
        axes: the grid's dimensions.
        key_encoding: chunk coordinates → key, relative to the array.
        largest: the layout of the largest stored object.
        single: the same if all stored objects have one shape, else None.
        decoding_id: equal for arrays whose chunks decode alike. Readers share decoded chunks by it.
        strict: `Settings.strict`.
        is_respelled: `metadata` have other spellings of members than those that were resolved.
    """

    node: str
    metadata: ArrayMetadata
    grid: ChunkGrid
    axes: tuple[Axis, ...]
    key_encoding: ChunkKeyEncoding
    largest: ObjectLayout
    single: ObjectLayout | None
    decoding_id: str
    strict: bool
    _chain: CodecChain
    _objects: dict[tuple[int, ...], ObjectLayout] = field(default_factory=dict)
    is_respelled: bool = False

    @classmethod
    def resolve(cls, metadata: ArrayMetadata, *, node: str, settings: Settings) -> ArrayLayout:
        """Resolve grid, key encoding and codecs, which arrays with equal metadata share.

        Unless strict, members that have one plain meaning are read in other spellings. The metadata of the layout then
        have the specification's.

        Raises:
            InvalidMetadataError, UnsupportedMetadataError: with `node` and `member`.
        """
        found = _shared.get(
            [
                (each.name, each.configuration)
                for each in (metadata.chunk_grid, metadata.chunk_key_encoding, *metadata.codecs)
            ],
            metadata.shape,
            metadata.data_type,
            metadata.data_type.fill_key(metadata.fill_value),
            settings.max_chunk_bytes,
            settings.strict,
            make=lambda: cls._resolve(replace(metadata, attributes={}, extra={}), node, settings),
        )
        if found.is_respelled:
            new = found.metadata
            metadata = replace(
                metadata, chunk_grid=new.chunk_grid, chunk_key_encoding=new.chunk_key_encoding, codecs=new.codecs
            )
        return replace(found, node=node, metadata=metadata)

    @classmethod
    def _resolve(
        cls, metadata: ArrayMetadata, node: str, settings: Settings, refused: tuple[MetadataError, ...] = ()
    ) -> ArrayLayout:
        # Limits of chunks are checked by reads and writes: metadata of a huge chunk may still be opened.
        try:
            grid = resolve_grid(metadata.chunk_grid, metadata.shape)
            axes = grid.axes
            key_encoding = resolve_key_encoding(metadata.chunk_key_encoding, len(metadata.shape))
            shape = grid.largest_chunk
            spec = ArraySpec(shape, metadata.data_type.dtype, metadata.fill_value, settings.max_chunk_bytes)
            chain = parse_chain(metadata.codecs)
            if settings.strict:
                chain = strict_copy(chain)
            largest = ObjectLayout.of(CodecPipeline(chain, spec))
            if largest.shard is not None:
                _check_division(axes, largest.shard.inner_shape)
        except MetadataError as current:
            from aiozarr.metadata.lenient import MAX_RESPELLED, first_error, respelled_array
            from aiozarr.metadata.v2_encoding import stored_member_path

            if not settings.strict and len(refused) < MAX_RESPELLED:
                changed = respelled_array(metadata, current, lambda name: get_codec(name).default_configuration)
                if changed is not None:
                    return cls._resolve(changed, node, settings, (*refused, current))
            error = first_error(refused, current)
            error.node = error.node or node
            error.key, error.member = stored_member_path(metadata, error.member)
            raise error from current.__cause__
        single = largest if all([axis.is_uniform for axis in axes]) else None
        shapes = spec.shape if single is not None else _digest(grid)
        codecs = largest.pipeline.to_json()
        # By it decoders refuse elements of variable length, which one reader may accept and another not.
        most = spec.max_bytes if spec.is_variable else ""
        return cls(
            node=node,
            metadata=metadata,
            grid=grid,
            axes=axes,
            key_encoding=key_encoding,
            largest=largest,
            single=single,
            decoding_id=f"{shapes}{metadata.data_type!r}{_fill_key(metadata)}{codecs!r}{settings.strict}{most}",
            strict=settings.strict,
            _chain=chain,
            is_respelled=bool(refused),
        )

    def key_of(self, projection: ChunkSelection) -> str:
        """Return the key of the stored object of `projection`, relative to the array."""
        return self.key_encoding.encode(projection.coords)

    def object_of(self, projection: ChunkSelection) -> ObjectLayout:
        """Return the layout of the stored object of `projection`.

        Raises:
            InvalidMetadataError, UnsupportedMetadataError: the codecs do not take chunks of its shape.
        """
        if self.single is not None:
            return self.single
        parts = zip(self.axes, projection.coords, strict=True)
        return self.object_of_shape(tuple([axis.chunk_length(chunk) for axis, chunk in parts]))

    def unpadded(self, projection: ChunkSelection) -> CodecPipeline | None:
        """Return the codecs of a chunk at the array's end that was stored without its part outside the array.

        The formats require complete chunks; some writers do not store them.

        Returns: None if the chunk is inside the array, if `Settings.strict` is set, and for shards, whose indexes
            would not fit.
        """
        if self.strict or self.largest.shard is not None:
            return None
        shape = projection.extents
        if shape == self.object_of(projection).spec.shape:
            return None
        try:
            return self.object_of_shape(shape).pipeline
        except MetadataError:
            return None

    def object_of_shape(self, shape: tuple[int, ...]) -> ObjectLayout:
        """Return the layout of a stored object of `shape`.

        Raises:
            InvalidMetadataError, UnsupportedMetadataError: the codecs do not take chunks of that shape.
        """
        found = self._objects.get(shape)
        if found is None:
            try:
                found = ObjectLayout.of(CodecPipeline(self._chain, replace(self.spec, shape=shape)))
            except MetadataError as error:
                from aiozarr.metadata.v2_encoding import stored_member_path

                error.node = error.node or self.node
                error.key, error.member = stored_member_path(self.metadata, error.member)
                raise
            # Several threads may do this at once: an entry that one drops or makes twice only costs time.
            if len(self._objects) >= MAX_OBJECTS:
                self._objects.clear()
            self._objects[shape] = found
        return found

    @property
    def spec(self) -> ArraySpec:
        """The decoded representation of the largest stored object. All have its type and fill value."""
        return self.largest.spec

    @property
    def shard(self) -> ShardLayout | None:
        """The division of the largest stored object into inner chunks, which have one shape in all objects, or None."""
        return self.largest.shard

    @fork_safe_cached_property
    def whole(self) -> IndexTransform:
        """The transform of the whole array, from which its views are made."""
        return IndexTransform.identity(self.metadata.shape)

    @fork_safe_cached_property
    def inner_axes(self) -> Sequence[Axis]:
        """The dimensions of the grid of the smallest units that can be read."""
        if self.shard is None:
            return self.axes
        # Inner chunks divide shards, of whatever lengths, so over the whole array they are a regular grid.
        pairs = zip(self.shard.inner_shape, self.axes, strict=True)
        return [RegularAxis(length, axis.extent) for length, axis in pairs]

    @fork_safe_cached_property
    def inner_count(self) -> int:
        """Number of the smallest units that can be read in the whole array, stored or not."""
        return prod([axis.chunks for axis in self.inner_axes])

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The smallest units that can be read: the inner chunks of a sharded array, else as `objects`."""
        return self.objects if self.shard is None else self.shard.inner_shape

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """As `objects` if stored objects are shards, else None."""
        return None if self.shard is None else self.objects

    @property
    def objects(self) -> tuple[Any, ...]:
        """The shape of stored objects. If they differ: per dimension a tuple of their lengths inside the array.

        Raises:
            LimitError: there are more than a million lengths.
        """
        if self.single is not None:
            return self.spec.shape
        count = sum(self.grid.shape)
        if count > MAX_LISTED:
            reason = f"the array's {count} chunk lengths are too many to list; its chunk grid has them as runs"
            raise LimitError(reason, limit="chunk lengths", value=count, allowed=MAX_LISTED)
        return tuple([tuple(map(axis.chunk_extent, range(axis.chunks))) for axis in self.axes])

    def __str__(self) -> str:
        objects = f"{self.spec.shape}" if self.single is not None else f"{self.grid.shape} of differing lengths"
        return f"chunks {objects}" if self.shard is None else f"chunks {self.shard.inner_shape} shards {objects}"

    def check_read(self, settings: Settings, maps: Sequence[DimensionMap] | None = None) -> None:
        """Raise `LimitError` if decoding one chunk that `maps` touch would exceed a limit of `settings`.

        Without `maps` all chunks count.
        """
        shape = self._largest_touched(maps)
        nbytes = self._nbytes(shape) if self.shard is None else self.shard.inner.spec.nbytes
        self._check("max_chunk_bytes", nbytes, settings.max_chunk_bytes, "a chunk decodes to")
        if self.shard is not None:
            index_nbytes = self.shard.index_nbytes
            if shape != self.spec.shape and (shard := self.object_of_shape(shape).shard) is not None:
                index_nbytes = shard.index_nbytes
            self._check("max_index_bytes", index_nbytes, settings.max_index_bytes, "the index of a shard has")

    def check_write(self, settings: Settings, maps: Sequence[DimensionMap] | None = None) -> None:
        """Raise `LimitError` if encoding one stored object that `maps` touch would exceed a limit of `settings`."""
        self.check_read(settings, maps)
        nbytes = self._nbytes(self._largest_touched(maps))
        self._check("max_chunk_bytes", nbytes, settings.max_chunk_bytes, "a stored object decodes to")

    def _largest_touched(self, maps: Sequence[DimensionMap] | None) -> tuple[int, ...]:
        if self.single is not None or maps is None:
            return self.spec.shape
        # A grid is a product of its dimensions: one chunk is the longest in each of them. (Maps after the last
        # dimension are those of fields.)
        return tuple([axis.longest(each) for axis, each in zip(self.axes, maps, strict=False)])

    def _nbytes(self, shape: tuple[int, ...]) -> int:
        return prod(shape) * self.spec.dtype.itemsize

    def _check(self, limit: str, value: int, allowed: int, what: str) -> None:
        if value > allowed:
            raise LimitError(
                f"{what} {value} bytes; Settings.{limit} allows {allowed} (node {self.node})",
                limit=limit,
                value=value,
                allowed=allowed,
            )


_shared: SharedResults[ArrayLayout] = SharedResults()


def respelled_metadata(metadata: NodeMetadata, settings: Settings) -> NodeMetadata:
    """Return metadata in the specification's spelling; unchanged if their grid or codecs cannot be resolved."""
    if isinstance(metadata, ArrayMetadata):
        with suppress(MetadataError):
            return ArrayLayout.resolve(metadata, node="", settings=settings).metadata
    return metadata


def _check_division(axes: Sequence[Axis], inner_shape: Sequence[int]) -> None:
    """Check that inner chunks divide every shard, not only the largest."""
    from aiozarr.grid.run_length_axis import RunLengthAxis

    for dimension, (axis, inner) in enumerate(zip(axes, inner_shape, strict=True)):
        wrong = [each for each in axis.lengths if each % inner] if isinstance(axis, RunLengthAxis) else []
        if wrong:
            raise InvalidMetadataError(
                f"the inner chunks, {inner} long in dimension {dimension}, do not divide a shard of {wrong[0]}",
                member="codecs[0].configuration.chunk_shape",
            )


def _digest(grid: ChunkGrid) -> str:
    """Return a short text that is equal for equal grids."""
    # Imported here because only chunks of different shapes need it.
    from hashlib import sha256

    # One key may hold chunks of other shapes after another grid was stored.
    return sha256(repr(grid.to_json()).encode()).hexdigest()


def _fill_key(metadata: ArrayMetadata) -> str:
    return metadata.data_type.fill_key(metadata.fill_value).hex()


def fits_upper_bound(layout: ArrayLayout, maps: Sequence[DimensionMap], settings: Settings) -> bool:
    """Return whether `check_size` raises nothing, where that is clear without a look at what index arrays hold."""
    most = settings.max_chunks
    return layout.inner_count <= most or chunk_count_bound(layout.inner_axes, maps) <= most


def check_size(layout: ArrayLayout, maps: Sequence[DimensionMap], settings: Settings) -> None:
    """Raise `LimitError` if an operation on `maps` would touch more chunks than `settings` allow."""
    if fits_upper_bound(layout, maps, settings):
        return
    touched = count_chunks(layout.inner_axes, maps)
    if touched > settings.max_chunks:
        raise LimitError(
            f"the selection touches {touched} chunks; Settings.max_chunks allows {settings.max_chunks}",
            limit="max_chunks",
            value=touched,
            allowed=settings.max_chunks,
        )


def keyed_projections(
    layout: ArrayLayout, parts: Iterable[ChunkSelection], prefix: str
) -> Iterator[tuple[str, ChunkSelection]]:
    """Yield the key of each of the stored objects `parts`, with the wanted selection."""
    for projection in parts:
        yield prefix + layout.key_of(projection), projection


def inner_parts(stored: ObjectLayout, projection: ChunkSelection) -> Iterator[tuple[int, ChunkSelection]]:
    """Yield the linear index of every inner chunk that the projection of a shard touches, with the wanted selection."""
    assert stored.shard is not None
    return projection.inner_chunks(stored.inner_axes).numbered(stored.shard.grid_shape)
