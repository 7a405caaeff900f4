"""Parquet tables of references. They need pyarrow, which `make test-ecosystem` installs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import InvalidMetadataError, LimitError
from aiozarr.stores import MemoryStore, TraceStore, from_references
from aiozarr.stores.reference.parquet_table import ParquetTable, read_record

pa = pytest.importorskip("pyarrow", reason="parquet references need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

VALUES = np.arange(10_000, dtype="i4").reshape(100, 100)


def record(rows: list[Any], *, dictionary: bool = False) -> bytes:
    """Return a record file of references: None, bytes, or (URL, start, length)."""
    paths = pa.array([each[0] if isinstance(each, tuple) else None for each in rows], pa.string())
    columns = {
        "path": paths.dictionary_encode() if dictionary else paths,
        "offset": pa.array([each[1] if isinstance(each, tuple) else 0 for each in rows], pa.int64()),
        "size": pa.array([each[2] if isinstance(each, tuple) else 0 for each in rows], pa.int64()),
        "raw": pa.array([each if isinstance(each, bytes) else None for each in rows], pa.binary()),
    }
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


async def table_of(folder: Path, *, record_size: int = 7, dictionary: bool = False, **options: Any) -> None:
    """Store an array and a scalar as references to one file."""
    source = MemoryStore()
    await aiozarr.create_array(source, "g/t", data=VALUES, chunks=(20, 10), **options)
    await aiozarr.create_array(source, "s", data=np.float32(7), **options)
    metadata: dict[str, Any] = {}
    blob = bytearray(b"before")
    rows: dict[str, list[Any]] = {"g/t": [None] * 50, "s": [None]}
    for key in await source.list():
        data = bytes(memoryview(await source.get(key) or b""))
        field = "s" if key.startswith("s/") else "g/t"
        if key.endswith((".zarray", ".zattrs", ".zgroup", ".json")):
            metadata[key] = json.loads(data)
            continue
        digits = [int(each) for each in key[len(field) :].replace(".", "/").split("/") if each.isdigit()]
        row = digits[0] * 10 + digits[1] if field == "g/t" else 0
        rows[field][row] = data if row == 3 else (str(folder / "blob"), len(blob), len(data))
        blob += b"" if row == 3 else data
    (folder / "blob").write_bytes(blob)
    for field, references in rows.items():
        (folder / "refs.parquet" / field).mkdir(parents=True, exist_ok=True)
        for number in range(0, len(references), record_size):
            part = references[number : number + record_size]
            part += [None] * (record_size - len(part))
            path = folder / "refs.parquet" / field / f"refs.{number // record_size}.parq"
            path.write_bytes(record(part, dictionary=dictionary))
    document = {"metadata": metadata, "record_size": record_size}
    (folder / "refs.parquet" / ".zmetadata").write_text(json.dumps(document))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dictionary", [False, True])
async def test_arrays_are_read_one_record_file_at_a_time(tmp_path: Path, zarr_format: Any, dictionary: bool) -> None:
    await table_of(tmp_path, zarr_format=zarr_format, dictionary=dictionary)
    store = from_references(tmp_path / "refs.parquet", resolve={f"file://{tmp_path}/": {}})
    array = await aiozarr.open_array(store, "g/t")
    assert (await array[...] == VALUES).all()
    assert (await (await aiozarr.open_array(store, "s"))[...]).item() == 7
    keys = await store.list()
    assert len([key for key in keys if key.startswith("g/t/") and key[-1].isdigit()]) == 50
    assert ("g/t/c/4/9" if zarr_format == 3 else "g/t/4.9") in keys
    assert (await store.list_dir(""))[1] == ["g/", "s/"]
    copy = MemoryStore()
    await aiozarr.copy(store, copy)
    assert (await (await aiozarr.open_array(copy, "g/t"))[...] == VALUES).all()


async def test_only_the_records_of_wanted_chunks_are_read(tmp_path: Path) -> None:
    await table_of(tmp_path)
    events: list[str] = []
    from aiozarr.stores import LocalStore
    from aiozarr.stores.reference.reference_opening import DocumentTable

    source = TraceStore(LocalStore(tmp_path / "refs.parquet"), lambda event: events.append(event.key or ""))
    table = DocumentTable(source, "")
    key = "g/t/c/4/9"
    while (part := table.unloaded_part(key)) is not None:
        await table.load(part)
    assert table.find(key) is not None
    assert table.unloaded_part("g/t/c/4/8") == ("g/t", 6)
    assert events == [".zmetadata", "g/t/refs.7.parq"]


async def test_a_record_file_that_is_missing_has_no_references(tmp_path: Path) -> None:
    await table_of(tmp_path)
    (tmp_path / "refs.parquet/g/t/refs.0.parq").unlink()
    array = await aiozarr.open_array(from_references(tmp_path / "refs.parquet", resolve={str(tmp_path): {}}), "g/t")
    expected = VALUES.copy()
    expected[:20, :70] = 0
    assert (await array[...] == expected).all()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"metadata": {}}',
        b'{"metadata": [], "record_size": 1}',
        b'{"metadata": {}, "record_size": 0}',
    ],
)
def test_a_document_of_another_kind_is_refused(document: bytes) -> None:
    with pytest.raises(InvalidMetadataError, match="'metadata' and 'record_size'"):
        ParquetTable(MemoryStore(), "", document)


def test_hostile_records_meet_a_limit() -> None:
    with pytest.raises(LimitError):
        ParquetTable(MemoryStore(), "", b'{"metadata": {}, "record_size": 1000000000}')
    with pytest.raises(LimitError, match="the record file has 3 references"):
        read_record(record([None, None, None]), 2, "t/refs.0.parq")
    with pytest.raises(LimitError, match=r"2\*\*63"):
        read_record(record([("u", 2**63 - 1, 2)]), 2, "t/refs.0.parq")
    for row in (("u", -1, 2), ("u", 1, -2)):
        with pytest.raises(InvalidMetadataError, match="both must be numbers of bytes"):
            read_record(record([row]), 2, "t/refs.0.parq")
    with pytest.raises(InvalidMetadataError, match="not a record file"):
        read_record(b"PAR1 nothing PAR1", 2, "t/refs.0.parq")


def repeated(column: str, text: str | bytes, rows: int, *, dictionary: bool) -> bytes:
    """Return a record file whose rows all have one long path or inlined value."""
    sink = pa.BufferOutputStream()
    values = pa.array([text] * rows)
    table = pa.table({column: values.dictionary_encode() if dictionary else values})
    parquet.write_table(table, sink, compression="zstd", use_dictionary=dictionary)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("text", ["http://h/" + "x" * 8000, b"x" * 8000])
def test_a_value_that_occurs_many_times_is_decoded_once(text: str | bytes) -> None:
    rows = 10_000
    data = repeated("path" if isinstance(text, str) else "raw", text, rows, dictionary=True)
    assert len(data) < 20_000
    found = read_record(data, rows, "refs.0.parq")
    assert found.urls == ([text] if isinstance(text, str) else [])
    assert len({id(value) for value in found.inlined.values()}) == len(found.inlined) // rows


@pytest.mark.parametrize("text", ["http://h/" + "x" * 8000, b"x" * 8000])
@pytest.mark.parametrize("dictionary", [True, False])
def test_record_files_are_bounded_in_decoded_bytes(text: str | bytes, dictionary: bool) -> None:
    data = repeated("path" if isinstance(text, str) else "raw", text, 10_000, dictionary=dictionary)
    with pytest.raises(LimitError, match=r"'refs\.0\.parq' take \d+ bytes; at most 100000") as caught:
        read_record(data, 10_000, "refs.0.parq", 100_000)
    assert (caught.value.limit, caught.value.key) == ("max_metadata_bytes", "refs.0.parq")


def test_a_path_that_is_too_long_or_of_another_type_is_refused() -> None:
    with pytest.raises(LimitError, match="more than 8192 characters"):
        read_record(repeated("path", "x" * 10_000, 1, dictionary=True), 1, "refs.0.parq")
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({"path": pa.array([["a"] * 100])}), sink)
    with pytest.raises(InvalidMetadataError, match="the column 'path' has the type list"):
        read_record(bytes(sink.getvalue()), 1, "refs.0.parq")


@pytest.mark.parametrize("document", [".zmetadata", "g/t/refs.0.parq"])
async def test_max_metadata_bytes_bounds_the_documents_of_a_table(tmp_path: Path, document: str) -> None:
    await table_of(tmp_path, zarr_format=2)
    path = tmp_path / "refs.parquet" / document
    if document == ".zmetadata":
        path.write_bytes(path.read_bytes() + b" " * 70_000)
    else:
        path.write_bytes(repeated("path", "http://h/" + "x" * 8000, 7, dictionary=False))
    careful = aiozarr.Settings(max_metadata_bytes=50_000, max_chunk_bytes=1000)
    resolve = {"resolve": {f"file://{tmp_path}/": {}}}
    with pytest.raises(LimitError, match="max_metadata_bytes"):
        array = await aiozarr.open_array(
            f"reference::{tmp_path}/refs.parquet", "g/t", storage_options=resolve, settings=careful
        )
        await array[:, :60]
