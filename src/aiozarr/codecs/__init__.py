"""Base classes and the registry of codecs, for authors of new codecs.

aiozarr's own codecs have no classes here. Name them as metadata documents do, for example `codecs=["zstd"]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.codecs.codec import (
        JSON,
        AnyArray,
        ArrayArrayCodec,
        ArrayBytesCodec,
        ArraySpec,
        BytesBytesCodec,
        Codec,
        Region,
    )
    from aiozarr.codecs.registry import get_codec, register_codec
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".codec": "JSON AnyArray ArrayArrayCodec ArrayBytesCodec ArraySpec BytesBytesCodec Codec Region",
            ".registry": "get_codec register_codec",
        },
    )

__all__ = [
    "JSON",
    "AnyArray",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "BytesBytesCodec",
    "Codec",
    "Region",
    "get_codec",
    "register_codec",
]
