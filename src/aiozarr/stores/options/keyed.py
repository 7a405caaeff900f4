"""Options keyed by protocol, as fsspec has them for chains of URLs: whose options are whose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAME = (
    frozenset({"http", "https"}),
    frozenset({"gs", "gcs"}),
    frozenset({"az", "abfs", "abfss", "adl"}),
    frozenset({"s3", "s3a"}),
    frozenset({"file", "local"}),
)


def same_protocols(scheme: str) -> frozenset[str]:
    """Return all names of the protocol that `scheme` is one of."""
    return next((names for names in _SAME if scheme in names), frozenset({scheme}))


def unkeyed(scheme: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` with the options under the protocol `scheme` beside those that stand under no protocol.

    `{"s3": {"anon": True}}` is `{"anon": True}` for `s3://` URLs; what is for other links of a chain stays keyed.

    Raises:
        TypeError: what is under the protocol is no mapping.
        ValueError: an option is given in both places, with different values.
    """
    options = dict(given)
    for name in same_protocols(scheme):
        for option, value in _mapping(name, options.pop(name, None)).items():
            if options.setdefault(option, value) != value:
                raise ValueError(f"the storage option {option!r} is given twice, with different values")
    return options


def taken(scheme: str, names: tuple[str, ...], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the link `scheme` in front of another one, and the options for what lies behind it.

    Its own are those under its protocol, and of the others those of `names`, which nothing behind it knows.

    Raises:
        TypeError: what is under the protocol is no mapping, or holds what is none of `names`.
        ValueError: an option is given in both places, with different values.
    """
    rest = dict(given)
    own = dict(_mapping(scheme, rest.pop(scheme, None)))
    unknown = sorted(own.keys() - set(names))
    if unknown:
        raise TypeError(f"unknown storage options {', '.join(unknown)} under {scheme!r}: known are {', '.join(names)}")
    for name in names:
        if name in rest and own.setdefault(name, rest.pop(name)) != given[name]:
            raise ValueError(f"the storage option {name!r} is given twice, with different values")
    return own, rest


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"the storage options under {name!r} are a mapping")
    return value
