"""Facts of an array or a group, as records that print as tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from aiozarr.formatting import format_bytes, format_table, preformatted
from aiozarr.hierarchy.node_access import NodeAccess
from aiozarr.metadata import is_document


@dataclass(frozen=True, kw_only=True)
class ArrayInfo:
    """The facts of one array; `str(info)` is a table of them.

    Attributes:
        type: "Array".
        url: the canonical URL.
        zarr_format: version of the format.
        store: class name of the store.
        read_only: whether writes raise.
        data_type: name of the elements' type.
        shape: lengths of the dimensions.
        chunks: shape of the smallest unit that can be read.
        shards: shape of a shard; None without shards.
        order: "C" or "F", the order of elements in a chunk.
        fill_value: the value of missing chunks, as text.
        codecs: names of the codecs, in the order of encoding.
        nbytes: bytes of the array in memory.
        objects_expected: number of stored objects of a completely written array.
        objects_stored: number of stored chunks or shards; None if the store cannot list.
        bytes_stored: their bytes; None if the store cannot list or does not report sizes.
    """

    type: str = "Array"
    url: str
    zarr_format: int
    store: str
    read_only: bool
    data_type: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    order: str
    fill_value: str
    codecs: tuple[str, ...]
    nbytes: int
    objects_expected: int
    objects_stored: int | None
    bytes_stored: int | None

    @property
    def ratio(self) -> float | None:
        """Bytes in memory / bytes stored; None if the latter are unknown or 0."""
        return self.nbytes / self.bytes_stored if self.bytes_stored else None

    def as_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        facts = [(name, value) for name, value in self.as_dict().items() if value is not None]
        if self.ratio is not None:
            facts.append(("ratio", f"{self.ratio:.2f}"))
        return _table(facts)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


@dataclass(frozen=True, kw_only=True)
class GroupInfo:
    """The facts of one group; `str(info)` is a table of them.

    Attributes:
        type: "Group".
        url: the canonical URL.
        zarr_format: version of the format.
        store: class name of the store.
        read_only: whether writes raise.
        consolidated: whether it has consolidated metadata.
        attributes: number of attributes.
        arrays: number of arrays below it, at any depth; None if the store cannot list.
        groups: number of groups below it, at any depth; None if the store cannot list.
        objects_stored: number of stored chunks and shards below it; None if the store cannot list.
        bytes_stored: their bytes; None if the store cannot list or does not report sizes.
    """

    type: str = "Group"
    url: str
    zarr_format: int
    store: str
    read_only: bool
    consolidated: bool
    attributes: int
    arrays: int | None
    groups: int | None
    objects_stored: int | None
    bytes_stored: int | None

    def as_dict(self) -> dict[str, object]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        return _table([(name, value) for name, value in self.as_dict().items() if value is not None])

    def _repr_html_(self) -> str:
        return preformatted(str(self))


async def count_objects(access: NodeAccess) -> tuple[int | None, int | None]:
    """Return the number and bytes of the stored objects of the node, without metadata documents; None: unknown."""
    if not access.store.supports.listable:
        return None, None
    count, total, sized = 0, 0, True
    async for entry in access.scheduled.scan(access.prefix):
        if not _is_document(entry.key.rpartition("/")[2]):
            count += 1
            total += entry.size or 0
            sized = sized and entry.size is not None
    return count, total if sized else None


def _is_document(name: str) -> bool:
    # NCZarr stores documents of its own under such names.
    return is_document(name) or name.startswith(".nc")


def _table(facts: Iterable[tuple[str, object]]) -> str:
    return format_table((name.replace("_", " "), _text(name, value)) for name, value in facts)


def _text(name: str, value: object) -> str:
    if name in ("nbytes", "bytes_stored") and isinstance(value, int):
        return format_bytes(value)
    if name == "codecs" and isinstance(value, tuple):
        return " → ".join(value)
    return str(value)
