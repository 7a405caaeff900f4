"""Targets of commands: options of their stores, objects in them, and coroutines that run on the I/O thread."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

import click

if TYPE_CHECKING:
    from aiozarr.engine import ScheduledStore
    from aiozarr.settings import Settings

T = TypeVar("T")

StorageOptions = dict[str, Any]


class TargetOptions(NamedTuple):
    """The options of stores that a command was given.

    Attributes:
        remote: of every target that is reached over a network.
        source: of the source of a copy only.
        destination: of the destination of a copy only.
    """

    remote: StorageOptions
    source: StorageOptions
    destination: StorageOptions

    def of(self, target: str, side: str = "") -> StorageOptions:
        """Return the options of `target`; `side` is "source" or "destination" in a copy."""
        options = dict(self.remote) if is_remote(target) or not side else {}
        return {**options, **(getattr(self, side) if side else {})}


def is_remote(target: str) -> bool:
    """Return whether `target` is neither a local path nor a store in memory."""
    scheme, mark, _ = target.rpartition("::")[2].partition("://")
    return bool(mark) and scheme.lower() not in ("file", "memory", "local")


class KeyValue(click.ParamType[tuple[str, Any]]):
    """An option `KEY=VALUE`. A value that is JSON, such as a mapping, true or null, is parsed."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Return key and value."""
        if isinstance(value, tuple):
            return value
        key, mark, text = value.partition("=")
        if not mark or not key:
            self.fail(f"{value!r} is no KEY=VALUE", param, ctx)
        return key, _parsed(text)


def _parsed(text: str) -> Any:
    # Numbers stay text: keys and account names may be digits. The table of options converts what must be a number.
    if text in ("true", "false", "null") or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def store_options(function: Any) -> Any:
    """Add the options of stores to a command; it gets them as its argument `stores`."""
    return _store_options(function, sides=False)


def copy_store_options(function: Any) -> Any:
    """Add the options of stores to a command with source and destination; it gets them as its argument `stores`."""
    return _store_options(function, sides=True)


def _store_options(function: Any, *, sides: bool) -> Any:
    @wraps(function)
    def command(
        *args: Any,
        endpoint_url: str | None,
        no_sign_request: bool,
        profile: str | None,
        region: str | None,
        request_payer: str | None,
        storage_option: tuple[tuple[str, Any], ...],
        source_option: tuple[tuple[str, Any], ...] = (),
        destination_option: tuple[tuple[str, Any], ...] = (),
        **options: Any,
    ) -> Any:
        found: StorageOptions = {
            "endpoint_url": endpoint_url,
            "anon": no_sign_request or None,
            "profile": profile,
            "region": region,
            "requester_pays": bool(request_payer) or None,
        }
        remote = {name: value for name, value in found.items() if value is not None} | dict(storage_option)
        stores = TargetOptions(remote, dict(source_option), dict(destination_option))
        return function(*args, stores=stores, **options)

    if sides:
        for name in ("destination", "source"):
            text = f"An option of the {name} only; may be repeated."
            command = click.option(f"--{name}-option", type=KeyValue(), multiple=True, help=text)(command)
    for option in reversed(_STORE_OPTIONS):
        command = option(command)
    return command


_STORE_OPTIONS = (
    click.option("--endpoint-url", metavar="URL", help="A server that speaks the protocol of the cloud."),
    click.option("--no-sign-request", is_flag=True, help="Send no credentials: public buckets."),
    click.option("--profile", help="A profile of ~/.aws."),
    click.option("--region", help="The region of the bucket."),
    click.option(
        "--request-payer", type=click.Choice(["requester"]), help="The account of the credentials pays for requests."
    ),
    click.option(
        "--storage-option",
        type=KeyValue(),
        multiple=True,
        help="Any other option of the store, as storage_options in Python; may be repeated.",
    ),
)


def parent_and_key(target: str) -> tuple[str, str]:
    """Return the location that contains the object `target`, and the last segment of its name.

    The query of a web address stays with the location. The key is empty where a target cannot be an object.
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


async def with_store(
    target: str,
    options: Mapping[str, Any],
    function: Callable[[ScheduledStore], Awaitable[T]],
    settings: Settings | None = None,
) -> T:
    """Open the store of `target`, await `function` with it on the I/O thread, and close it."""
    from aiozarr.engine import opened_store, run
    from aiozarr.settings import settings_or_default

    chosen = settings_or_default(settings)

    async def work(engine: Any) -> T:
        async with opened_store(target, dict(options), chosen) as (store, _):
            try:
                return await function(engine.scheduled(store, chosen))
            finally:
                await store.aclose()

    return await run(work)


async def scan_batches(
    target: str, options: Mapping[str, Any], *, batch: int = 1000
) -> AsyncGenerator[list[Any], None]:
    """Yield the entries below `target` in lists, in the order of the store's listing.

    Raises:
        UnsupportedOperationError: the store cannot list.
    """
    from aiozarr.engine import current_engine, opened_store
    from aiozarr.settings import DEFAULT_SETTINGS

    engine = current_engine()
    assert engine is not None, "runs on the I/O thread"
    async with opened_store(target, dict(options), DEFAULT_SETTINGS) as (store, _):
        try:
            check_listable(store)
            found: list[Any] = []
            async with aclosing(engine.scheduled(store, DEFAULT_SETTINGS).scan()) as entries:
                async for entry in entries:
                    found.append(entry)
                    if len(found) >= batch:
                        yield found
                        found = []
            if found:
                yield found
        finally:
            await store.aclose()


def check_listable(store: Any) -> None:
    """Check that a store can list.

    Raises:
        UnsupportedOperationError: it cannot.
    """
    if not store.supports.listable:
        from aiozarr.errors import UnsupportedOperationError

        raise UnsupportedOperationError(f"{type(store).__name__} cannot list what it holds", store=store.url)


def key_in(store: Any, target: str, name: str) -> str:
    """Return the key of the last segment of `target`. A store with percent-encoded URLs has it encoded, a path never.

    Args:
        store: the store of the location of `target`.
        target: a URL or a local path.
        name: its last segment, as of `parent_and_key`.
    """
    is_encoded = "://" in target and not store.url_of(" ").endswith(" ")
    return unquote(name) if is_encoded else name


def run(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await `function()` on the I/O thread. Ctrl-C cancels it, and is raised when it has ended."""
    from aiozarr.engine import run_blocking

    return run_blocking(function)


@contextmanager
def iterated(items: AsyncGenerator[T, None]) -> Iterator[Iterator[T]]:
    """Yield an iterator over an asynchronous generator that runs on the I/O thread, and close it at the end."""
    end = object()

    async def step() -> Any:
        return await anext(items, end)

    async def close() -> None:
        await items.aclose()

    def steps() -> Iterator[T]:
        while (item := run(step)) is not end:
            yield item

    try:
        yield steps()
    finally:
        run(close)
