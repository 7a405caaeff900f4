"""The options of readers and writers as one immutable record, passed explicitly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from aiozarr.schedule.events import Event

T = TypeVar("T")
MIB = 1 << 20
GIB = 1 << 30


Scope: TypeAlias = Literal["process", "origin", "store", "operation"]

SCOPES: Mapping[str, Scope] = MappingProxyType(
    {
        **dict.fromkeys(("decode_threads", "index_cache_bytes", "chunk_cache_bytes"), "process"),
        **dict.fromkeys(("max_requests", "max_bytes_in_flight"), "origin"),
        **dict.fromkeys(("idle_timeout", "fsync"), "store"),
    }
)
"""The scope of each setting whose scope is not one operation."""


def _suggest_names(settings_class: type[T]) -> type[T]:
    """Let the error of an unknown setting name the nearest one. Decorates the dataclass."""
    make = settings_class.__init__

    @wraps(make)
    def make_checked(self: T, *args: Any, **options: Any) -> None:
        known = settings_class.__dataclass_fields__  # type: ignore[attr-defined]  # of a dataclass
        for name in options:
            if name not in known:
                from aiozarr.common.formatting import did_you_mean  # imported here because few names are wrong

                hint = did_you_mean(name, known, "help(aiozarr.Settings) lists all settings")
                raise TypeError(f"unknown setting {name!r}; {hint}")
        make(self, *args, **options)

    settings_class.__init__ = make_checked  # type: ignore[assignment]  # of the same signature
    return settings_class


@_suggest_names
@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of reads and writes. `open*` and `create_*` take them for the node that they open.

    The scope of a setting says what shares it:

    - process: one resource for all readers and writers in the process.
    - origin: all operations on one server, bucket or file system with the same credentials. The smallest value in use
      applies.
    - store: fixed when a store is opened from a URL or a path. A store that you pass yourself has its own.
    - operation: one read, write, opening or copy through a handle with these settings.

    Attributes:
        max_requests: requests in flight per origin. `"auto"` starts at 64 and adapts, up to 512. Scope: origin.
        max_bytes_in_flight: bytes per origin that are being transferred or wait for decoding. Scope: origin.
        decode_threads: threads for codecs in the process; None for the number of cores. The last number set applies.
            Scope: process.
        timeout: seconds for one operation such as `view.read()`, or for each block of a stream; None for no limit.
            Scope: operation.
        idle_timeout: seconds without progress after which a request fails. Scope: store.
        retries: maximum number of repetitions of a failed request. Scope: operation.
        retry_seconds: seconds from the first attempt after which a request is not repeated. A request that makes no
            progress within `idle_timeout` is always repeated once. Scope: operation.
        merge_gap_bytes: cost of one request, expressed in bytes. Two ranges of one object are fetched with one request
            if there are at most this many unwanted bytes between them. The same cost decides whether to read part of a
            chunk or all of it, and a whole shard or its index first. `"auto"`: measured per origin, 16 KiB to 1 MiB.
            Scope: operation.
        max_over_read: maximum ratio of fetched to wanted bytes that merging of ranges may cause. Scope: operation.
        max_request_bytes: maximum size of a merged request. Larger objects are fetched in parts of this size, or of
            1 MiB if it is less. Scope: operation.
        index_cache_bytes: size of the cache of decoded shard indexes in the process; 0 disables it. Scope: process.
        chunk_cache_bytes: size of the cache of decoded chunks; 0 disables it. All readers of the process with the same
            number share one cache. Scope: process.
        chunk_cache_seconds: age at which a cached chunk expires. Readers see changes by other processes after this
            time, and changes by this process at once. `math.inf` for data that never changes. Scope: operation.
        max_chunks: maximum number of chunks per operation, including inner chunks of shards. `LimitError` is raised
            before any allocation. Scope: operation.
        max_chunk_bytes: maximum decoded size of a chunk in bytes. `LimitError` is raised before any allocation. Scope:
            operation.
        max_index_bytes: maximum size of a shard index in bytes. `LimitError` is raised before the index is fetched.
            Scope: operation.
        max_metadata_bytes: maximum size of a metadata document in bytes. Scope: operation.
        missing_chunks: `"fill"` reads missing chunks as the fill value, `"raise"` raises `MissingChunkError`. Scope:
            operation.
        missing_status: HTTP status codes that mean that the object does not exist. Scope: operation.
        strict: reject documents that violate the specification, which aiozarr otherwise reads if they are common.
            Scope: operation.
        v1_order_f: element order in chunks of v1 arrays of order F without blosc. `"spec"`: Fortran order, as the v1
            specification says. `"written"`: C order, as zarr-python 1 wrote them. Scope: operation.
        fsync: flush local writes to the device before they complete. Scope: store.
        on_event: called with each event record on the I/O thread, so it must not block; None records no events.
            Scope: operation.

    Raises:
        TypeError: an unknown setting, or a value of the wrong type.
        ValueError: a value out of its range.
    """

    max_requests: int | Literal["auto"] = "auto"
    max_bytes_in_flight: int = 256 * MIB
    decode_threads: int | None = None
    timeout: float | None = None
    idle_timeout: float = 20.0
    retries: int = 5
    retry_seconds: float = 40.0
    merge_gap_bytes: int | Literal["auto"] = "auto"
    max_over_read: float = 1.5
    max_request_bytes: int = 16 * MIB
    index_cache_bytes: int = 64 * MIB
    chunk_cache_bytes: int = 0
    chunk_cache_seconds: float = 60.0
    max_chunks: int = 100_000_000
    max_chunk_bytes: int = GIB
    max_index_bytes: int = 64 * MIB
    max_metadata_bytes: int = 64 * MIB
    missing_chunks: Literal["fill", "raise"] = "fill"
    missing_status: tuple[int, ...] = (404,)
    strict: bool = False
    v1_order_f: Literal["spec", "written"] = "spec"
    fsync: bool = False
    on_event: Callable[[Event], None] | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not each.default:  # a default such as "auto" or None needs no check
                _checks()[each.name](value, f"Settings.{each.name}")

    def __repr__(self) -> str:
        changed = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Settings({', '.join(f'{name}={_written(name, value)}' for name, value in changed)})"


def _written(name: str, value: object) -> str:
    """Return a value as a person would write it: round numbers of bytes as shifts."""
    for shift in (30, 20, 10):
        if "bytes" in name and type(value) is int and value >= 1 << shift and not value % (1 << shift):
            return f"{value >> shift} << {shift}"
    return repr(value)


@cache
def _checks() -> dict[str, Callable[[Any, str], object]]:
    """Return the check of each setting."""
    from aiozarr.common.checks import Checks  # imported here because most programs keep the defaults

    checks = Checks()
    at_least_0, at_least_1 = partial(checks.integer, low=0), partial(checks.integer, low=1)
    seconds = partial(checks.number, expected="a number of seconds above 0", accepts=lambda value: value > 0)
    return {
        **dict.fromkeys(("retries", "merge_gap_bytes", "index_cache_bytes", "chunk_cache_bytes"), at_least_0),
        **dict.fromkeys(("max_requests", "max_bytes_in_flight", "max_request_bytes", "decode_threads"), at_least_1),
        **dict.fromkeys(("max_chunks", "max_chunk_bytes", "max_index_bytes", "max_metadata_bytes"), at_least_1),
        **dict.fromkeys(("timeout", "idle_timeout", "retry_seconds", "chunk_cache_seconds"), seconds),
        "max_over_read": partial(checks.number, expected="a number of at least 1", accepts=lambda value: value >= 1),
        "missing_chunks": partial(checks.one_of, allowed=("fill", "raise")),
        "missing_status": partial(checks.integers, low=0, kind=tuple),
        "v1_order_f": partial(checks.one_of, allowed=("spec", "written")),
        **dict.fromkeys(("strict", "fsync"), checks.boolean),
        "on_event": partial(checks.check, kind=cast("Any", Callable), expected="callable"),
    }


DEFAULT_SETTINGS = Settings()


def settings_or_default(settings: Settings | None) -> Settings:
    """Return `settings`, or the defaults for None.

    Raises:
        TypeError: `settings` are of another type, such as a dictionary.
    """
    if settings is None:
        return DEFAULT_SETTINGS
    if not isinstance(settings, Settings):
        raise TypeError(
            "settings must be an aiozarr.Settings, such as settings=aiozarr.Settings(timeout=2), "
            f"not {type(settings).__name__}"
        )
    return settings


def changed_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return `settings` with `changes`, for a handle whose store is open.

    Raises:
        TypeError, ValueError: as `Settings`, or a change would have no effect because its scope is the store.
    """
    changed = replace(settings, **changes)
    for name, value in changes.items():
        if SCOPES.get(name) == "store" and value != getattr(settings, name):
            raise ValueError(
                f"{name} is fixed when a store is opened; open the array again with "
                f"settings=aiozarr.Settings({name}={value!r})"
            )
    return changed
