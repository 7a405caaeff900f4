"""The data types of aiozarr. Importing a module registers its types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.metadata.data_types.byte_strings import BytesType, NullTerminatedBytesType, RawType
    from aiozarr.metadata.data_types.number_types import BoolType, ComplexType, FloatType, IntegerType
    from aiozarr.metadata.data_types.python_objects import ObjectType
    from aiozarr.metadata.data_types.struct import StructField, StructType
    from aiozarr.metadata.data_types.text import FixedLengthTextType, StringType
    from aiozarr.metadata.data_types.times import TimeType
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".byte_strings": "BytesType NullTerminatedBytesType RawType",
            ".number_types": "BoolType ComplexType FloatType IntegerType",
            ".python_objects": "ObjectType",
            ".struct": "StructField StructType",
            ".text": "FixedLengthTextType StringType",
            ".times": "TimeType",
        },
    )

__all__ = [
    "BoolType",
    "BytesType",
    "ComplexType",
    "FixedLengthTextType",
    "FloatType",
    "IntegerType",
    "NullTerminatedBytesType",
    "ObjectType",
    "RawType",
    "StringType",
    "StructField",
    "StructType",
    "TimeType",
]
