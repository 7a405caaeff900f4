"""Zarr arrays in cloud object stores, from asyncio: one schedule, one budget, decode off the loop.

```python
async with await aiozarr.open_array("s3://bucket/data.zarr", "temperature") as arr:
    block = await arr[0, 100:200]
```

`aiozarr.sync` has the same names, blocking.
"""

from aiozarr import stores, sync
from aiozarr.engine import Plan, Progress
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
from aiozarr.hierarchy import (
    Array,
    ArrayInfo,
    Group,
    GroupInfo,
    View,
    consolidate_metadata,
    create_array,
    create_group,
    open,  # noqa: A004  # the public name
    open_array,
    open_group,
    read_many,
)
from aiozarr.schedule import Report, record
from aiozarr.settings import Settings
from aiozarr.transfer import CopyReport, copy

__all__ = [
    "AiozarrError",
    "Array",
    "ArrayInfo",
    "ChangedError",
    "ChecksumError",
    "CodecError",
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
    "consolidate_metadata",
    "copy",
    "create_array",
    "create_group",
    "open",
    "open_array",
    "open_group",
    "read_many",
    "record",
    "stores",
    "sync",
]
