"""`clean`: finds and removes leftovers of killed aiozarr processes at a location."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiozarr.engine import Engine, ScheduledStore, Target, run
from aiozarr.errors import UnsupportedOperationError
from aiozarr.model import UPLOAD_RECORD_PREFIX, Value
from aiozarr.schedule.events import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import LocalStore
from aiozarr.stores.blocking import in_thread, in_thread_uncancelled, iterate_in_thread
from aiozarr.stores.capabilities import PROBE_PREFIX, UploadStore
from aiozarr.stores.local.atomic_write import prune, remove_files
from aiozarr.stores.local.open_directory import OpenDirectory
from aiozarr.stores.local.stored_file import store_error
from aiozarr.stores.local.walk import abandoned_files
from aiozarr.stores.wrapper_store import WrapperStore
from aiozarr.transfer.copy import opened

MIN_AGE_SECONDS = 3600.0
"""Younger leftovers stay, because their process may be running on another machine."""

_PROBE_NAME = re.compile(PROBE_PREFIX + "([0-9a-f]{1,12})-[0-9a-f]{16}")


@dataclass(frozen=True)
class Leftover:
    """A temporary file or object, or an unfinished upload, that an aiozarr process did not remove.

    Attributes:
        kind: "file": unfinished content of a file or zip archive; "object": the probe object of a test for conditional
            writes; "upload": an upload in parts.
        location: the path of a file, or the URL of an object.
        nbytes: its size in bytes; None if it is not known.
        seconds: its age.
    """

    kind: str
    location: str
    nbytes: int | None
    seconds: float


async def clean(
    target: Target,
    *,
    delete: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> list[Leftover]:
    """Find leftovers of killed aiozarr processes at `target`, at least an hour old, and remove them if `delete`.

    On a local disk these are temporary files without a writer: below a directory, at any depth, and beside a zip
    archive. Links to directories are not followed. In other stores these are the probe objects of a test for
    conditional writes, and on S3 uploads in parts that a copy has begun, which have a record beside their object. A
    listing of the whole target finds both. Nothing else is removed: files, objects and uploads of other programs stay,
    and so do the journals of copies and conversions, which `resume=True` needs.

    A copy that uploads one object for more than an hour looks like a killed one, so do not delete while it runs. Values
    of more than 64 MiB that are not copied from a file or another bucket are uploaded without such a record. A
    lifecycle rule of the bucket can remove their remains, and Google's and Azure's servers do so after a week.

    Args:
        target: a URL, a local path, or a `Store` that is not a wrapper of another one.
        delete: remove the leftovers.
        storage_options: options of the store, for a URL.
        settings: limits and policies.

    Returns: the leftovers, in the order of the listing.

    Raises:
        UnsupportedOperationError: the store cannot be listed, or is a wrapper.
        StoreError: a listing failed, or something could not be removed.
    """
    settings = settings_or_default(settings)
    report = current_recorder()

    async def work(engine: Engine) -> list[Leftover]:
        from aiozarr.stores.zip.local_zip import LocalZipStore  # imported here because most programs have no archives

        async with AsyncExitStack() as stack:
            store = await opened(stack, target, storage_options, settings)
            if isinstance(store, LocalStore):
                return await _clean_directory(store.root, store.url, is_deep=True, delete=delete)
            if isinstance(store, LocalZipStore):
                path = store.path
                directory = await in_thread(lambda: os.path.dirname(os.path.realpath(path)))
                return await _clean_directory(directory, store.url, is_deep=False, delete=delete)
            if isinstance(store, WrapperStore):
                raise UnsupportedOperationError(f"clean needs the store inside {store!r}", store=store.url)
            return await _clean_objects(engine.scheduled(store, settings, report), delete=delete)

    return await run(work, timeout=settings.timeout)


async def _clean_directory(directory: str, url: str, *, is_deep: bool, delete: bool) -> list[Leftover]:
    found: list[Leftover] = []
    try:
        files = iterate_in_thread(abandoned_files(os.fsencode(directory), MIN_AGE_SECONDS, is_deep=is_deep))
        async with aclosing(files) as listed:
            async for path, nbytes, seconds in listed:
                found.append(Leftover("file", os.fsdecode(path), nbytes, seconds))
        for path in [os.fsencode(leftover.location) for leftover in found] if delete else ():
            await in_thread_uncancelled(partial(_remove, path, os.fsencode(directory)))
    except OSError as error:
        raise store_error(error, "cleaning", store=url, key=None) from error
    return found


def _remove(path: bytes, root: bytes) -> None:
    folder, name = os.path.split(path)
    with OpenDirectory.below(root, folder) as directory:
        remove_files(directory, [name], fsync=False)
    prune(folder, root)  # a killed writer may have made the directory for this file


async def _clean_objects(scheduled: ScheduledStore, *, delete: bool) -> list[Leftover]:
    store, now = scheduled.store, time.time()
    found: dict[str, Leftover] = {}
    uploads: list[tuple[str, str]] = []
    async with aclosing(scheduled.scan("")) as entries:
        async for entry in entries:
            folder, _, name = entry.key.rpartition("/")
            if (probe := _PROBE_NAME.fullmatch(name)) is not None:
                leftover = Leftover("object", store.url_of(entry.key), entry.size, now - int(probe[1], 16))
            elif f"{folder.rpartition('/')[2]}/{name}".startswith(UPLOAD_RECORD_PREFIX):
                record = _parse_record(await scheduled.fetch(entry.key))
                if record is None:
                    continue
                key = entry.key.removesuffix(f"{UPLOAD_RECORD_PREFIX}{name.partition('-')[2]}") + record[0]
                leftover = Leftover("upload", store.url_of(key), None, now - record[2])
                if leftover.seconds >= MIN_AGE_SECONDS:
                    uploads.append((key, record[1]))
            else:
                continue
            if leftover.seconds >= MIN_AGE_SECONDS:
                found[entry.key] = leftover
    if delete and found:
        if isinstance(store, UploadStore):
            for key, upload_id in uploads:
                await store._abort_parts(key, upload_id)
        await scheduled.erase_values(list(found))
    return list(found.values())


def _parse_record(value: Value | None) -> tuple[str, str, int] | None:
    """Return name, id and start of an upload; None if the record is not valid or has gone."""
    with suppress(ValueError):
        match None if value is None else json.loads(bytes(value.data)):
            case {"name": str(name), "upload": str(upload_id), "started": int(started)} if name and "/" not in name:
                return name, upload_id, started
    return None
