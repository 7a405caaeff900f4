"""Where in a node's document that stands which the model calls something else: errors speak of what is stored."""

from __future__ import annotations

import re

from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.metadata.v2.codecs import ELEMENTS

_CODEC = re.compile(r"codecs\[([0-9]+)\](?:\.name|\.configuration)?(.*)", re.DOTALL)
_ELSEWHERE = {"chunk_grid": "chunks", "chunk_key_encoding": "dimension_separator"}


def document_place(metadata: ArrayMetadata, member: str | None) -> tuple[str, str | None]:
    """Return the key, relative to the node, of the document that `member` of the metadata comes from, and its place.

    Documents of formats 1 and 2 have no codecs: a `codecs[1].configuration.level` of the model is a `compressor.level`
    there.
    """
    key = rules_of(metadata.zarr_format).array_key
    if metadata.zarr_format == 3 or member is None:
        return key, member
    found = _CODEC.fullmatch(member)
    if found is None:
        return key, _ELSEWHERE.get(member.partition(".")[0], member)
    number, rest = int(found[1]), found[2].replace(".configuration.", ".")
    name = metadata.codecs[number].name if number < len(metadata.codecs) else ""
    if name == "transpose":
        return key, "order"
    if name in ("bytes", ELEMENTS) and not rest.startswith(".compressor"):
        # Of `bytes` the documents say nothing but the type of the elements.
        return key, rest.removeprefix(".") if name == ELEMENTS and rest else "dtype"
    rest = rest.removeprefix(".compressor")
    if metadata.zarr_format == 2:
        return key, f"compressor{rest}"
    return key, f"compression_opts{rest}" if rest.removeprefix(".id") else "compression"
