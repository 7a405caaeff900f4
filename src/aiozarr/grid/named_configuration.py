"""The `configuration` member of chunk grids and chunk key encodings (v3 core specification, "Extension points")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from aiozarr.errors import UnsupportedMetadataError


class NamedConfiguration(Protocol):
    """An extension in a metadata document: its name and its configuration."""

    @property
    def name(self) -> str:
        """The name in the registry of its extension point."""
        ...

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The `configuration` member; empty if the document has none."""
        ...


def check_members(configuration: Mapping[str, Any], known: Collection[str], *, point: str, name: str) -> None:
    """Check that `configuration` has no unknown member that a reader must understand.

    Raises:
        UnsupportedMetadataError: a member is not in `known` and has no `"must_understand": false`.
    """
    for key, value in configuration.items():
        if key not in known and not (isinstance(value, dict) and value.get("must_understand") is False):
            member = f"{point}.configuration.{key}"
            raise UnsupportedMetadataError(f"{name!r} has no member {key!r}", member=member, point=point, name=name)
