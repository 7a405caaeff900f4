"""Checks that the `configuration` members of chunk grids and chunk key encodings share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from aiozarr.errors import UnsupportedMetadataError


class NamedConfiguration(Protocol):
    """An extension as a metadata document holds it: a name and its configuration."""

    @property
    def name(self) -> str:
        """The name in the registry of its extension point."""
        ...

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The `configuration` member; empty where there is none."""
        ...


def check_members(configuration: Mapping[str, Any], known: Collection[str], *, point: str, name: str) -> None:
    """Check that `configuration` has no member that could change what it means.

    Raises:
        UnsupportedMetadataError: a member that is not `known` and does not say `"must_understand": false`.
    """
    for key, value in configuration.items():
        if key not in known and not (isinstance(value, dict) and value.get("must_understand") is False):
            member = f"{point}.configuration.{key}"
            raise UnsupportedMetadataError(f"{name!r} has no member {key!r}", member=member, point=point, name=name)
