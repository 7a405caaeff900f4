"""What readers and writers need to know of an array, resolved once from its metadata: grid, keys, codecs."""

from __future__ import annotations

from dataclasses import dataclass

from aiozarr.codecs import ArraySpec, CodecPipeline, ShardLayout
from aiozarr.errors import LimitError, MetadataError, UnsupportedMetadataError
from aiozarr.grid import ChunkGrid, ChunkKeyEncoding, RegularGrid, resolve_grid, resolve_key_encoding
from aiozarr.grid.axes import RegularAxis, regular_axes
from aiozarr.metadata import ArrayMetadata
from aiozarr.settings import Settings


@dataclass(frozen=True, eq=False)
class ArrayLayout:
    """Grid, keys and codecs of one array.

    Attributes:
        node: the array's URL or path, for errors.
        metadata: what it was resolved from.
        grid: the grid of stored objects.
        axes: the grid's dimensions.
        key_encoding: chunk coordinates → key, relative to the array.
        pipeline: the codecs of a stored object.
        spec: the decoded representation of a stored object.
        shard: how a stored object divides into inner chunks that can be read by ranges; None where it does not.
        inner_axes: the dimensions of the grid of inner chunks inside one shard; empty without shards.
        token: equal for arrays whose chunks decode alike; decoded chunks are shared between readers by it.
    """

    node: str
    metadata: ArrayMetadata
    grid: ChunkGrid
    axes: tuple[RegularAxis, ...]
    key_encoding: ChunkKeyEncoding
    pipeline: CodecPipeline
    shard: ShardLayout | None
    inner_axes: tuple[RegularAxis, ...]
    token: str

    @classmethod
    def resolve(cls, metadata: ArrayMetadata, *, node: str, settings: Settings) -> ArrayLayout:
        """Resolve grid, key encoding and codecs.

        Raises:
            InvalidMetadataError, UnsupportedMetadataError: with `node` and `member`.
        """
        # Limits of chunks hold when a chunk is touched: metadata of a huge chunk may still be looked at.
        try:
            grid = resolve_grid(metadata.chunk_grid, metadata.shape)
            if not isinstance(grid, RegularGrid):
                raise UnsupportedMetadataError("only regular chunk grids can be read", member="chunk_grid.name")
            key_encoding = resolve_key_encoding(metadata.chunk_key_encoding, len(metadata.shape))
            spec = ArraySpec(grid.chunk_shape, metadata.data_type.dtype, metadata.fill_value, settings.max_chunk_bytes)
            pipeline = CodecPipeline.resolve(metadata.codecs, spec)
        except MetadataError as error:
            error.node = error.node or node
            raise
        shard = pipeline.shard
        return cls(
            node=node,
            metadata=metadata,
            grid=grid,
            axes=regular_axes(grid.chunk_shape, metadata.shape),
            key_encoding=key_encoding,
            pipeline=pipeline,
            shard=shard,
            inner_axes=() if shard is None else regular_axes(shard.inner_shape, shard.shard_shape),
            token=f"{spec.shape}{spec.dtype.str}{metadata.fill_value.tobytes().hex()}{pipeline.to_json()!r}{settings.strict}",
        )

    @property
    def spec(self) -> ArraySpec:
        """The decoded representation of a stored object."""
        return self.pipeline.spec

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of the smallest unit that can be read: the inner chunk of a sharded array, else the chunk."""
        return self.spec.shape if self.shard is None else self.shard.inner_shape

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shape of a shard; None where the array has none."""
        return None if self.shard is None else self.shard.shard_shape

    def check_read(self, settings: Settings) -> None:
        """Raise `LimitError` where decoding one unit of this array would pass a limit of `settings`."""
        unit = self.spec if self.shard is None else self.shard.inner.spec
        self._check("max_chunk_bytes", unit.nbytes, settings.max_chunk_bytes, "a chunk decodes to")
        if self.shard is not None:
            index_nbytes = self.shard.index_nbytes
            self._check("max_index_bytes", index_nbytes, settings.max_index_bytes, "the index of a shard has")

    def check_write(self, settings: Settings) -> None:
        """Raise `LimitError` where encoding one stored object of this array would pass a limit of `settings`."""
        self.check_read(settings)
        self._check("max_chunk_bytes", self.spec.nbytes, settings.max_chunk_bytes, "a stored object decodes to")

    def _check(self, limit: str, value: int, allowed: int, what: str) -> None:
        if value > allowed:
            raise LimitError(
                f"{what} {value} bytes; Settings.{limit} allows {allowed} (node {self.node})",
                limit=limit,
                value=value,
                allowed=allowed,
            )
