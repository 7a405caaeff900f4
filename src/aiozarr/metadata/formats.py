"""Which format a node is stored in is decided here, and nowhere else: its documents to the model and back."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import Buffer

from aiozarr.errors import LimitError, MetadataError
from aiozarr.metadata.document import load_document
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.metadata.v3 import KEY as V3_KEY
from aiozarr.metadata.v3 import parse_v3, render_v3
from aiozarr.settings import DEFAULT_SETTINGS, Settings

PROBE_KEYS: tuple[str, ...] = (V3_KEY,)
"""The keys, relative to a node, whose documents tell what it is; they are fetched at once."""

OTHER_KEYS: dict[str, int] = {".zarray": 2, ".zgroup": 2, "meta": 1}
"""Documents of formats that are not read yet, and their format: what holds one is no implicit group."""


def parse_node(
    documents: Mapping[str, Buffer | None], *, node: str, settings: Settings = DEFAULT_SETTINGS
) -> ArrayMetadata | GroupMetadata | None:
    """Return what the documents say of a node; None where there is none of them.

    Args:
        documents: by key relative to the node, for each of `PROBE_KEYS`; None where nothing is stored.
        node: the node's URL or path, for errors.
        settings: `max_metadata_bytes` and `strict` are looked at.

    Raises:
        InvalidMetadataError: with node, key and, where there is one, member.
        UnsupportedMetadataError: as above.
        LimitError: a document is larger than `max_metadata_bytes`.
    """
    data = documents.get(V3_KEY)
    if data is None:
        return None
    try:
        return parse_v3(load_document(data, max_bytes=settings.max_metadata_bytes), settings)
    except MetadataError as error:
        error.node, error.key = node, V3_KEY
        raise
    except LimitError as error:
        raise LimitError(
            f"{error.message} (node {node}, key {V3_KEY!r})",
            limit=error.limit,
            value=error.value,
            allowed=error.allowed,
        ) from None


def render_node(metadata: ArrayMetadata | GroupMetadata) -> dict[str, bytes]:
    """Return the documents of a node by key relative to it; the same metadata give the same bytes.

    Raises:
        TypeError: an attribute is no JSON value.
        InvalidMetadataError: an attribute cannot be written as JSON: NaN, an infinity, a lone surrogate, too deep.
    """
    return {V3_KEY: render_v3(metadata)}
