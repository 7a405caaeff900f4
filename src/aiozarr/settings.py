"""The options of a reader or writer, as one frozen record that is passed explicitly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from aiozarr.schedule.events import Event

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How reads and writes behave. A value is passed to `open*` and `create_*` and holds for the node opened there.

    Limits of requests and bytes in flight belong to one budget per (origin, credentials) of the process: where callers
    ask for different limits of the same origin, the smallest of those at work holds.

    Attributes:
        max_requests: requests in flight per origin; "auto" starts at 64 and adapts, up to 512.
        max_bytes_in_flight: bytes per origin that are on their way, or have landed and wait for their decoder.
        decode_threads: threads that run codecs, for the process; None: as many as there are cores.
        timeout: seconds for one operation such as `view.read()`; None: no limit.
        idle_timeout: seconds without progress after which a request counts as failed.
        retries: how often a failed request is repeated; no request is repeated after `retry_seconds`.
        retry_seconds: seconds from the first try after which a request is given up.
        gap: what a request costs, in bytes: as many between two wanted ranges of one object are fetched rather than
            skipped, and it decides whether parts of chunks, or whole shards, are fetched; "auto" learns it.
        max_over_read: bytes fetched / bytes wanted that merging may reach.
        max_request_bytes: size limit of a merged request; larger objects come in parts of at most this size (1 MiB at
            least).
        index_cache_bytes: bytes of decoded shard indexes kept, for the process; 0: none.
        chunk_cache_bytes: bytes of decoded chunks kept for later reads; 0: none. Readers with equal values share one
            cache in the process, whatever they read.
        chunk_cache_seconds: how long a kept chunk is given to readers; what others change is seen after that.
            `math.inf`: for data that nobody changes. What this process writes is seen at once.
        max_chunks: chunks, inner chunks of shards included, that one operation may touch; beyond that `LimitError` is
            raised before anything is allocated.
        max_chunk_bytes: decoded bytes of a chunk above which `LimitError` is raised before anything is allocated.
        max_index_bytes: bytes of a shard index above which `LimitError` is raised before it is fetched.
        max_metadata_bytes: size limit of a metadata document.
        missing: "fill" reads missing chunks as the fill value, "raise" raises `MissingChunkError`.
        missing_status: the HTTP statuses that mean "missing".
        strict: refuse what the formats do not allow and real stores hold.
        v1_order_f: how chunks of v1 arrays of order F without blosc lie: "spec" as the v1 specification says, "written"
            as zarr-python 1 wrote them, which is in C order.
        durable: local writes are flushed to the device before they count as done.
        on_event: called with each event record, on the I/O thread; it must not block. None costs nothing.
    """

    max_requests: int | Literal["auto"] = "auto"
    max_bytes_in_flight: int = 256 * MIB
    decode_threads: int | None = None
    timeout: float | None = None
    idle_timeout: float = 20.0
    retries: int = 5
    retry_seconds: float = 20.0
    gap: int | Literal["auto"] = "auto"
    max_over_read: float = 1.5
    max_request_bytes: int = 16 * MIB
    index_cache_bytes: int = 64 * MIB
    chunk_cache_bytes: int = 0
    chunk_cache_seconds: float = 60.0
    max_chunks: int = 100_000_000
    max_chunk_bytes: int = GIB
    max_index_bytes: int = 64 * MIB
    max_metadata_bytes: int = 64 * MIB
    missing: Literal["fill", "raise"] = "fill"
    missing_status: tuple[int, ...] = (404,)
    strict: bool = False
    v1_order_f: Literal["spec", "written"] = "spec"
    durable: bool = False
    on_event: Callable[[Event], None] | None = None

    def __post_init__(self) -> None:
        if self.max_requests != "auto":
            _at_least("max_requests", self.max_requests, 1)
        if self.gap != "auto":
            _at_least("gap", self.gap, 0)
        if self.decode_threads is not None:
            _at_least("decode_threads", self.decode_threads, 1)
        for name in (
            "max_bytes_in_flight",
            "max_request_bytes",
            "max_chunks",
            "max_chunk_bytes",
            "max_index_bytes",
            "max_metadata_bytes",
        ):
            _at_least(name, getattr(self, name), 1)
        for name in ("retries", "index_cache_bytes", "chunk_cache_bytes"):
            _at_least(name, getattr(self, name), 0)
        for name in ("idle_timeout", "retry_seconds", "chunk_cache_seconds", "max_over_read", "timeout"):
            value = getattr(self, name)
            if name == "timeout" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"Settings.{name} must be a number, not {value!r}")
        for name in ("idle_timeout", "retry_seconds", "chunk_cache_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Settings.{name} must be more than 0 seconds, not {getattr(self, name)!r}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"Settings.timeout must be more than 0 seconds or None, not {self.timeout!r}")
        if not self.max_over_read >= 1:
            raise ValueError(f"Settings.max_over_read must be at least 1, not {self.max_over_read!r}")
        if self.missing not in ("fill", "raise"):
            raise ValueError(f"Settings.missing must be 'fill' or 'raise', not {self.missing!r}")
        if self.v1_order_f not in ("spec", "written"):
            raise ValueError(f"Settings.v1_order_f must be 'spec' or 'written', not {self.v1_order_f!r}")
        statuses: object = self.missing_status
        if not isinstance(statuses, tuple) or not all(isinstance(each, int) for each in statuses):
            raise TypeError(f"Settings.missing_status must be a tuple of ints, not {statuses!r}")
        for name in ("strict", "durable"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"Settings.{name} must be a bool, not {getattr(self, name)!r}")
        if self.on_event is not None and not callable(self.on_event):
            raise TypeError(f"Settings.on_event must be callable or None, not {self.on_event!r}")

    def __repr__(self) -> str:
        changed = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Settings({', '.join(changed)})"


def _at_least(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"Settings.{name} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"Settings.{name} must be at least {least}, not {value}")


DEFAULT_SETTINGS = Settings()


def settings_or_default(settings: Settings | None) -> Settings:
    """Return `settings`, or the defaults where there are none.

    Raises:
        TypeError: they are something else, such as a dictionary.
    """
    if settings is None:
        return DEFAULT_SETTINGS
    if not isinstance(settings, Settings):
        raise TypeError(f"settings are an aiozarr.Settings, not {type(settings).__name__}")
    return settings
