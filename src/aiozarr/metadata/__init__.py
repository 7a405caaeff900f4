"""Metadata documents of every format, and the one model they are read into."""

from aiozarr.metadata.data_type import DataType, register_data_type
from aiozarr.metadata.data_types import (
    BytesType,
    ObjectType,
    StringType,
    StructType,
)
from aiozarr.metadata.fill_value import make_fill_value, parse_fill_value, render_fill_value
from aiozarr.metadata.formats import OTHER_KEYS, PROBE_KEYS, parse_node, render_node
from aiozarr.metadata.names import check_node_name, check_path
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata, NamedConfig

__all__ = [
    "OTHER_KEYS",
    "PROBE_KEYS",
    "ArrayMetadata",
    "BytesType",
    "DataType",
    "GroupMetadata",
    "NamedConfig",
    "ObjectType",
    "StringType",
    "StructType",
    "check_node_name",
    "check_path",
    "make_fill_value",
    "parse_fill_value",
    "parse_node",
    "register_data_type",
    "render_fill_value",
    "render_node",
]
