"""What codecs share whose name says all: they have no configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from aiozarr.codecs._configuration import check_members
from aiozarr.codecs.base import JSON, Codec


class UnconfiguredCodec(Codec):
    """A codec without a configuration; it stands before its kind among the bases of a class."""

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, (), name=cls.name)
        return cls()

    def to_json(self) -> dict[str, JSON]:
        return {}
