"""Metadata documents of Zarr v1, v2 and v3, and the one model for all three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.metadata.data_type import DataType, register_data_type
    from aiozarr.metadata.data_types import (
        BytesType,
        ObjectType,
        StringType,
        StructType,
    )
    from aiozarr.metadata.format_rules import FormatRules, document_write_order, rules_of
    from aiozarr.metadata.formats import (
        DOCUMENT_KEYS,
        PROBE_KEYS,
        consolidate,
        consolidated_node,
        is_document,
        likely_keys,
        node_keys,
        parse_node,
        probe_keys,
        render_node,
    )
    from aiozarr.metadata.names import check_new_path, check_node_name, check_path, normalize_path
    from aiozarr.metadata.other_format import (
        as_v3,
        attributes_in_format,
        attributes_without_names,
        encoding_in_v2,
        v3_codecs,
    )
    from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata, NamedConfig, with_dimension_names
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".data_type": "DataType register_data_type",
            ".data_types": "BytesType ObjectType StringType StructType",
            ".format_rules": "FormatRules document_write_order rules_of",
            ".formats": (
                "DOCUMENT_KEYS PROBE_KEYS consolidate consolidated_node is_document likely_keys node_keys parse_node "
                "probe_keys render_node"
            ),
            ".names": "check_new_path check_node_name check_path normalize_path",
            ".other_format": "as_v3 attributes_in_format attributes_without_names encoding_in_v2 v3_codecs",
            ".records": "ArrayMetadata Consolidated GroupMetadata NamedConfig with_dimension_names",
        },
    )

__all__ = [
    "DOCUMENT_KEYS",
    "PROBE_KEYS",
    "ArrayMetadata",
    "BytesType",
    "Consolidated",
    "DataType",
    "FormatRules",
    "GroupMetadata",
    "NamedConfig",
    "ObjectType",
    "StringType",
    "StructType",
    "as_v3",
    "attributes_in_format",
    "attributes_without_names",
    "check_new_path",
    "check_node_name",
    "check_path",
    "consolidate",
    "consolidated_node",
    "document_write_order",
    "encoding_in_v2",
    "is_document",
    "likely_keys",
    "node_keys",
    "normalize_path",
    "parse_node",
    "probe_keys",
    "register_data_type",
    "render_node",
    "rules_of",
    "v3_codecs",
    "with_dimension_names",
]
