"""Checks of the members of codec configurations. Each error names the member."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Self

from aiozarr.codecs.core.codec import JSON, Codec
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError


def check_members(configuration: Mapping[str, Any], known: Collection[str], *, name: str) -> None:
    """Check that `configuration` has no unknown member that must be understood.

    Raises:
        UnsupportedMetadataError: a member is not in `known` and does not say `"must_understand": false`.
    """
    for key, value in configuration.items():
        if key not in known and not (isinstance(value, Mapping) and value.get("must_understand") is False):
            raise UnsupportedMetadataError(
                f"codec {name!r} has no member {key!r}", member=f"configuration.{key}", point="codec", name=name
            )


def required(configuration: Mapping[str, Any], key: str) -> Any:
    """Return the required member `key`."""
    if key not in configuration:
        raise invalid(key, "it is required")
    return configuration[key]


def integer(configuration: Mapping[str, Any], key: str, least: int, most: int) -> int:
    """Return the required member `key`, an integer from `least` to `most`."""
    value = required(configuration, key)
    if not is_integer(value) or not least <= value <= most:
        raise invalid(key, f"it must be an integer from {least} to {most}, not {short(value)}")
    return int(value)


def one_of(configuration: Mapping[str, Any], key: str, allowed: Collection[str]) -> str:
    """Return the required member `key`, one of the strings `allowed`."""
    value = required(configuration, key)
    if not isinstance(value, str) or value not in allowed:
        raise invalid(key, f"it must be one of {', '.join(map(repr, allowed))}, not {short(value)}")
    return value


def integers(configuration: Mapping[str, Any], key: str, least: int, most: int) -> tuple[int, ...]:
    """Return the required member `key`, a list of integers from `least` to `most`."""
    value = required(configuration, key)
    if not isinstance(value, (list, tuple)) or not all(is_integer(item) and least <= item <= most for item in value):
        raise invalid(key, f"it must be a list of integers from {least} to {most}, not {short(value)}")
    return tuple(value)


def is_integer(value: object) -> bool:
    """Return whether `value` is an integer of a JSON document. `true` and `false` are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def invalid(key: str, reason: str) -> InvalidMetadataError:
    """Return the error for an invalid member `key`."""
    return InvalidMetadataError(f"not a valid codec configuration: {reason}", member=f"configuration.{key}")


def short(value: object) -> str:
    """Return a representation of `value` of at most 60 characters, for messages."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class UnconfiguredCodec(Codec):
    """A codec without a configuration. List it before the codec's kind among the bases of a class."""

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, (), name=cls.name)
        return cls()

    def to_json(self) -> dict[str, JSON]:
        return {}
