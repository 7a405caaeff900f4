"""Parquet tables of references, as kerchunk and VirtualiZarr write them; record files are read when needed."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from io import BytesIO
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.errors import InvalidMetadataError, LimitError
from aiozarr.model import Entry
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.contract import Store
from aiozarr.stores.reference.columns import (
    MISSING,
    ROW_BYTES,
    WHOLE,
    KeyFamily,
    Reference,
    ReferenceColumns,
    check_bound,
    check_count,
    check_reference,
    split_chunk_key,
)
from aiozarr.stores.reference.json_table import check_url_length
from aiozarr.stores.reference.table import (
    MAX_DOCUMENT_BYTES,
    Found,
    LoadedReferences,
    ReferenceTable,
    check_document,
    check_families,
    sort_below,
)

DOCUMENT_NAME = ".zmetadata"
"""The document of a table, beside the directories of record files."""
MAX_RECORD_BYTES = 1 << 28
"""The largest record file that is read."""
MAX_RECORD_ROWS = 10_000_000
"""The most references of one record file."""
MAX_LISTED_RECORDS = 1 << 20
"""The most record files of one array that are listed."""
_INLINED_BYTES = 100  # of an entry in a dictionary

_COLUMNS = ("path", "offset", "size", "raw")
_TEXTS = ("path", "raw")


async def read_document(store: Store, key: str, max_bytes: int) -> Buffer | None:
    """Return the bytes of a document of references; None if it is not stored.

    Raises:
        LimitError: it has more than `max_bytes` bytes.
        StoreError: it could not be read.
    """
    is_bounded = store.has_bounded_reads
    value = await (store.fetch(key, max_bytes=max_bytes) if is_bounded else store.fetch(key))
    if value is not None and memoryview(value.data).nbytes > max_bytes:
        message = f"the document of references has more than {max_bytes} bytes; Settings.max_metadata_bytes bounds it"
        raise LimitError(message, limit="max_bytes", allowed=max_bytes, store=store.url, key=key)
    return None if value is None else value.data


class _Grid(NamedTuple):
    """The chunks of one array: the directory of its record files, and the number of chunks in each dimension."""

    field: str
    shape: tuple[int, ...]


class _Record(NamedTuple):
    """The references of consecutive chunks of one array."""

    columns: ReferenceColumns
    urls: list[str]
    inlined: Mapping[int, bytes]


class ParquetTable(ReferenceTable):
    """The table in a directory of record files.

    Args:
        store: the store of the directory.
        prefix: the directory: `""`, or ending with `/`.
        document: the document `.zmetadata`.

    Raises:
        InvalidMetadataError: `document` does not describe such a table.
        LimitError: its record files are too large.
        ImportError: pyarrow is not installed.
    """

    def __init__(self, store: Store, prefix: str, document: Buffer) -> None:
        _import_parquet()
        members, self._record_size = _parse_members(document)
        self._store = store
        self._prefix = prefix
        self._documents = LoadedReferences()
        # Readers look for consolidated metadata, which this is.
        consolidated = {"zarr_consolidated_format": 1, "metadata": members}
        self._documents.add_single(DOCUMENT_NAME, json.dumps(consolidated).encode())
        self._grids: dict[KeyFamily, _Grid] = {}
        self._scalars: dict[str, str] = {}  # the fields of arrays without dimensions, whose keys have no coordinates
        self._records: dict[tuple[str, int], _Record | None] = {}
        for key, member in members.items():
            self._documents.add_single(key, json.dumps(member).encode())
            self._add_grid(key, member)

    def _add_grid(self, key: str, member: Any) -> None:
        field, _, name = key.rpartition("/")
        is_default = False
        try:
            if name == ".zarray":
                chunks, separator = member["chunks"], member.get("dimension_separator") or "."
            elif name == "zarr.json" and member.get("node_type") == "array":
                chunks = member["chunk_grid"]["configuration"]["chunk_shape"]
                encoding = member["chunk_key_encoding"]
                is_default = encoding["name"] == "default"
                separator = (encoding.get("configuration") or {}).get("separator") or ("/" if is_default else ".")
            else:
                return
            shape = tuple([ceil(extent / length) for extent, length in zip(member["shape"], chunks, strict=True)])
            start = f"{field}/" if field else ""
            if is_default:
                start += f"c{separator}"
            if not shape and is_default:
                self._scalars[f"{field}/c" if field else "c"] = field
                return
            check_families(len(self._grids))
            self._grids[KeyFamily(start, separator if len(shape) > 1 else "", max(1, len(shape)))] = _Grid(field, shape)
        except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):
            return  # its own document is read when it is opened, with a better error

    def _place(self, key: str) -> tuple[str, int, int] | None:
        """Return the field of a chunk, the number of its record, and its row there; None if there is no such chunk."""
        if key in self._scalars:
            return self._scalars[key], 0, 0
        split = split_chunk_key(key)
        grid = None if split is None else self._grids.get(split[0])
        if split is None or grid is None:
            return None
        number, separator = 0, split[0].separator
        texts = split[1].split(separator) if separator else [split[1]]
        for text, extent in zip(texts, grid.shape or (1,), strict=True):
            if (coordinate := int(text)) >= extent:
                return None
            number = number * extent + coordinate
        return grid.field, *divmod(number, self._record_size)

    def unloaded_part(self, key: str) -> Hashable:
        place = self._place(key)
        return None if place is None or place[:2] in self._records else place[:2]

    async def load(self, part: Hashable) -> None:
        assert isinstance(part, tuple)  # one of `unloaded_part`
        field, number = part
        if part in self._records:
            return
        key = f"{self._prefix}{field}/refs.{number}.parq" if field else f"{self._prefix}refs.{number}.parq"
        limit = self.max_document_bytes
        data = await read_document(self._store, key, min(limit, MAX_RECORD_BYTES))
        try:
            record = None if data is None else await in_thread(lambda: read_record(data, self._record_size, key, limit))
        except InvalidMetadataError as error:
            error.node = self._store.url_of(key)
            raise
        check_count(sum([len(each.columns) for each in (*self._records.values(), record) if each is not None]))
        self._records[part] = record

    def find(self, key: str) -> Found | None:
        place = self._place(key)
        if place is None:
            return self._documents.find(key)
        record = self._records.get(place[:2])
        return None if record is None else _found(record, place[2])

    async def scan(self, prefix: str) -> AsyncIterator[Entry]:
        async for entry in self._documents.scan(prefix):
            yield entry
        for key, field in self._scalars.items():
            await self.load((field, 0))
            if key.startswith(prefix) and (found := self.find(key)) is not None:
                yield Entry(key, _size(found))
        for family, grid in list(self._grids.items()):
            if not (family.prefix.startswith(prefix) or prefix.startswith(family.prefix)):
                continue
            count = prod(grid.shape)
            records = -(-count // self._record_size)
            message = "{value} record files of {key!r} are too many to list"
            check_bound(records, MAX_LISTED_RECORDS, "record files", message, grid.field)
            for number in range(records):
                await self.load((grid.field, number))
                record = self._records[grid.field, number]
                for row in [] if record is None else _rows(record):
                    key = _key_of(family, grid.shape, number * self._record_size + row)
                    if key.startswith(prefix):
                        yield Entry(key, _size(_found(record, row)))  # type: ignore[arg-type]

    async def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
        keys, prefixes = await self._documents.list_dir(prefix)
        for family in self._grids:
            name, slash, _ = family.prefix[len(prefix) :].partition("/")
            if family.prefix.startswith(prefix) and slash:
                prefixes.add(f"{prefix}{name}/")
            elif family.prefix.startswith(prefix) or prefix.startswith(family.prefix):
                sort_below(prefix, [entry.key async for entry in self.scan(prefix)], keys, prefixes)
        return keys, prefixes

    async def aclose(self) -> None:
        await self._store.aclose()


def read_record(data: Buffer, record_size: int, key: str, max_bytes: int = MAX_DOCUMENT_BYTES) -> _Record:
    """Return the references of a record file.

    Raises:
        InvalidMetadataError: it is not a record file.
        LimitError: it has more rows than the table says, or too many decoded bytes.
    """
    parquet = _import_parquet()
    import pyarrow as pa  # pyright: ignore[reportMissingImports]  # optional

    try:
        metadata = parquet.read_metadata(BytesIO(data))
        rows = metadata.num_rows
        message = "the record file has {value} references, and its table has {allowed} in each"
        check_bound(rows, record_size, "record_size", message, key)
        schema = metadata.schema.to_arrow_schema()
        names = [name for name in _COLUMNS if _has_column(schema, name, pa.types)]
        row_bytes = ROW_BYTES + (_INLINED_BYTES if "raw" in names else 0)
        check_document(row_bytes * rows + _page_bytes(metadata, names), max_bytes, key)
        # Values that occur many times, as most paths do, are decoded once.
        texts = [name for name in names if name in _TEXTS]
        source = parquet.ParquetFile(BytesIO(data), metadata=metadata, read_dictionary=texts)
        table = source.read(columns=names)
        columns = {name: table.column(name).combine_chunks() for name in names}
        objects, urls = _entries(columns.get("path"), rows, pa)
        urls = [url if isinstance(url, str) else url.decode() for url in urls]
        for url in urls:
            check_url_length(url, key)
        starts, lengths = (_numbers(columns.get(name), rows) for name in ("offset", "size"))
        numbers, raw = _entries(columns.get("raw"), rows, pa)
        values = list(map(_raw_bytes, raw))
    except (pa.ArrowException, OSError, ValueError, AttributeError) as error:
        raise InvalidMetadataError(f"not a record file of references: {str(error)[:200]}", key=key) from None
    inlined = {row: values[numbers[row]] for row in np.flatnonzero(numbers != MISSING).tolist()}
    for row in np.flatnonzero((starts < 0) | (lengths < 0) | (starts + lengths < 0)).tolist():
        check_reference(f"{key}, row {row}", int(starts[row]), int(lengths[row]))
        raise LimitError(f"row {row} of a record file ends beyond 2**63 - 1", limit="reference end", key=key)
    lengths[(starts == 0) & (lengths == 0)] = WHOLE
    return _Record(ReferenceColumns(KeyFamily("", "", 1), (rows,), None, objects, starts, lengths), urls, inlined)


def _entries(column: Any, rows: int, arrow: Any) -> tuple[NDArray[np.int32], list[Any]]:
    """Return for each row the number of its text, or `MISSING`, and the texts, each once."""
    if column is None:
        return np.full(rows, MISSING, np.int32), []
    column = column if isinstance(column, arrow.DictionaryArray) else column.dictionary_encode()
    return (
        column.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int32),
        column.dictionary.to_pylist(),
    )


def _numbers(column: Any, rows: int) -> NDArray[np.int64]:
    if column is None:
        return np.zeros(rows, np.int64)
    numbers: NDArray[np.int64] = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _has_column(schema: Any, name: str, types: Any) -> bool:
    """Return whether a record file has values in a column. A column without values has no type, or is of NaN.

    Raises:
        ValueError: the column is of another type, which may take any number of bytes.
    """
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    is_number = types.is_integer(kind) or types.is_floating(kind)
    if types.is_null(kind) or (name in _TEXTS and is_number):
        return False
    texts = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
    if not (is_number or (name in _TEXTS and any([is_kind(kind) for is_kind in texts]))):
        raise ValueError(f"the column {name!r} has the type {str(kind)[:100]}")
    return True


def _page_bytes(metadata: Any, names: Sequence[str]) -> int:
    """Return how many bytes the pages of some columns take before they are decoded, as the file says."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum([column.total_uncompressed_size for column in columns if column.path_in_schema in names])


def _parse_members(document: Buffer) -> tuple[dict[str, Any], int]:
    try:
        found = json.loads(bytes(document))
        members, size = found["metadata"], found["record_size"]
    except (ValueError, KeyError, TypeError, RecursionError):
        members, size = None, None
    if not isinstance(members, dict) or type(size) is not int or size < 1:
        message = "the document .zmetadata of parquet references has 'metadata' and 'record_size'"
        raise InvalidMetadataError(message, key=DOCUMENT_NAME)
    message = "record files of {value} references are not read; at most {allowed} are"
    check_bound(size, MAX_RECORD_ROWS, "record_size", message)
    return members, size


def _import_parquet() -> Any:
    try:
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]  # optional
    except ImportError as error:
        message = "parquet references need the package pyarrow: pip install pyarrow"
        raise ImportError(message) from error
    return parquet


def _raw_bytes(value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else bytes(value)
    return b64decode(raw[len(b"base64:") :]) if raw.startswith(b"base64:") else raw


def _found(record: _Record, row: int) -> Found | None:
    inlined = record.inlined.get(row)
    if inlined is not None:
        return inlined
    if row >= len(record.columns) or record.columns.objects[row] == MISSING:
        return None
    number, start, length = record.columns.located(row)
    return Reference(record.urls[number], start, length)


def _rows(record: _Record) -> list[int]:
    referenced = np.flatnonzero(record.columns.objects != MISSING).tolist()
    return sorted({*referenced, *record.inlined})


def _size(found: Found) -> int | None:
    return found.length if isinstance(found, Reference) else memoryview(found).nbytes


def _key_of(family: KeyFamily, grid: tuple[int, ...], number: int) -> str:
    coordinates = np.unravel_index(number, grid or (1,))
    return family.prefix + family.separator.join(map(str, coordinates))
