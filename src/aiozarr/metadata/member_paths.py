"""Translation of member paths of the model to member paths of the stored document, for error messages."""

from __future__ import annotations

import re

from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.metadata.v2_encoding import ELEMENTS

_CODEC_PATH = re.compile(r"codecs\[([0-9]+)\](?:\.name|\.configuration)?(.*)", re.DOTALL)
_RENAMED_MEMBERS = {"chunk_grid": "chunks", "chunk_key_encoding": "dimension_separator"}


def stored_member_path(metadata: ArrayMetadata, member: str | None) -> tuple[str, str | None]:
    """Return the key, relative to the node, of the document with `member` of the model, and the path there.

    Documents of formats 1 and 2 have no codecs: `codecs[1].configuration.level` of the model is their
    `compressor.level`.
    """
    key = rules_of(metadata.zarr_format).array_key
    if metadata.zarr_format == 3 or member is None:
        return key, member
    found = _CODEC_PATH.fullmatch(member)
    if found is None:
        return key, _RENAMED_MEMBERS.get(member.partition(".")[0], member)
    number, rest = int(found[1]), found[2].replace(".configuration.", ".")
    name = metadata.codecs[number].name if number < len(metadata.codecs) else ""
    if name == "transpose":
        return key, "order"
    if name in ("bytes", ELEMENTS) and not rest.startswith(".compressor"):
        # The type of the elements stands for the codec `bytes`.
        return key, rest.removeprefix(".") if name == ELEMENTS and rest else "dtype"
    rest = rest.removeprefix(".compressor")
    if metadata.zarr_format == 2:
        return key, f"compressor{rest}"
    return key, f"compression_opts{rest}" if rest.removeprefix(".id") else "compression"
