"""Zarr arrays in cloud object stores, for asyncio: one request queue per origin, decoding in worker threads.

```python
async with aiozarr.open_array("s3://bucket/data.zarr", "temperature") as arr:
    block = await arr[0, 100:200]
```

`aiozarr.sync` has the same functions and classes, blocking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names
from aiozarr.errors import (
    AiozarrError,
    ChangedError,
    ChecksumError,
    ChildNotFoundError,
    CodecError,
    CopyError,
    DanglingReferenceError,
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
    from aiozarr import driver, results, stores, sync
    from aiozarr.common.progress import Progress
    from aiozarr.conversion import ConversionPlan, convert, plan_conversion
    from aiozarr.driver.open_target import open  # noqa: A004  # the public name
    from aiozarr.engine import Plan
    from aiozarr.hierarchy import (
        Array,
        Group,
        View,
        consolidate_metadata,
        create_array,
        create_group,
        open_array,
        open_group,
        read_many,
        require_array,
        require_group,
        validate,
        verify,
    )
    from aiozarr.schedule.events import Report, RequestEvent, record
    from aiozarr.transfer.clean import clean
    from aiozarr.transfer.copy import copy
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".driver": "",
            ".results": "",
            ".stores": "",
            ".sync": "",
            ".driver.open_target": "open",
            ".conversion": "ConversionPlan convert plan_conversion",
            ".common.progress": "Progress",
            ".engine": "Plan",
            ".hierarchy": (
                "Array Group View consolidate_metadata create_array create_group open_array open_group read_many "
                "require_array require_group validate verify"
            ),
            ".schedule.events": "Report RequestEvent record",
            ".transfer": "clean copy",
        },
    )

__version__ = "0.1.0"

__all__ = [
    "AiozarrError",
    "Array",
    "ChangedError",
    "ChecksumError",
    "ChildNotFoundError",
    "CodecError",
    "ConversionPlan",
    "CopyError",
    "DanglingReferenceError",
    "EraseError",
    "ForkedProcessError",
    "Group",
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
    "UnauthenticatedError",
    "UnknownSchemeError",
    "UnsafeWriteWarning",
    "UnsupportedMetadataError",
    "UnsupportedOperationError",
    "View",
    "__version__",
    "clean",
    "consolidate_metadata",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "driver",
    "open",
    "open_array",
    "open_group",
    "plan_conversion",
    "read_many",
    "record",
    "require_array",
    "require_group",
    "results",
    "stores",
    "sync",
    "validate",
    "verify",
]
