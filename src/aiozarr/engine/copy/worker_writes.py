"""Stores objects in the calling worker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from aiozarr.engine.copy.comparison import equal_bytes
from aiozarr.engine.copy.verify import Verify
from aiozarr.errors import ChecksumError
from aiozarr.stores import BlockingStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

FILE_WORK_BYTES = 16 << 10
"""Cost of opening, renaming and closing a file in a worker, expressed in bytes."""


def store_now(
    destination: BlockingStore, values: Sequence[tuple[str, Buffer]], *, verify: Verify
) -> list[Exception | None]:
    """Store objects, together if the store can, and return the error of each."""
    if len(values) > 1 and verify != "checksum":
        # After an error each is stored by itself, and has its own outcome.
        with suppress(Exception):
            destination.set_values_now(values)
            return [None] * len(values)
    errors: list[Exception | None] = []
    for key, data in values:
        try:
            _store_one(destination, key, data, verify=verify)
        except Exception as error:
            errors.append(error)
        else:
            errors.append(None)
    return errors


def _store_one(destination: BlockingStore, key: str, data: Buffer, *, verify: Verify) -> None:
    for _ in range(2):
        destination.set_now(key, data)
        if verify != "checksum":
            return
        stored = destination.fetch_now(key)
        if stored is not None and equal_bytes(stored.data, data):
            return
    raise ChecksumError("what was read back is not what was stored", store=destination.url, key=key)
