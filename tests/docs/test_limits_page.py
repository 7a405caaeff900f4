"""The limits and budgets on the page of limits are those of the code."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from aiozarr.codecs import chain, chunk_layouts, codec_pipeline, numcodecs_compressors, v2_elements
from aiozarr.engine import decoder, encoder, partial_plan
from aiozarr.engine.copy import object_copier
from aiozarr.grid import chunk_grid
from aiozarr.hierarchy import erase
from aiozarr.http1 import buffer_pool, response_check, url
from aiozarr.metadata import consolidated, data_type, document, struct, v2_dtype
from aiozarr.model import MAX_KEY_BYTES
from aiozarr.schedule import admission, executor
from aiozarr.settings import Settings
from aiozarr.stores.http.http_options import HTTPOptions
from aiozarr.stores.reference import columns, json_table, parquet_table, table
from aiozarr.stores.s3 import bucket_client
from aiozarr.stores.zip import format as zip_format
from aiozarr.stores.zip import remote_zip

PAGE = (Path(__file__).parents[2] / "docs/reference/limits.md").read_text("utf-8")
TABLES = PAGE.partition("## Not supported")[0]
DEFAULTS = Settings()
MAX_CONNECTIONS = next(field.default for field in fields(HTTPOptions) if field.name == "max_connections")


def in_bytes(number: int) -> str:
    """A number of bytes as the page has it."""
    shift, unit = next((shift, unit) for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")) if number >= 1 << shift)
    assert number % (1 << shift) == 0, "the page has round numbers"
    return f"{number >> shift} {unit}"


LIMITS = {
    "chunks of one operation": f"{DEFAULTS.max_chunks:,}",
    "dimensions of an array": document.MAX_NDIM,
    "bytes of an element": in_bytes(data_type.MAX_ITEM_SIZE),
    "a metadata document": in_bytes(DEFAULTS.max_metadata_bytes),
    "nesting of a metadata document": f"{document.MAX_DEPTH} levels",
    "digits of an integer": f"{document.MAX_INT_DIGITS:,}",
    "nodes in consolidated metadata": f"{consolidated.MAX_NODES:,}",
    "fields of a structure": f"{struct.MAX_FIELDS:,}",
    "nesting of structures": f"{struct.MAX_DEPTH} levels; in formats 1 and 2: {v2_dtype.MAX_LEVELS} levels",
    "runs of equal chunks": f"{chunk_grid.MAX_LENGTH_RUNS:,}",
    "a store key": f"{MAX_KEY_BYTES:,} bytes",
    "a decoded chunk": in_bytes(DEFAULTS.max_chunk_bytes),
    "a stored chunk": f"plus {in_bytes(codec_pipeline.DIAGNOSED_BYTES)}; "
    f"if compressed, {codec_pipeline.MAX_PADDING_FACTOR} times",
    "codecs of a chain": chain.MAX_CODECS,
    "nesting of codec chains": f"{chain.MAX_DEPTH} levels",
    "a chunk between two codecs": f"plus {in_bytes(v2_elements._SLACK)}; "
    f"filters of format 2: {v2_elements._MAX_GROWTH} times",
    "an LZMA dictionary": in_bytes(numcodecs_compressors.MAX_DICTIONARY),
    "a shard index": in_bytes(DEFAULTS.max_index_bytes),
    "inner chunks of a shard that overlap": f"{chunk_layouts.MAX_AMPLIFICATION} times",
    "an object or archive on a server": in_bytes(response_check.MAX_CUT_BYTES),
    "head of an HTTP response": in_bytes(response_check.MAX_HEAD_BYTES),
    "redirects of one request": url.MAX_REDIRECTS,
    "one conditional write to S3": in_bytes(bucket_client.MAX_PUT_BYTES),
    "chunks of an array that is erased": f"{erase.MAX_COMPUTED_CHUNKS:,}",
    "the directory of a zip archive": in_bytes(zip_format.MAX_DIRECTORY_BYTES),
    "a document or record file of references": in_bytes(table.MAX_DOCUMENT_BYTES),
    "a stored record file": in_bytes(parquet_table.MAX_RECORD_BYTES),
    "references of one table": f"{columns.MAX_REFERENCES:,}, of {columns.ROW_BYTES} bytes each",
    "arrays of one table": f"{table.MAX_FAMILIES:,}",
    "inlined values of one table": f"{table.MAX_SINGLE_VALUES:,}",
    "the URL of a reference": f"{json_table.MAX_URL_LENGTH:,} characters",
    "growth of all URLs": f"{json_table.MAX_TEMPLATE_GROWTH} times",
    "bytes in flight": in_bytes(DEFAULTS.max_bytes_in_flight),
    "requests in flight": f"{admission.START} at first, up to {admission.CEILING}",
    "connections, per event loop": f"{MAX_CONNECTIONS:,}",
    "repetitions of one request": f"{DEFAULTS.retries}, within {DEFAULTS.retry_seconds:g} s",
    "time without progress": f"{DEFAULTS.idle_timeout:g} s",
    "a merged request": in_bytes(DEFAULTS.max_request_bytes),
    "bytes fetched / bytes wanted": DEFAULTS.max_over_read,
    "ranges of one uncompressed chunk": f"{partial_plan.MAX_RUNS:,}",
    "unused origins": executor.MAX_UNUSED_QUEUES,
    "cached shard indexes": in_bytes(DEFAULTS.index_cache_bytes),
    "cached decoded chunks": DEFAULTS.chunk_cache_bytes,
    "age of a cached chunk": f"{DEFAULTS.chunk_cache_seconds:g} s",
    "reused memory of response bodies": in_bytes(buffer_pool.MAX_POOLED_BYTES),
    "memory that each worker thread keeps for decoding": in_bytes(decoder.MAX_BLOCK_BYTES),
    "memory that each worker thread keeps for encoding": in_bytes(encoder.MAX_BLOCK_BYTES),
    "copied files of up to 1 MiB": in_bytes(object_copier.MAX_PREFETCHED_BYTES),
}


ROWS = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", TABLES, re.MULTILINE))
"""The limits of the page, by the first cell of the row."""


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_the_one_of_the_code(what: str) -> None:
    found = [limit for row, limit in ROWS.items() if row == what] or [
        limit for row, limit in ROWS.items() if row.startswith(what)
    ]
    assert len(found) == 1, f"give {what!r} one row in docs/reference/limits.md"
    exact = rf"(?<![\d.,]){re.escape(str(LIMITS[what]))}(?![\d.])"
    assert re.search(exact, found[0]), "correct docs/reference/limits.md"


def test_each_setting_that_limits_something_has_a_row() -> None:
    limits = {name for name in DEFAULTS.__dataclass_fields__ if name.startswith("max_")}
    assert [name for name in sorted(limits) if f"| `{name}`" not in PAGE] == [], "add it to docs/reference/limits.md"


def test_archives_without_ranges_have_the_limit_of_objects() -> None:
    assert remote_zip.MAX_WHOLE_ARCHIVE_BYTES == response_check.MAX_CUT_BYTES
    assert v2_dtype.MAX_FIELDS == struct.MAX_FIELDS
    assert v2_dtype.MAX_ITEM_SIZE == data_type.MAX_ITEM_SIZE
