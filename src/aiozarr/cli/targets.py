"""The targets of commands: their storage options, their objects, and coroutines that run on the I/O thread."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, closing
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

import click

if TYPE_CHECKING:
    from aiozarr.engine import ScheduledStore
    from aiozarr.model import Entry
    from aiozarr.settings import Settings

T = TypeVar("T")

StorageOptions = dict[str, Any]

BATCH = 1000
"""Number of entries that are passed to the calling thread at once."""


class TargetOptions(NamedTuple):
    """The storage options of a command line.

    Attributes:
        remote: options of every target that is not on the local disk or in memory.
        source: options of the source of a copy only.
        destination: options of the destination of a copy only.
    """

    remote: StorageOptions
    source: StorageOptions
    destination: StorageOptions

    def of(self, target: str, side: str = "") -> StorageOptions:
        """Return the storage options of `target`; `side` is "source" or "destination" in a copy."""
        options = dict(self.remote) if is_remote(target) or not side else {}
        return {**options, **(getattr(self, side) if side else {})}


def is_remote(target: str) -> bool:
    """Return whether `target` is neither a local path nor a store in memory."""
    scheme, mark, _ = target.rpartition("::")[2].partition("://")
    return bool(mark) and scheme.lower() not in ("file", "memory", "local")


def local_path(target: str) -> str | None:
    """Return the absolute path of a target on the local disk, or None for any other target."""
    from aiozarr.stores import LocalStore, from_url

    scheme, mark, rest = target.partition("://")
    if mark and scheme.lower() not in ("file", "local"):  # fsspec opens local:// as well
        return None
    store = from_url(f"file://{rest}" if mark else target)
    return store.root if isinstance(store, LocalStore) else None


class ParsedType(click.ParamType[Any]):
    """An option whose value a function parses. A `ValueError` of the function becomes the error of the option."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the parsed value."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_key_value(text: str) -> tuple[str, Any]:
    """Return the key and the value of `KEY=VALUE`. JSON values such as mappings, true or null are parsed."""
    key, mark, value = text.partition("=")
    if not mark or not key:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return key, _parsed(value)


def _parsed(text: str) -> Any:
    # Numbers stay text, because keys and account names may be digits. The table of options converts the others.
    if text in ("true", "false", "null") or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


_KEY_VALUE = ParsedType("KEY=VALUE", parse_key_value)


include_option = click.option(
    "--include", metavar="GLOB", multiple=True, help="Use only keys that match, such as 't2m/*'. Can be repeated."
)
exclude_option = click.option("--exclude", metavar="GLOB", multiple=True, help="Skip keys that match. Can be repeated.")


def store_options(function: Any) -> Any:
    """Add the storage options to a command, which receives them as its argument `stores`."""
    return _store_options(function, sides=False)


def copy_store_options(function: Any) -> Any:
    """Add the storage options to a command with a source and a destination; its argument `stores` receives them."""
    return _store_options(function, sides=True)


def _store_options(function: Any, *, sides: bool) -> Any:
    @wraps(function)
    def command(
        *args: Any,
        storage_option: tuple[tuple[str, Any], ...],
        source_option: tuple[tuple[str, Any], ...] = (),
        destination_option: tuple[tuple[str, Any], ...] = (),
        **options: Any,
    ) -> Any:
        given = {name: options.pop(argument) for argument, name in _STORAGE_OPTION_NAMES.items()}
        remote = {name: value for name, value in given.items() if value not in (None, False)} | dict(storage_option)
        stores = TargetOptions(remote, dict(source_option), dict(destination_option))
        return function(*args, stores=stores, **options)

    if sides:
        for name in ("destination", "source"):
            text = f"A storage option of the {name} only, such as endpoint_url=URL. Can be repeated."
            command = click.option(f"--{name}-option", type=_KEY_VALUE, multiple=True, help=text)(command)
    for option in reversed(_STORE_OPTIONS):
        command = option(command)
    return command


_STORAGE_OPTION_NAMES = {name: name for name in ("endpoint_url", "profile", "region")} | {
    "no_sign_request": "anon",
    "request_payer": "requester_pays",
}
_STORE_OPTIONS = (
    click.option("--endpoint-url", metavar="URL", help="The address of an S3, GCS or Azure compatible server."),
    click.option("--no-sign-request", is_flag=True, help="Send no credentials, for public buckets."),
    click.option("--profile", help="A profile of ~/.aws/config and ~/.aws/credentials."),
    click.option("--region", help="The region of the bucket."),
    click.option(
        "--request-payer",
        type=click.Choice(["requester"]),
        callback=lambda _ctx, _param, value: value is not None,
        help="Pay for the requests with the account of the credentials.",
    ),
    click.option(
        "--storage-option",
        type=_KEY_VALUE,
        multiple=True,
        help="Any other storage option, as storage_options in Python. Can be repeated.",
    ),
)


def parent_and_key(target: str) -> tuple[str, str]:
    """Return the location that contains the object `target`, and the last segment of its name.

    The query of a web address stays with the location. The name is empty if the target cannot be an object.
    """
    place, query = target, ""
    if target.startswith(("http://", "https://")):
        place, mark, query = target.partition("?")
        query = mark + query
    if place.endswith("/"):
        return target, ""
    above, slash, name = place.rpartition("/")
    if "::" in place and "/" not in place.rpartition("::")[2]:
        return target, ""
    if not slash:
        return ".", name
    if above.endswith(":/") or not above:
        return (target, "") if above else ("/", name)
    return above + query, name


@asynccontextmanager
async def opened(
    target: str, options: Mapping[str, Any], settings: Settings | None = None
) -> AsyncGenerator[ScheduledStore, None]:
    """Yield the store of `target`, and close it. Runs on the I/O thread."""
    from aiozarr.engine import current_engine, opened_store
    from aiozarr.settings import settings_or_default

    chosen, engine = settings_or_default(settings), current_engine()
    assert engine is not None, "runs on the I/O thread"
    async with opened_store(target, dict(options), chosen) as (store, _):
        try:
            yield engine.scheduled(store, chosen)
        finally:
            await store.aclose()


async def with_store(
    target: str,
    options: Mapping[str, Any],
    function: Callable[[ScheduledStore], Awaitable[T]],
    settings: Settings | None = None,
) -> T:
    """Open the store of `target`, await `function` with it on the I/O thread, and close it."""
    from aiozarr.engine import run

    async def work(_: Any) -> T:
        async with opened(target, options, settings) as store:
            return await function(store)

    return await run(work)


async def scan_batches(
    target: str, options: Mapping[str, Any], *, batch: int = BATCH
) -> AsyncGenerator[list[Entry], None]:
    """Yield the entries below `target` in lists, in the order of the store's listing.

    Raises:
        UnsupportedOperationError: the store cannot list.
    """
    async with opened(target, options) as store:
        check_listable(store.store)
        async with aclosing(batched(store.scan(), batch)) as batches:
            async for entries in batches:
                yield entries


async def batched(items: AsyncGenerator[T, None], size: int = BATCH) -> AsyncGenerator[list[T], None]:
    """Yield items in lists of `size`."""
    batch: list[T] = []
    async with aclosing(items):
        async for item in items:
            batch.append(item)
            if len(batch) >= size:
                yield batch
                batch = []
    if batch:
        yield batch


def check_listable(store: Any) -> None:
    """Check that a store can list.

    Raises:
        UnsupportedOperationError: it cannot.
    """
    if not store.supports.listable:
        from aiozarr.errors import UnsupportedOperationError

        raise UnsupportedOperationError(f"{type(store).__name__} cannot list objects", store=store.url)


def key_in(store: Any, target: str, name: str) -> str:
    """Return the key of the last segment of `target`, which is percent-encoded in some URLs, but never in a path.

    Args:
        store: the store of the location of `target`.
        target: a URL or a local path.
        name: its last segment, from `parent_and_key`.
    """
    is_encoded = "://" in target and not store.url_of(" ").endswith(" ")
    return unquote(name) if is_encoded else name


def run(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await `function()` on the I/O thread. Ctrl-C cancels it, and is raised after it has ended."""
    from aiozarr.engine import run_blocking

    return run_blocking(function)


def iterated(items: AsyncGenerator[T, None]) -> closing[Generator[T, None, None]]:
    """Return an iterator over an asynchronous generator that runs on the I/O thread; leaving the context closes it."""
    from aiozarr.sync.wait import iterate, unchanged

    return closing(iterate(items, unchanged))
