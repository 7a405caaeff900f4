"""Storage options under names of protocols, as fsspec has them for chains of URLs."""

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
    """Return all names of the protocol `scheme`."""
    return next((names for names in _SAME if scheme in names), frozenset({scheme}))


def flatten(scheme: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` with the options under the protocol `scheme` moved to the top level.

    `{"s3": {"anon": True}}` is `{"anon": True}` for `s3://` URLs. Options of other protocols stay under their names.

    Raises:
        TypeError: the value of the protocol is not a mapping.
        ValueError: an option is given in both places, with different values.
    """
    options = dict(given)
    for name in same_protocols(scheme):
        for option, value in _mapping(name, options.pop(name, None)).items():
            if options.setdefault(option, value) != value:
                raise ValueError(f"the storage option {option!r} is given twice, with different values")
    return options


def pick(scheme: str, names: tuple[str, ...], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the link `scheme` of a chain, and the options for the links after it.

    Its options are those under its protocol, and those of `names` at the top level, which no later link knows.

    Raises:
        TypeError: the value of the protocol is not a mapping, or contains an option that is not in `names`.
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
