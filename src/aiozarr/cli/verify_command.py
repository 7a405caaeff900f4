"""The command verify: reads and decodes every chunk."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from aiozarr.cli.exit_codes import ERROR
from aiozarr.cli.output import Output, bytes_text, output_options, plain
from aiozarr.cli.targets import StorageOptions, TargetOptions, iterated, store_options
from aiozarr.formatting import format_count

if TYPE_CHECKING:
    from aiozarr.cli.verification import BadObject, VerifyCounts
    from aiozarr.engine.progress import Progress


@click.command()
@click.argument("target")
@store_options
@output_options
def verify(target: str, stores: TargetOptions, out: Output) -> None:
    """Read and decode every stored chunk of the array TARGET, or of all arrays below the group TARGET.

    Checksums and shard indexes are checked. Bad chunks are printed by key; the exit status is then 1. It is 3 if there
    is no array.

    Damage that can still be decoded is found only if the codecs store checksums. Without them, `aiozarr check
    --download` compares all bytes with those of a copy.
    """
    from aiozarr.cli.verification import VerifyCounts
    from aiozarr.errors import NodeNotFoundError

    counts = VerifyCounts()
    with (
        out.progress("verifying") as progress,
        iterated(_bad_objects(target, stores.of(target), counts, progress)) as items,
    ):
        for bad in items:
            where = f" ({bad.range})" if bad.range else ""
            text = f"{bad.problem:<7} {plain(bad.key)}{where}: {plain(bad.error)}"
            out.record({"type": "bad" if bad.problem != "outside" else "outside", **asdict(bad)}, text)
    if not (counts.arrays or counts.bad):
        raise NodeNotFoundError(f"there is no array at or below {target}", url=target)
    if out.as_json:
        out.record({"type": "total", **asdict(counts)}, "")
    missing = "" if counts.missing is None else f", {counts.missing:,} not stored"
    out.say(
        f"{format_count(counts.arrays, 'array')}, {format_count(counts.objects, 'object')} decoded to "
        f"{bytes_text(counts.bytes)}: "
        f"{counts.bad:,} bad{missing}, {counts.outside:,} outside of a grid"
    )
    if counts.bad:
        sys.exit(ERROR)


async def _bad_objects(
    target: str, options: StorageOptions, counts: VerifyCounts, progress: Callable[[Progress], None] | None
) -> AsyncGenerator[BadObject, None]:
    from aiozarr.cli.verification import Verification
    from aiozarr.engine import bind_callback
    from aiozarr.hierarchy.open import open as open_node

    async with (
        open_node(target, storage_options=options) as node,
        aclosing(Verification(node, counts, bind_callback(progress)).run()) as found,
    ):
        async for bad in found:
            yield bad
