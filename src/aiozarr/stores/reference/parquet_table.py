"""Parquet tables of references, as kerchunk and VirtualiZarr write them; record files are read when needed."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from io import BytesIO
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np
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
MAX_TABLE_BYTES = 1 << 32
"""The most bytes that the record files of one table take in memory, as many as `MAX_REFERENCES` take."""
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
    nbytes: int


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
        records = [each for each in (*self._records.values(), record) if each is not None]
        check_count(sum([len(each.columns) for each in records]))
        if (nbytes := sum([each.nbytes for each in records])) > MAX_TABLE_BYTES:
            message = f"the record files take {nbytes} bytes of memory; at most {MAX_TABLE_BYTES} are read"
            raise LimitError(message, limit="record files", value=nbytes, allowed=MAX_TABLE_BYTES, key=key)
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
            if records > MAX_LISTED_RECORDS:
                message = f"{records} record files of {grid.field!r} are too many to list"
                raise LimitError(message, limit="record files", value=records, allowed=MAX_LISTED_RECORDS)
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
    """Return the references of a record file, of which one row group at a time is decoded.

    Raises:
        InvalidMetadataError: it is not a record file.
        LimitError: it has more rows than the table says, or too many decoded bytes.
    """
    parquet = _import_parquet()
    import pyarrow as pa  # pyright: ignore[reportMissingImports]  # optional

    try:
        metadata = parquet.read_metadata(BytesIO(data))
        rows = metadata.num_rows
        if rows > record_size:
            message = f"the record file has {rows} references, and its table has {record_size} in each"
            raise LimitError(message, limit="record_size", value=rows, allowed=record_size, key=key)
        names = [name for name in _COLUMNS if _has_column(metadata.schema.to_arrow_schema(), name, pa.types)]
        check_document(ROW_BYTES * rows + _page_bytes(metadata, names), max_bytes, key)
        # Values that occur many times, as most paths do, are decoded once.
        texts = [name for name in names if name in _TEXTS]
        source = parquet.ParquetFile(BytesIO(data), metadata=metadata, read_dictionary=texts)
        objects = np.full(rows, MISSING, np.int32)
        ranges = {name: np.zeros(rows, np.int64) for name in _COLUMNS if name not in _TEXTS}
        numbers: dict[str, int] = {}
        inlined: dict[int, bytes] = {}
        nbytes, at = ROW_BYTES * rows, 0
        for group in range(source.num_row_groups):
            table = source.read_row_group(group, columns=names)
            for name in names:
                begin = at
                for chunk in table.column(name).chunks:
                    here, begin = slice(begin, begin + len(chunk)), begin + len(chunk)
                    if name not in _TEXTS:
                        ranges[name][here] = chunk.fill_null(0).to_numpy(zero_copy_only=False)
                        continue
                    chunk = chunk if isinstance(chunk, pa.DictionaryArray) else chunk.dictionary_encode()
                    indices = chunk.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
                    nbytes += chunk.dictionary.nbytes
                    nbytes += _INLINED_BYTES * int((indices != MISSING).sum()) if name == "raw" else 0
                    check_document(nbytes, max_bytes, key)
                    entries = chunk.dictionary.to_pylist()
                    if name == "raw":
                        values = [None if text is None else _raw_bytes(text) for text in entries]
                        for row in np.flatnonzero(indices != MISSING).tolist():
                            if (value := values[indices[row]]) is not None:
                                inlined[here.start + row] = value
                    else:
                        found = [
                            MISSING if text is None else numbers.setdefault(_checked_url(text, key), len(numbers))
                            for text in entries
                        ]
                        objects[here] = np.array([*found, MISSING], np.int32)[indices]
            at += table.num_rows
    except (pa.ArrowException, OSError, ValueError, AttributeError) as error:
        raise InvalidMetadataError(f"not a record file of references: {str(error)[:200]}", key=key) from None
    starts, lengths = ranges["offset"], ranges["size"]
    for row in np.flatnonzero((starts < 0) | (lengths < 0) | (starts + lengths < 0)).tolist():
        check_reference(f"{key}, row {row}", int(starts[row]), int(lengths[row]))
        raise LimitError(f"row {row} of a record file ends beyond 2**63 - 1", limit="reference end", key=key)
    lengths[(starts == 0) & (lengths == 0)] = WHOLE
    columns = ReferenceColumns(KeyFamily("", "", 1), (rows,), None, objects, starts, lengths)
    return _Record(columns, list(numbers), inlined, nbytes)


def _has_column(schema: Any, name: str, types: Any) -> bool:
    """Return whether a record file has values in a column. A column without values has no type, or is of NaN.

    Raises:
        ValueError: the column is of another type, which may take any number of bytes.
    """
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_text = (
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )
    is_number = types.is_integer(kind) or types.is_floating(kind)
    if types.is_null(kind) or (name in _TEXTS and is_number):
        return False
    if is_text is not (name in _TEXTS) or not (is_text or is_number):
        raise ValueError(f"the column {name!r} is of the type {str(kind)[:100]}")
    return True


def _page_bytes(metadata: Any, names: Sequence[str]) -> int:
    """Return how many bytes the pages of some columns take before they are decoded, as the file says."""
    total = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = map(group.column, range(group.num_columns))
        total += sum([column.total_uncompressed_size for column in columns if column.path_in_schema in names])
    return total


def _checked_url(text: str | bytes, key: str) -> str:
    url = text if isinstance(text, str) else text.decode()
    check_url_length(url, key)
    return url


def _parse_members(document: Buffer) -> tuple[dict[str, Any], int]:
    try:
        found = json.loads(bytes(document))
        members, size = found["metadata"], found["record_size"]
    except (ValueError, KeyError, TypeError, RecursionError):
        members, size = None, None
    if not isinstance(members, dict) or type(size) is not int or size < 1:
        message = "the document .zmetadata of parquet references has 'metadata' and 'record_size'"
        raise InvalidMetadataError(message, key=DOCUMENT_NAME)
    if size > MAX_RECORD_ROWS:
        message = f"record files of {size} references are not read; at most {MAX_RECORD_ROWS} are"
        raise LimitError(message, limit="record_size", value=size, allowed=MAX_RECORD_ROWS)
    return members, size


def _import_parquet() -> Any:
    try:
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]  # optional
    except ImportError as error:
        message = "parquet references need the package pyarrow: pip install 'aiozarr[references]'"
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
