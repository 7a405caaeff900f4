"""The data types of aiozarr. Importing this package registers them."""

from aiozarr.metadata.data_types.byte_strings import BytesType, NullTerminatedBytesType
from aiozarr.metadata.data_types.complexes import ComplexType
from aiozarr.metadata.data_types.floats import FloatType
from aiozarr.metadata.data_types.integers import BoolType, IntegerType
from aiozarr.metadata.data_types.python_objects import ObjectType
from aiozarr.metadata.data_types.raw import RawType
from aiozarr.metadata.data_types.struct import StructField, StructType
from aiozarr.metadata.data_types.text import FixedLengthTextType, StringType
from aiozarr.metadata.data_types.times import TimeType

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
