"""Commands on objects and prefixes, that is, on keys and bytes: ls, stat, du, rm and clean."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from aiozarr.cli import targets
from aiozarr.cli.output import Output, bytes_text, output_options
from aiozarr.cli.targets import StorageOptions, TargetOptions
from aiozarr.common.formatting import format_count
from aiozarr.errors import NodeNotFoundError, UnsupportedOperationError

if TYPE_CHECKING:
    from aiozarr.engine import ScheduledStore
    from aiozarr.hierarchy.internal import NodeAccess
    from aiozarr.model import Entry
    from aiozarr.stores import Store

_human = click.option(
    "-H", "--human-readable", "--humanize", "human", is_flag=True, help="Sizes in KiB, MiB and so on."
)


@click.command()
@click.argument("target")
@click.option("-r", "--recursive", is_flag=True, help="All objects below, at any depth.")
@click.option("-l", "--long", is_flag=True, help="With sizes and versions; --recursive always has the sizes.")
@_human
@targets.store_options
@output_options
def ls(target: str, recursive: bool, long: bool, human: bool, stores: TargetOptions, out: Output) -> None:
    """List the objects and prefixes below TARGET, or with --recursive all objects.

    Sizes are in bytes. Names are relative to TARGET; a prefix ends with a slash.
    """
    options = stores.of(target)
    found = False
    if recursive:
        with targets.iterated(targets.scan_batches(target, options)) as items:
            for batch in items:
                for entry in batch:
                    found = True
                    _print_entry(out, entry, long=True, human=human, versions=long)
    else:
        entries, prefixes = targets.run(
            lambda: targets.with_store(target, options, lambda store: _list_level(store, long or out.as_json))
        )
        found = bool(entries or prefixes)
        for prefix in prefixes:
            size = f"{'PRE':>12} " if long else ""
            out.record({"type": "prefix", "key": prefix, "size": None, "version": None}, size + prefix)
        for entry in entries:
            _print_entry(out, entry, long=long, human=human, versions=long)
    if not found:
        _print_entry(out, targets.run(lambda: _require_object(target, options)), long=long, human=human, versions=long)


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
    return bytes_text(size) if human else str(size)


def _version_text(entry: Entry) -> str | None:
    version = entry.version
    return None if version is None else version.etag or version.generation


async def _require_object(target: str, options: StorageOptions) -> Entry:
    """Return the entry of the object `target`.

    Raises:
        FileNotFoundError: there is none.
        NodeNotFoundError: there is none, and `target` cannot be one.
    """
    entry = await find_object(target, options)
    if entry is None:
        raise NodeNotFoundError(f"nothing is stored at {target}", url=target)
    return entry


async def find_object(target: str, options: StorageOptions) -> Entry | None:
    """Return the entry of the object `target`, or None if there is none."""
    if not target:
        raise ValueError("the target is empty; the working directory is '.'")
    location, name = targets.parent_and_key(target)
    if not name:
        return None
    return await targets.with_store(
        location, options, lambda store: store.stat(targets.key_in(store.store, target, name))
    )


@click.command()
@click.argument("target")
@targets.store_options
@output_options
def stat(target: str, stores: TargetOptions, out: Output) -> None:
    """Show key, size and version of the object TARGET."""
    entry = targets.run(lambda: find_object(target, stores.of(target)))
    if entry is None:
        raise FileNotFoundError(f"there is no object {target}; 'aiozarr ls' and 'aiozarr info' show prefixes and nodes")
    record = {"url": target, "key": entry.key, "size": entry.size, "version": _version_text(entry)}
    size = "unknown" if entry.size is None else f"{entry.size} B"
    if entry.size is not None and entry.size >= 1024:
        size += f" ({bytes_text(entry.size)})"
    out.record(record, f"url     : {target}", f"size    : {size}", f"version : {_version_text(entry) or 'none'}")


@click.command()
@click.argument("target")
@click.option("-d", "--depth", "--max-depth", default=0, type=click.IntRange(0), help="Also sums of this many levels.")
@_human
@targets.store_options
@output_options
def du(target: str, depth: int, human: bool, stores: TargetOptions, out: Output) -> None:
    """Sum up the number and the bytes of the objects below TARGET."""
    bytes_below: Counter[str] = Counter()
    objects_below: Counter[str] = Counter()
    unsized = 0
    options = stores.of(target)
    with targets.iterated(targets.scan_batches(target, options)) as items:
        for batch in items:
            for entry in batch:
                segments = entry.key.split("/")[:-1][:depth]
                unsized += entry.size is None
                for level in range(len(segments) + 1):
                    prefix = "".join([f"{segment}/" for segment in segments[:level]])
                    bytes_below[prefix] += entry.size or 0
                    objects_below[prefix] += 1
    if not objects_below:
        entry = targets.run(lambda: _require_object(target, options))
        bytes_below[""], objects_below[""] = entry.size or 0, 1
    if unsized:
        out.say(f"aiozarr: {unsized} objects have no size in the listing, and count as 0 bytes")
    for prefix in sorted(objects_below, reverse=True):
        size, count = bytes_below[prefix], objects_below[prefix]
        shown = bytes_text(size) if human else str(size)
        text = f"{shown:>12} {count:>9} {prefix or target}"
        out.record({"prefix": prefix, "objects": count, "bytes": size}, text)


@click.command()
@click.argument("target")
@click.option("-r", "--recursive", is_flag=True, help="Everything below TARGET: a node, or a whole store.")
@targets.include_option
@targets.exclude_option
@click.option("-n", "--dry-run", "--dryrun", is_flag=True, help="Print the keys that would be removed.")
@click.option("-f", "--force", is_flag=True, help="Also a directory without a node, and the working or home directory.")
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

    The documents of nodes are removed first: an interrupted removal leaves no array that reads as fill values.
    Consolidated metadata of groups above are updated. If TARGET is a link, only the link is removed.
    """
    from aiozarr.metadata.format_rules import document_write_order
    from aiozarr.transfer.copy_rules import KeyFilter

    options = stores.of(target)
    if not recursive:
        if include or exclude:
            raise click.UsageError("--include and --exclude go with --recursive")
        _remove_object(target, options, dry_run=dry_run, out=out)
        return
    wanted = KeyFilter(include, exclude)
    path = _local_path(target)
    if path is not None and os.path.islink(path):
        if dry_run or wanted or out.as_json:
            raise click.UsageError(f"{target} is a link: only the link would be removed; name the directory behind it")
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
                batch = [entry for entry in batch if not entry.below_link]  # what is never removed
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


@click.command()
@click.argument("target")
@click.option("--delete", is_flag=True, help="Remove what is listed.")
@targets.store_options
@output_options
def clean(target: str, delete: bool, stores: TargetOptions, out: Output) -> None:
    """List, and with --delete remove, leftovers of killed aiozarr processes at TARGET that are at least an hour old.

    On a local disk these are temporary files without a writer, beside zip archives too. In other stores these are the
    probe objects of a test for conditional writes, and on S3 the unfinished uploads of copies. Files and uploads of
    other programs stay, and so do journals, because --resume needs them.
    """
    from aiozarr import transfer

    found = targets.run(lambda: transfer.clean(target, delete=delete, storage_options=stores.of(target) or None))
    for each in found:
        size = "?" if each.nbytes is None else str(each.nbytes)
        out.record({"type": "leftover", **vars(each)}, f"{size:>12} {each.location}")
    out.say(f"{'removed' if delete else 'found'} {format_count(len(found), 'leftover')}")


def _local_path(target: str) -> str | None:
    """Return the absolute path of a target on the local disk; None for all others."""
    from aiozarr.stores import LocalStore, from_url

    scheme, mark, rest = target.partition("://")
    if mark and scheme.lower() not in ("file", "local"):  # fsspec opens local:// as well
        return None
    store = from_url(f"file://{rest}" if mark else target)
    return store.root if isinstance(store, LocalStore) else None


def _check_removable(target: str, path: str | None, options: StorageOptions) -> None:
    """Refuse to remove a directory that the user needs, or that has nothing to do with Zarr.

    Raises:
        UsageError: the target is the working directory, the home directory, or a directory above one of them.
        NodeNotFoundError: objects are stored there, and no node.
    """
    from aiozarr.metadata.format_rules import document_write_order

    if path is not None:
        place = os.path.join(os.path.realpath(path), "")
        kept: dict[str, str] = {}
        with suppress(FileNotFoundError):  # it was deleted, so there is nothing to keep
            kept["the working directory"] = os.getcwd()
        kept["the home directory"] = os.path.expanduser("~")
        for name, used in kept.items():
            if os.path.join(os.path.realpath(used), "").startswith(place):
                raise click.UsageError(f"{target} is {name}, or above it; --force removes it anyway")
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
            f"there is no array and no group at or below {target}; --force removes what is stored there", url=target
        )


async def _remove_link(path: str) -> None:
    """Remove a link to a directory, and the node behind it from consolidated metadata above."""
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
        raise FileNotFoundError(f"there is no object {target}; --recursive removes everything below a prefix")
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
    """Remove the objects `keys` below `target`; the documents `kept` stay."""
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
    """Remove the directory or the archive of an emptied store. It stays if another program has written to it.

    Raises:
        StoreError: a directory still holds names that are not keys.
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
            message = f"not everything was removed: left are {names}, which hold or are names that aiozarr cannot store"
            raise StoreError(message, store=store.url)
    elif store.url.startswith("zip::") and store.parent_store() is None:
        from aiozarr.stores.zip.local_zip import LocalZipStore

        if isinstance(store, LocalZipStore) and not await store.list():
            with suppress(OSError):
                await in_thread(lambda: os.unlink(store.path))
