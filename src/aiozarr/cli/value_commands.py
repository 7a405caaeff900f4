"""The command cat: streams the values of a selection in several formats, or the bytes of an object.

Values are written block by block along the first axis.
"""

from __future__ import annotations

import csv
import io
import itertools
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from aiozarr.cli.help import command
from aiozarr.cli.node_commands import check_array
from aiozarr.cli.object_commands import find_object
from aiozarr.cli.output import Output, json_line, open_output, output_options
from aiozarr.cli.selections import axis_names, select_option, select_view
from aiozarr.cli.targets import StorageOptions, TargetOptions, iterated, opened, parent_and_key, run, store_options
from aiozarr.common.formatting import printable

if TYPE_CHECKING:
    from aiozarr.hierarchy import View
    from aiozarr.model import Version

AnyBlock = NDArray[Any]


class ValueFormat(NamedTuple):
    """Encodes an array that is read in blocks along its first axis.

    Attributes:
        block: returns the bytes of a block whose first row has the index `start`.
        header: returns the bytes before all blocks for the shape, the type and the names of the axes.
        is_binary: whether a terminal cannot show the bytes.
    """

    block: Callable[[AnyBlock, int], bytes]
    header: Callable[[tuple[int, ...], np.dtype[Any], Sequence[str]], bytes] = lambda *_: b""
    is_binary: bool = False

    def check(self, dtype: np.dtype[Any]) -> None:
        """Check that the format can represent elements of a type.

        Raises:
            TypeError: the elements are Python objects, and the format is binary.
        """
        if self.is_binary and dtype.hasobject:
            raise TypeError(
                f"elements of type {dtype} have no fixed size in bytes; use --format text, --format csv or --json"
            )


def _text_block(values: AnyBlock, start: int) -> bytes:
    """Return a line per row of the last axis, with blanks between values and an empty line between planes."""
    values = np.asarray(values)
    if not values.size:
        return b""
    width = values.shape[-1] if values.ndim > 1 else 1
    rows = values.shape[-2] if values.ndim > 2 else 0
    lines: list[str] = []
    texts = list(map(printable, texts_of(values)))
    for number, position in enumerate(range(0, len(texts), width)):
        if rows and number % rows == 0 and (number or start):
            lines.append("")
        lines.append(" ".join(texts[position : position + width]))
    return _encoded("\n".join(lines) + "\n")


def _csv_header(shape: tuple[int, ...], dtype: np.dtype[Any], names: Sequence[str]) -> bytes:
    return _csv_rows([[printable(name) for name in (*names, *(dtype.names or ("value",)))]])


def _csv_block(values: AnyBlock, start: int) -> bytes:
    """Return a row per value with its index along each axis. The fields of a structure are separate columns."""
    values = np.asarray(values)
    columns = [list(texts_of(values[name])) for name in values.dtype.names or ()] or [list(texts_of(values))]
    rows = zip(_indexes(values.shape, start), *columns, strict=True)
    return _csv_rows([[*index, *row] for index, *row in rows])


def _shown_csv_block(values: AnyBlock, start: int) -> bytes:
    """Return the rows with control characters escaped, for a terminal."""
    return _encoded("\n".join(map(printable, _csv_block(values, start).decode("utf-8", "surrogateescape").split("\n"))))


def _json_block(values: AnyBlock, start: int) -> bytes:
    """Return a line of JSON per value, with its index. NaN and infinities are strings."""
    values = np.asarray(values)
    pairs = zip(_indexes(values.shape, start), values.ravel(), strict=True)
    return _encoded("".join([json_line({"index": index, "value": _json_value(value)}) for index, value in pairs]))


def _raw_block(values: AnyBlock, start: int) -> bytes:
    """Return the bytes of the elements in C order and in the byte order of this machine."""
    return np.ascontiguousarray(values).tobytes()


def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any], names: Sequence[str]) -> bytes:
    """Return the header of a NumPy `.npy` file."""
    file = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, description)
    return file.getvalue()


FORMATS = {
    "text": ValueFormat(_text_block),
    "csv": ValueFormat(_csv_block, _csv_header),
    "json": ValueFormat(_json_block),
    "raw": ValueFormat(_raw_block, is_binary=True),
    "npy": ValueFormat(_raw_block, _npy_header, is_binary=True),
}


def texts_of(values: AnyBlock) -> Iterable[str]:
    """Return the shortest texts that parse to the same values, in C order."""
    if values.dtype.kind in "biufcMmU":
        texts: list[str] = values.astype(np.str_).ravel().tolist()
        return texts
    return [str(value) for value in values.ravel()]


def _indexes(shape: tuple[int, ...], start: int) -> Iterator[tuple[int, ...]]:
    for index in np.ndindex(shape):
        yield (index[0] + start, *index[1:]) if index else index


def _json_value(value: Any) -> Any:
    item = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(item, bool | int | str) or item is None:
        # numpy converts a time in nanoseconds to a number; its text shows the unit.
        return str(value) if isinstance(value, np.datetime64 | np.timedelta64) else item
    if isinstance(item, float):
        return float(str(value))
    if isinstance(item, list | tuple):
        return [_json_value(each) for each in item]
    return str(value)


def _csv_rows(rows: Iterable[Sequence[Any]]) -> bytes:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return _encoded(file.getvalue())


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


PART_BYTES = 8 << 20
"""Bytes of an object per request and write. A reader such as `head` ends the command after a few of them."""
SLAB_BYTES = 32 << 20
"""Bytes of values per read, unless a single row of chunks has more."""


@command(
    "aiozarr cat --select time=0,lat=0:3 era5.zarr/t2m", "aiozarr cat --format npy -o t2m.npy s3://bucket/era5.zarr/t2m"
)
@click.argument("target")
@select_option
@click.option("--key", help="Print the bytes of the object with this key below TARGET.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip this many bytes of the object.")
@click.option("--count", type=click.IntRange(0), help="Print at most this many bytes of the object.")
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(["text", "npy", "csv", "raw"]),
    help="Print values as lines of text (the default), a NumPy file, a CSV table with indexes, or bytes in C order.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file instead of standard output.")
@store_options
@output_options
def cat(
    target: str,
    select: Any,
    key: str | None,
    offset: int,
    count: int | None,
    kind: str | None,
    output: str | None,
    stores: TargetOptions,
    out: Output,
) -> None:
    """Print the values of the array TARGET, or the bytes of the object TARGET.

    Values are read and written a few rows of chunks at a time. With --json each value is an object on its own line. A
    zip archive is a store here; 'aiozarr cat --key a.zip .' prints its bytes.
    """
    options = stores.of(target)
    wants_bytes = key is not None or bool(offset) or count is not None
    wants_values = select is not None or kind is not None or out.as_json
    if wants_bytes and wants_values:
        raise click.UsageError(
            "--key, --offset and --count print bytes, while --select, --format and --json print values"
        )
    if kind is not None and out.as_json:
        raise click.UsageError("--json and --format exclude each other")
    # Commands treat an archive as a store. Its own bytes are read as an object of its directory.
    wants_values = wants_values or (not wants_bytes and target.lower().endswith(".zip"))
    if key is None and not wants_values and (entry := run(lambda: find_object(target, options))) is not None:
        location, key = parent_and_key(target)[0], entry.key
    elif wants_bytes:
        location, key = (target, key) if key is not None else parent_and_key(target)
    else:
        location = ""
    if not location:
        _write_values(target, select, options, "json" if out.as_json else kind or "text", output)
        return
    assert key is not None
    _write_blocks(_object_parts(location, key, options, offset, count), output)


def _write_blocks(blocks: AsyncGenerator[Any, None], output: str | None) -> None:
    """Write blocks of bytes. The file is opened after the first block was read."""
    with iterated(blocks) as items:
        first = list(itertools.islice(items, 1))
        with _sink(output) as file:
            for block in itertools.chain(first, items):
                write_all(file, block)


@contextmanager
def _sink(output: str | None) -> Iterator[IO[bytes]]:
    """Yield the binary file of a name, or standard output."""
    if output is None or output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with open_output(output) as file:
            yield file


def write_all(file: IO[bytes], data: Any) -> None:
    """Write all of `data`. With `PYTHONUNBUFFERED`, one write to a pipe may write only a part."""
    from aiozarr.stores.contract import byte_view

    left = byte_view(data)
    while left:
        left = left[file.write(left) :]


async def _object_parts(
    location: str, key: str, options: StorageOptions, offset: int, count: int | None
) -> AsyncGenerator[Any, None]:
    """Yield the bytes of an object in parts, all of one version.

    Raises:
        FileNotFoundError: there is no such object.
    """
    from aiozarr.model import Range

    async with opened(location, options) as store:
        version: Version | None = None
        left, start = count, offset
        while left is None or left > 0:
            length = PART_BYTES if left is None else min(PART_BYTES, left)
            checked = version if version is None or not version.weak else None
            value = await store.fetch(key, Range(start, length), if_match=checked)
            if value is None:
                raise FileNotFoundError(f"there is no object {key!r} in {store.store.url}")
            version = value.version
            size = memoryview(value.data).nbytes
            yield value.data
            start += size
            left = None if left is None else left - size
            if size < length or (value.size is not None and start >= value.size):
                return


def _write_values(target: str, select: Any, options: StorageOptions, kind: str, output: str | None) -> None:
    form = FORMATS[kind]
    if form.is_binary and output is None and sys.stdout.isatty():
        raise click.UsageError(
            f"--format {kind} is binary, and standard output is a terminal; write it to a file with -o FILE"
        )
    if kind == "csv" and output is None and sys.stdout.isatty():
        form = form._replace(block=_shown_csv_block)
    _write_blocks(_value_blocks(target, select, options, form), output)


async def _value_blocks(
    target: str, select: Any, options: StorageOptions, form: ValueFormat
) -> AsyncGenerator[bytes, None]:
    """Yield the values of a selection as encoded blocks."""
    from aiozarr.hierarchy.internal import open_node

    async with open_node(target, storage_options=options) as node:
        array = await check_array(node, target)
        view = await select_view(array, select)
        names = axis_names(array, view, select)
        form.check(view.dtype)
        yield form.header(view.shape, view.dtype, names)
        for start, part in slabs(view):
            yield form.block(await part.read(), start)


def slabs(view: View) -> Iterator[tuple[int, View]]:
    """Yield parts of a view along its first axis, each with its first index. Only an empty view has an empty part."""
    if not view.ndim or view.nbytes <= SLAB_BYTES:
        yield 0, view
        return
    length = view.shape[0]
    rows = max(1, SLAB_BYTES * length // view.nbytes)
    chunk = view.array.chunks[0] if view.ndim == view.array.ndim else 1
    if isinstance(chunk, int) and chunk > 1:
        # Read rows of whole chunks: if the selection begins at a chunk, no chunk is decoded twice.
        rows = max(rows // chunk, 1) * chunk
    for start in range(0, length, rows):
        yield start, view[start : min(start + rows, length)]
