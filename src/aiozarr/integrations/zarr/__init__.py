"""aiozarr for zarr-python: a codec pipeline that reads and writes chunks, a store, and a substitute for arrays.

`enable()` is all that is needed. `ZARR_CODEC_PIPELINE__PATH=aiozarr.integrations.zarr.CodecPipeline` in the environment
does the same without code. zarr-python imports this package for its first array, whether enabled or not, so this
package imports nothing until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiozarr.integrations.zarr.async_array_like import AsyncArrayLike
    from aiozarr.integrations.zarr.chunk_pipeline import PipelineUsage, enable, usage
    from aiozarr.integrations.zarr.chunk_pipeline import ZarrCodecPipeline as CodecPipeline
    from aiozarr.integrations.zarr.store import ZarrStore as Store

__all__ = ["AsyncArrayLike", "CodecPipeline", "PipelineUsage", "Store", "enable", "usage"]


def __getattr__(name: str) -> Any:
    if name == "Store":
        from aiozarr.integrations.zarr.store import ZarrStore

        return ZarrStore
    if name == "AsyncArrayLike":
        # It needs no zarr-python.
        from aiozarr.integrations.zarr.async_array_like import AsyncArrayLike

        return AsyncArrayLike
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aiozarr.integrations.zarr import chunk_pipeline

    return getattr(chunk_pipeline, "ZarrCodecPipeline" if name == "CodecPipeline" else name)


def __dir__() -> list[str]:
    return sorted(__all__)
