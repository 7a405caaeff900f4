"""The command cat: values of a selection in several formats, or the bytes of an object, as a stream."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from aiozarr.cli.node_commands import check_array
from aiozarr.cli.object_commands import find_object
from aiozarr.cli.output import Output, open_output, output_options
from aiozarr.cli.selections import axis_names, select_option, select_view
from aiozarr.cli.targets import StorageOptions, TargetOptions, iterated, opened, parent_and_key, run, store_options

if TYPE_CHECKING:
    from aiozarr.cli.value_formats import ValueFormat
    from aiozarr.hierarchy import View
    from aiozarr.model import Version

PART_BYTES = 8 << 20
"""Bytes of an object per request and write: a reader such as `head` ends the command after a few of them."""
SLAB_BYTES = 32 << 20
"""Bytes of values per read, unless one row of chunks has more."""


@click.command()
@click.argument("target")
@select_option
@click.option("--key", help="The bytes of this key below TARGET.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Bytes of an object: begin here.")
@click.option("--count", type=click.IntRange(0), help="Bytes of an object: write so many.")
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(["text", "npy", "csv", "raw"]),
    help="Values as lines of text (default), a NumPy file, a table of indexes and values, or bytes in C order.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file and not to standard output.")
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
    """Write values of the array TARGET, or the bytes of the object TARGET, to standard output.

    Values are read and written a few rows of chunks at a time. With --json each value is an object on a line. A zip
    archive is a store here; `--key a.zip .` writes its bytes.
    """
    options = stores.of(target)
    wants_bytes = key is not None or bool(offset) or count is not None
    wants_values = select is not None or kind is not None or out.as_json
    if wants_bytes and wants_values:
        raise click.UsageError("--key, --offset and --count are for bytes; --select, --format and --json for values")
    if kind is not None and out.as_json:
        raise click.UsageError("--json is a format of its own, and --format is another one")
    # Commands treat an archive as a store; its own bytes are those of a key of its directory.
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
    """Write blocks of bytes. The file is opened after the first of them was read."""
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
    """Write all of `data`: with `PYTHONUNBUFFERED`, standard output writes as much as a pipe takes at a time."""
    from aiozarr.stores.contract import byte_view

    left = byte_view(data)
    while left:
        left = left[file.write(left) :]


async def _object_parts(
    location: str, key: str, options: StorageOptions, offset: int, count: int | None
) -> AsyncGenerator[Any, None]:
    """Yield the bytes of an object in parts of one version.

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
    from aiozarr.cli.value_formats import FORMATS

    form = FORMATS[kind]
    if form.is_binary and output is None and sys.stdout.isatty():
        raise click.UsageError(f"--format {kind} is binary, and standard output is a terminal: write it with -o FILE")
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
    """Yield parts of a view along its first axis, each with its first index; none is empty unless the view is."""
    if not view.ndim or view.nbytes <= SLAB_BYTES:
        yield 0, view
        return
    length = view.shape[0]
    rows = max(1, SLAB_BYTES * length // view.nbytes)
    chunk = view.array.chunks[0] if view.ndim == view.array.ndim else 1
    if isinstance(chunk, int) and chunk > 1:
        # Rows of whole chunks, as long as a selection begins at a chunk: no chunk is decoded twice.
        rows = max(rows // chunk, 1) * chunk
    for start in range(0, length, rows):
        yield start, view[start : min(start + rows, length)]
