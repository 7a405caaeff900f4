"""Commands on keys and bytes: ls, rm and clean."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from aiozarr.cli import targets
from aiozarr.cli.help import command
from aiozarr.cli.output import Output, output_options
from aiozarr.cli.targets import StorageOptions, TargetOptions
from aiozarr.common.formatting import format_count, readable_bytes
from aiozarr.errors import NodeNotFoundError, UnsupportedOperationError

if TYPE_CHECKING:
    from aiozarr.engine import ScheduledStore
    from aiozarr.hierarchy.internal import NodeAccess
    from aiozarr.model import Entry
    from aiozarr.stores import Store


@command("aiozarr ls era5.zarr", "aiozarr ls -r -H s3://bucket/era5.zarr/t2m")
@click.argument("target")
@click.option("-r", "--recursive", is_flag=True, help="List all objects below TARGET, with their sizes.")
@click.option("-l", "--long", is_flag=True, help="Show sizes and versions (ETags).")
@click.option("-H", "--human-readable", "human", is_flag=True, help="Show sizes in KiB, MiB and so on.")
@targets.store_options
@output_options
def ls(target: str, recursive: bool, long: bool, human: bool, stores: TargetOptions, out: Output) -> None:
    """List the objects and prefixes in TARGET, or show the object TARGET.

    Keys are relative to TARGET, and prefixes end with a slash. Sizes are in bytes. A web server cannot list, but
    'ls -l' shows one of its objects.
    """
    options = stores.of(target)
    found = False

    def show(entry: Entry) -> None:
        _print_entry(out, entry, long=long or recursive, human=human, versions=long)

    try:
        if recursive:
            with targets.iterated(targets.scan_batches(target, options)) as items:
                for batch in items:
                    found = True
                    for entry in batch:
                        show(entry)
        else:
            entries, prefixes = targets.run(
                lambda: targets.with_store(target, options, lambda store: _list_level(store, long or out.as_json))
            )
            found = bool(entries or prefixes)
            for prefix in prefixes:
                size = f"{'PRE':>12} " if long else ""
                out.record({"type": "prefix", "key": prefix, "size": None, "version": None}, size + prefix)
            for entry in entries:
                show(entry)
    except UnsupportedOperationError:
        entry_of_target = targets.run(lambda: find_object(target, options))
        if entry_of_target is None:
            raise
        show(entry_of_target)
        return
    if not found:
        show(targets.run(lambda: _require_object(target, options)))


async def _list_level(store: ScheduledStore, sizes: bool) -> tuple[list[Entry], list[str]]:
    """Return the objects and the prefixes one level below the root."""
    from aiozarr.common.concurrency import map_concurrently
    from aiozarr.model import Entry

    targets.check_listable(store.store)
    keys, prefixes = await store.list_dir("")
    entries: list[Entry] = [Entry(key, None) for key in keys]
    if sizes:
        stats = await map_concurrently(store.stat, keys)
        entries = [found or entry for found, entry in zip(stats, entries, strict=True)]
    return entries, prefixes


def _print_entry(out: Output, entry: Entry, *, long: bool, human: bool, versions: bool) -> None:
    record = {"type": "object", "key": entry.key, "size": entry.size, "version": _version_text(entry)}
    if not long:
        out.record(record, entry.key)
        return
    version = f" {_version_text(entry) or '-'}" if versions else ""
    out.record(record, f"{_size(entry.size, human):>12}{version} {entry.key}")


def _size(size: int | None, human: bool) -> str:
    if size is None:
        return "-"
    return readable_bytes(size) if human else str(size)


def _version_text(entry: Entry) -> str | None:
    version = entry.version
    return None if version is None else version.etag or version.generation


async def _require_object(target: str, options: StorageOptions) -> Entry:
    """Return the entry of the object `target`.

    Raises:
        FileNotFoundError: there is none.
        NodeNotFoundError: there is none, and `target` cannot be the name of one.
    """
    entry = await find_object(target, options)
    if entry is None:
        raise NodeNotFoundError(f"nothing is stored at {target}", url=target)
    return entry


async def find_object(target: str, options: StorageOptions) -> Entry | None:
    """Return the entry of the object `target`, or None if there is none."""
    if not target:
        raise ValueError("the target is empty; use '.' for the working directory")
    location, name = targets.parent_and_key(target)
    if not name:
        return None
    return await targets.with_store(
        location, options, lambda store: store.stat(targets.key_in(store.store, target, name))
    )


@command("aiozarr rm -r --dry-run s3://bucket/era5.zarr/t2m", "aiozarr rm -r --include 't2m/c/0/*' era5.zarr")
@click.argument("target")
@click.option("-r", "--recursive", is_flag=True, help="Remove everything below TARGET: an array, a group or a store.")
@targets.include_option
@targets.exclude_option
@click.option("-n", "--dry-run", is_flag=True, help="Print the keys that would be removed, and remove nothing.")
@click.option(
    "-f",
    "--force",
    is_flag=True,
    help="Also remove a directory that contains no array or group, the working directory, or the home directory.",
)
@targets.store_options
@output_options
def rm(
    target: str,
    recursive: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    dry_run: bool,
    force: bool,
    stores: TargetOptions,
    out: Output,
) -> None:
    """Remove the object TARGET, or with --recursive everything below it.

    Metadata documents are removed first, so an interrupted removal leaves no array that reads as fill values. The
    consolidated metadata of groups above TARGET are updated. If TARGET is a symbolic link, only the link is removed.
    """
    from aiozarr.metadata.format_rules import document_write_order
    from aiozarr.transfer.copy_rules import KeyFilter

    options = stores.of(target)
    if not recursive:
        if include or exclude:
            raise click.UsageError("--include and --exclude need --recursive")
        _remove_object(target, options, dry_run=dry_run, out=out)
        return
    wanted = KeyFilter(include, exclude)
    path = targets.local_path(target)
    if path is not None and os.path.islink(path):
        if dry_run or wanted or out.as_json:
            raise click.UsageError(
                f"{target} is a symbolic link, and only the link would be removed; name the directory it points to"
            )
        targets.run(lambda: _remove_link(path))
        out.say(f"removed the link {target}")
        return
    if not force:
        _check_removable(target, path, options)
    found: list[Entry] = []
    kept: list[str] = []
    if dry_run or wanted or out.as_json:
        with targets.iterated(targets.scan_batches(target, options)) as batches:
            for batch in batches:
                batch = [entry for entry in batch if not entry.below_link]  # never removed
                found += [entry for entry in batch if wanted.matches(entry.key)]
                others = [entry.key for entry in batch if not wanted.matches(entry.key)]
                kept += [key for key in others if document_write_order(key) is not None]
        if not found:
            raise NodeNotFoundError(f"nothing matches below {target}", url=target)
    if not dry_run and wanted:
        keys = [entry.key for entry in found]
        targets.run(lambda: _remove_chosen(target, options, keys, kept))
    elif not dry_run:
        targets.run(lambda: _remove_all(target, options))
    _print_removed(found, dry_run=dry_run, out=out)
    counted = f"{format_count(len(found), 'object')} below {target}" if found else f"everything below {target}"
    out.say(f"{'would remove' if dry_run else 'removed'} {counted}")


@command("aiozarr clean era5.zarr", "aiozarr clean --delete s3://bucket/era5.zarr")
@click.argument("target")
@click.option("--delete", is_flag=True, help="Remove the leftovers that are found.")
@targets.store_options
@output_options
def clean(target: str, delete: bool, stores: TargetOptions, out: Output) -> None:
    """List leftovers of killed aiozarr processes at TARGET, and with --delete remove them.

    Only leftovers that are at least an hour old are listed. On a local disk these are temporary files that no process
    writes any more, next to zip archives too. In other stores they are the test objects that show whether a server
    supports conditional writes, and on S3 the unfinished uploads of copies. Files and uploads of other programs are
    never touched. Journals are kept because --resume needs them.
    """
    from aiozarr import transfer

    found = targets.run(lambda: transfer.clean(target, delete=delete, storage_options=stores.of(target) or None))
    for each in found:
        size = "?" if each.nbytes is None else str(each.nbytes)
        out.record({"type": "leftover", **vars(each)}, f"{size:>12} {each.location}")
    out.say(f"{'removed' if delete else 'found'} {format_count(len(found), 'leftover')}")


def _check_removable(target: str, path: str | None, options: StorageOptions) -> None:
    """Refuse to remove a directory that the user needs, or that contains nothing of Zarr.

    Raises:
        UsageError: the target is or contains the working directory or the home directory.
        NodeNotFoundError: objects are stored there, but no array or group.
    """
    from aiozarr.metadata.format_rules import document_write_order

    if path is not None:
        place = os.path.join(os.path.realpath(path), "")
        kept: dict[str, str] = {}
        with suppress(FileNotFoundError):  # it was deleted
            kept["the working directory"] = os.getcwd()
        kept["the home directory"] = os.path.expanduser("~")
        for name, used in kept.items():
            if os.path.join(os.path.realpath(used), "").startswith(place):
                raise click.UsageError(f"{target} is {name}, or contains it; --force removes it anyway")
    has_objects = False
    with (
        suppress(UnsupportedOperationError),
        targets.iterated(targets.scan_batches(target, options, batch=100)) as batches,
    ):
        for batch in batches:
            has_objects = True
            if any(document_write_order(entry.key) is not None and not entry.below_link for entry in batch):
                return
    if has_objects:
        raise NodeNotFoundError(
            f"there is no array or group at or below {target}; --force removes everything stored there", url=target
        )


async def _remove_link(path: str) -> None:
    """Remove a link to a directory, and its node from the consolidated metadata above."""
    from aiozarr.hierarchy.internal import delete_node, run_at_target

    directory, name = os.path.split(path)

    async def work(access: NodeAccess, owns_store: bool) -> None:
        try:
            await delete_node(access)
        except NodeNotFoundError:
            await access.scheduled.erase_prefix(access.prefix)

    await run_at_target(work, directory, name, zarr_format=None, storage_options=None, settings=None)


def _remove_object(target: str, options: StorageOptions, *, dry_run: bool, out: Output) -> None:
    entry = targets.run(lambda: find_object(target, options))
    if entry is None:
        raise FileNotFoundError(f"there is no object {target}; --recursive removes an array, a group or a store")
    if not dry_run:
        location, _ = targets.parent_and_key(target)
        targets.run(lambda: targets.with_store(location, options, lambda store: store.erase(entry.key)))
    _print_removed([entry], dry_run=dry_run, out=out)
    out.detail(f"{'would remove' if dry_run else 'removed'} {target}")


def _print_removed(found: Sequence[Entry], *, dry_run: bool, out: Output) -> None:
    if not (dry_run or out.as_json):
        return
    for entry in found:
        out.record({"type": "object", "key": entry.key, "removed": not dry_run}, entry.key)
    if out.as_json:
        nbytes = sum([entry.size or 0 for entry in found])
        out.record({"type": "total", "objects": len(found), "bytes": nbytes, "removed": not dry_run}, "")


async def _remove_chosen(target: str, options: StorageOptions, keys: list[str], kept: list[str]) -> None:
    """Remove the objects `keys` below `target`, and keep the documents `kept`."""
    from aiozarr.hierarchy.internal import erase_objects

    await _change(target, options, lambda access: erase_objects(access, keys, kept))


async def _remove_all(target: str, options: StorageOptions) -> None:
    """Remove the node or prefix `target`, and on the local disk its directory, or the whole archive."""
    from aiozarr.hierarchy.internal import delete_node

    await _remove_container(await _change(target, options, delete_node))


async def _change(target: str, options: StorageOptions, change: Callable[[NodeAccess], Awaitable[None]]) -> Store:
    """Await `change` with the access to `target`. Return its store, which is closed."""
    from aiozarr.hierarchy.internal import check_store_writable, run_at_target

    async def work(access: NodeAccess, owns_store: bool) -> Store:
        try:
            check_store_writable(access.store)
            await change(access)
        finally:
            await access.store.aclose()
        return access.store

    return await run_at_target(work, target, "", zarr_format=None, storage_options=options, settings=None)


async def _remove_container(store: Store) -> None:
    """Remove the directory or the archive of an emptied store, unless another program has written to it.

    Raises:
        StoreError: a directory still contains names that are not keys.
    """
    from aiozarr.errors import StoreError
    from aiozarr.stores import LocalStore
    from aiozarr.stores.blocking import in_thread

    if isinstance(store, LocalStore):
        root = store.root.encode(errors="surrogateescape")

        def remove() -> list[bytes]:
            with suppress(OSError):
                os.rmdir(root)
            return sorted(os.listdir(root)) if os.path.isdir(root) else []

        if left := await in_thread(remove):
            names = ", ".join([name.decode(errors="backslashreplace") for name in left[:5]])
            message = f"not everything was removed: {names} remain, because aiozarr cannot use their names as keys"
            raise StoreError(message, store=store.url)
    elif store.url.startswith("zip::") and store.parent_store() is None:
        from aiozarr.stores.zip.local_zip import LocalZipStore

        if isinstance(store, LocalZipStore) and not await store.list():
            with suppress(OSError):
                await in_thread(lambda: os.unlink(store.path))
