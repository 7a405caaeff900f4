"""Copies of single objects: one route for each, from one store to another, as the bytes are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.engine.copy.copy_route import (
        CopyPolicy,
        CopyRoute,
        Verify,
        content_tag,
        equal_bytes,
        has_content_tag,
        have_equal_bytes,
        same_version,
    )
    from aiozarr.engine.copy.download import Download
    from aiozarr.engine.copy.object_copier import CopiedObject, ObjectCopier
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".copy_route": "CopyPolicy CopyRoute Verify content_tag equal_bytes has_content_tag have_equal_bytes "
            "same_version",
            ".download": "Download",
            ".object_copier": "CopiedObject ObjectCopier",
        },
    )

__all__ = [
    "CopiedObject",
    "CopyPolicy",
    "CopyRoute",
    "Download",
    "ObjectCopier",
    "Verify",
    "content_tag",
    "equal_bytes",
    "has_content_tag",
    "have_equal_bytes",
    "same_version",
]
