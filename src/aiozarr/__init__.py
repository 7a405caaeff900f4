"""Zarr arrays in cloud object stores, for asyncio: one request queue per origin, decoding in worker threads.

```python
async with aiozarr.open_array("s3://bucket/data.zarr", "temperature") as arr:
    block = await arr[0, 100:200]
```

`aiozarr.sync` has the same names, blocking.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiozarr.errors import (
    AiozarrError,
    ChangedError,
    ChecksumError,
    CodecError,
    CopyError,
    EraseError,
    ForkedProcessError,
    InvalidKeyError,
    InvalidMetadataError,
    InvalidSpecError,
    LimitError,
    MetadataError,
    MissingChunkError,
    NodeError,
    NodeExistsError,
    NodeNotFoundError,
    NodeTypeError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    SelectionError,
    ShortReadError,
    SpecMismatchError,
    StaleDataWarning,
    StoreError,
    StoreTimeoutError,
    ThrottledError,
    UnauthenticatedError,
    UnknownSchemeError,
    UnsafeWriteWarning,
    UnsupportedMetadataError,
    UnsupportedOperationError,
)
from aiozarr.settings import Settings

if TYPE_CHECKING:
    from aiozarr import driver, stores, sync
    from aiozarr.conversion import ConversionPlan, ConversionReport, convert, migrate, plan_conversion
    from aiozarr.driver import open  # noqa: A004  # the public name
    from aiozarr.engine import Plan, Progress
    from aiozarr.hierarchy import (
        Array,
        ArrayInfo,
        Group,
        GroupInfo,
        View,
        consolidate_metadata,
        create_array,
        create_group,
        open_array,
        open_group,
        read_many,
        require_array,
        require_group,
    )
    from aiozarr.schedule import Report, RequestEvent, Totals, record
    from aiozarr.transfer import CopyReport, copy

__version__ = "0.1.0"

__all__ = [
    "AiozarrError",
    "Array",
    "ArrayInfo",
    "ChangedError",
    "ChecksumError",
    "CodecError",
    "ConversionPlan",
    "ConversionReport",
    "CopyError",
    "CopyReport",
    "EraseError",
    "ForkedProcessError",
    "Group",
    "GroupInfo",
    "InvalidKeyError",
    "InvalidMetadataError",
    "InvalidSpecError",
    "LimitError",
    "MetadataError",
    "MissingChunkError",
    "NodeError",
    "NodeExistsError",
    "NodeNotFoundError",
    "NodeTypeError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "Plan",
    "PreconditionFailedError",
    "Progress",
    "Report",
    "RequestEvent",
    "SelectionError",
    "Settings",
    "ShortReadError",
    "SpecMismatchError",
    "StaleDataWarning",
    "StoreError",
    "StoreTimeoutError",
    "ThrottledError",
    "Totals",
    "UnauthenticatedError",
    "UnknownSchemeError",
    "UnsafeWriteWarning",
    "UnsupportedMetadataError",
    "UnsupportedOperationError",
    "View",
    "consolidate_metadata",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "driver",
    "migrate",
    "open",
    "open_array",
    "open_group",
    "plan_conversion",
    "read_many",
    "record",
    "require_array",
    "require_group",
    "stores",
    "sync",
]


def __getattr__(name: str) -> Any:
    # Loaded when first used: `import aiozarr` itself must be cheap, also for programs that use a part of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = {
        "ConversionPlan": "conversion",
        "ConversionReport": "conversion",
        "CopyReport": "transfer",
        "Plan": "engine",
        "Progress": "engine",
        "Report": "schedule",
        "RequestEvent": "schedule",
        "Totals": "schedule",
        "convert": "conversion",
        "copy": "transfer",
        "migrate": "conversion",
        "open": "driver",
        "plan_conversion": "conversion",
        "record": "schedule",
    }
    if name in ("driver", "stores", "sync"):
        return import_module(f"aiozarr.{name}")
    value = getattr(import_module(f"aiozarr.{homes.get(name, 'hierarchy')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
