"""The result of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ConversionReport:
    """What a conversion or a migration has done; `print` shows it as a table.

    Attributes:
        arrays: number of arrays at the destination.
        groups: number of groups at the destination.
        tasks: tasks that were run. Each has written whole stored objects of one region.
        skipped: tasks that an interrupted conversion had done before.
        copied: stored objects that were copied as they are.
        bytes: bytes of elements that the tasks have written, intermediate arrays included.
        bytes_read: bytes that were received from stores.
        bytes_written: bytes that were sent to stores.
        requests: requests to stores, with repetitions, of all processes.
        seconds: wall time.
        reencoded: why chunks of an array could not stay as they are, by the path of the array (`migrate` only).
        failed: the regions that could not be converted, with the error of each (`on_error="continue"` only).
    """

    arrays: int = 0
    groups: int = 0
    tasks: int = 0
    skipped: int = 0
    copied: int = 0
    bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    requests: int = 0
    seconds: float = 0.0
    reencoded: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[tuple[str, BaseException], ...] = ()
