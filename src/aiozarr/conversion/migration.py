"""`migrate`: format 3 documents for arrays and trees of formats 1 and 2, whose chunks stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from aiozarr.conversion.conversion_report import ConversionReport
from aiozarr.engine.open_store import Target
from aiozarr.engine.progress_bar import ProgressLike
from aiozarr.settings import Settings


async def migrate(
    source: Target,
    destination: Target | None = None,
    *,
    erase_old: bool = False,
    dry_run: bool = False,
    executor: Executor | None = None,
    max_memory: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: ProgressLike = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> ConversionReport:
    """Migrate an array or a tree of format 1 or 2 to format 3, in place or to `destination`.

    In place, documents of format 3 are written beside the old ones, and chunks are not touched. Every reader that
    prefers format 3 then reads the same values. The attribute `_ARRAY_DIMENSIONS` becomes `dimension_names`, and
    consolidated metadata are written if the source has them. With a destination, chunks are copied as they are stored.

    An array that format 3 cannot describe, such as one of structures in mixed byte order, is encoded again; the report
    says which, and why. The root's document is written last.

    Args:
        source: a URL, a local path, or a `Store`.
        destination: the location of the migrated tree; None: in place.
        erase_old: in place only: erase the old documents at the end, and old chunks of arrays that were encoded again.
        dry_run: write nothing; the report says what would be done.
        executor: where arrays are encoded again, as in `convert`.
        max_memory: as in `convert`.
        overwrite: with a destination: first erase everything stored there. In place: replace documents of format 3.
        resume: continue an interrupted migration.
        progress: called with `Progress`. True draws a bar, with the extra `cli`.
        source_options: options of the source, for a URL.
        destination_options: options of the destination, for a URL.
        settings: limits and policies.

    Raises:
        NodeNotFoundError: there is no node of format 1 or 2 at `source`.
        NodeExistsError: there are documents of format 3 already, or the destination is not empty.
        UnsupportedMetadataError: an array has a data type that format 3 lacks.
        UnsupportedOperationError: the store cannot be listed or not be written.
        CopyError, StoreError, CodecError, TypeError, ValueError: as `convert`.
    """
    raise NotImplementedError
