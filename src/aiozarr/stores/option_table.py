"""The names of storage options, ours and fsspec's, in a table per kind of store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from numbers import Integral, Real
from typing import Any, Literal

from aiozarr.common.checks import Checks
from aiozarr.common.formatting import did_you_mean
from aiozarr.model import is_unicode

Kind = Literal["text", "words", "flag", "seconds", "count", "mapping", "any"]
"""The type of a value: a str without blanks, any str, a bool, a number or an int above 0, a mapping, or any type.

Seconds are also a timedelta."""

_CLOUD_PREFIX = re.compile("(aws|azure_storage|azure|google|gcs)_")
"""obstore and the environment have names with prefixes, such as `AWS_ACCESS_KEY_ID`."""

_MAX_SECONDS = 1e9
"""About thirty years. Timers fail beyond."""

_YES = frozenset({"true", "1", "yes", "on"})
_TRUE = _YES | {"requester"}
_FALSE = frozenset({"false", "0", "no", "off", ""})


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind of store.

    Attributes:
        name: our name of it.
        kind: type of its value.
        fsspec: other names that fsspec's file system has for it. It is passed on by the first of them, or by our name
            if there is none. A name with dots is a member of mappings: `client_kwargs.verify`.
        obstore: other names that obstore has for it, without the prefix of the cloud. They are unknown here, and the
            error suggests our name. Options of stores of obstore are translated by them.
        ours_only: True if fsspec's file system has no such option.
        spelled: our values with the values of fsspec's file system, if they differ.
        about: one line of the documentation.
    """

    name: str
    kind: Kind = "text"
    fsspec: tuple[str, ...] = ()
    obstore: tuple[str, ...] = ()
    ours_only: bool = False
    spelled: Mapping[Any, str] = field(default_factory=dict)
    about: str = ""


def option(kind: Kind = "text", *, default: Any = None, shown: bool = True, **how: Any) -> Any:
    """Return the field of a record of given options for one `Option`, which has the name of the field.

    Args:
        kind: type of its value.
        default: its value if it is not given; a class makes a new one for each record.
        shown: False for secrets, which representations leave out.
        how: further attributes of the `Option`.
    """
    metadata = {"kind": kind, **how}
    if isinstance(default, type):
        return field(default_factory=default, repr=shown, metadata=metadata)
    return field(default=default, repr=shown, metadata=metadata)


def options_of(record: type[Any]) -> tuple[Option, ...]:
    """Return the options that are fields of a record."""
    return tuple(Option(each.name, **each.metadata) for each in fields(record) if each.metadata)


_WITHOUT_EFFECT = (
    "asynchronous batch_size default_block_size default_cache_type default_fill_cache listings_expiry_time loop "
    "max_paths skip_instance_cache use_listings_cache"
)
"""Options of fsspec's file systems for caches, block sizes and loops, which a store does not have."""


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one kind of store.

    Attributes:
        store: its name in messages, as in "an S3 store".
        options: all options, in the order of messages.
        nested: options of fsspec's file system that are mappings of further options.
        without_effect: further options of fsspec's file system that are accepted and ignored, with blanks between them.
    """

    store: str
    options: tuple[Option, ...]
    nested: tuple[str, ...] = ()
    without_effect: str = ""

    def translate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given options under our names. An option that is None counts as not given.

        Raises:
            TypeError: an unknown option, or a value of the wrong type. The message has the nearest known option.
            ValueError: one option is given twice with different values, or its value cannot be sent.
        """
        by_name = self._by_name()
        ignored = self.ignored
        found: dict[str, Any] = {}
        for name, value in self._flat(given, by_name.keys() | ignored):
            option = by_name.get(name)
            if option is None:
                if name in ignored:
                    continue
                raise self._unknown(name)
            value = _in_our_spelling(option, value)
            if value is None:
                continue
            value = _checked(option, value)
            before = found.setdefault(option.name, value)
            if before is not value and before != value:
                raise ValueError(f"the storage option {option.name!r} is given twice, with different values")
        return found

    def to_fsspec(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return `given` with our options under the names of fsspec's file system.

        Other options are passed on unchanged, because the file system may know them.

        Raises:
            TypeError: a value of the wrong type, or an option that the file system does not have.
            ValueError: as `translate`.
        """
        theirs = {name for option in self.options for name in option.fsspec}
        by_name = self._by_name()
        native: dict[str, Any] = {}
        ours: dict[str, Any] = {}
        for name, value in given.items():
            option = None if name in theirs or name in self.nested else by_name.get(name)
            if option is None:
                native[name] = value
            elif option.ours_only:
                raise TypeError(f"the fsspec file system does not support the storage option {name!r}")
            elif value is not None:
                value = _checked(option, value)
                spelled = option.spelled.get(value, value) if option.spelled else value
                ours[option.fsspec[0] if option.fsspec else option.name] = spelled
        for name, value in ours.items():
            _insert(native, name, value, name)
        return native

    def from_obstore(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a store of obstore under our names.

        Raises:
            TypeError: an option has no counterpart.
        """
        by_name = {name: option.name for option in self.options for name in (option.name, *option.obstore)}
        if unknown := given.keys() - by_name.keys():
            raise self._unknown(min(unknown))
        return {by_name[name]: value for name, value in given.items()}

    def knows(self, name: str) -> bool:
        """Return whether `name` is a name of ours or of fsspec."""
        return name in self.nested or name in self._by_name()

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return tuple(option.name for option in self.options)

    @property
    def ignored(self) -> frozenset[str]:
        """The names of all options that are accepted and ignored."""
        return frozenset(f"{_WITHOUT_EFFECT} {self.without_effect}".split())

    def _by_name(self) -> dict[str, Option]:
        return {name: option for option in self.options for name in (option.name, *option.fsspec)}

    def _flat(self, given: Mapping[str, Any], known: frozenset[str] | set[str]) -> Iterator[tuple[str, Any]]:
        """Iterate over the options, and over the members of those that are mappings of options."""
        for name, value in given.items():
            if name not in self.nested:
                yield name, value
            elif isinstance(value, Mapping):
                for inner, each in value.items():
                    if not isinstance(inner, str):
                        raise TypeError(f"a member of the storage option {name!r} is not a str")
                    dotted = f"{name}.{inner}"
                    if dotted in self.nested:
                        yield from self._flat({dotted: each}, known)
                    else:
                        yield (dotted if dotted in known else inner), each
            elif value is not None:
                raise TypeError(f"the storage option {name!r} must be a mapping")

    def _unknown(self, name: str) -> TypeError:
        plain = _CLOUD_PREFIX.sub("", name.lower())
        same = (option.name for option in self.options if plain in (option.name, *option.obstore))
        remedy = did_you_mean(next(same, name), self.names, "the reference of storage options lists all")
        return TypeError(f"unknown storage option {name!r} for {self.store}; {remedy}")


def _insert(into: dict[str, Any], name: str, value: Any, path: str) -> None:
    outer, dot, inner = name.partition(".")
    if dot:
        members = into[outer] = dict(into.get(outer) or {})
        _insert(members, inner, value, path)
    elif into.setdefault(outer, value) != value:
        raise ValueError(f"the storage option {path!r} is given twice, with different values")


def _in_our_spelling(option: Option, value: object) -> object:
    if isinstance(value, str):
        for ours, theirs in option.spelled.items():
            if value == theirs:
                return ours
    return value


# Always a TypeError, and without the value, which may be a secret.
_checks = Checks(lambda name, expected, *_: TypeError(f"the storage option {name!r} must be {expected}"))


def _checked(option: Option, value: object) -> object:
    name = option.name
    match option.kind:
        case "flag":
            return as_bool(name, value)
        case "seconds":
            return _as_seconds(name, value)
        case "count":
            # Numbers of numpy count too, and bools do not.
            count = value if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
            return _checks.check(count, name, int, "a whole number above 0", lambda number: number > 0)
        case "mapping":
            return _checks.mapping(value, name)
        case "text" | "words":
            text = _checks.check(value, name, str, "a str")
            if option.kind == "text" and any(ord(character) <= 0x20 or ord(character) == 0x7F for character in text):
                raise ValueError(f"the storage option {name!r} contains blanks or control characters")
            if not is_unicode(text):
                raise ValueError(f"the storage option {name!r} is not valid Unicode: it has a lone surrogate")
        case "any":
            pass
    return value


def as_bool(name: str, value: object) -> bool:
    """Return `value` as a bool; words such as "yes" count too.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return _checks.boolean(value, name)


def is_set(environ: Mapping[str, str], name: str) -> bool:
    """Return whether a variable of the environment is true."""
    return environ.get(name, "").lower() in _YES


def _as_seconds(name: str, value: object) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    value = value if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    return _checks.number(value, name, "a number of seconds above 0", lambda seconds: 0 < seconds < _MAX_SECONDS)


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
        raise TypeError(f"the storage options under {name!r} must be a mapping")
    return value
