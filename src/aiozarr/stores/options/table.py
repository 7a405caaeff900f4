"""How options are named: by us, by fsspec's file systems and by obstore; a table for each kind of store says it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from numbers import Integral, Real
from typing import Any, Literal

Kind = Literal["text", "words", "flag", "seconds", "count", "mapping", "any"]
"""What a value must be: a str without blanks, any str, a bool, a number or an int above 0, a mapping, anything.

Seconds are also a timedelta, or a duration as obstore writes it (`"1min 30s"`)."""

_LONGEST = 1e9
"""Seconds; some thirty years. Timers fail beyond."""

_YES = frozenset({"true", "1", "yes", "on"})
_TRUE = _YES | {"requester"}
_FALSE = frozenset({"false", "0", "no", "off", ""})

_SPAN = re.compile(r"(\d+)\s*([A-Za-z]+)\s*")
_UNITS = {
    1e-9: ("nsec", "ns"),
    1e-6: ("usec", "us"),
    1e-3: ("millis", "msec", "ms"),
    1: ("seconds", "second", "secs", "sec", "s"),
    60: ("minutes", "minute", "mins", "min", "m"),
    3600: ("hours", "hour", "hrs", "hr", "h"),
    86400: ("days", "day", "d"),
}
_SECONDS_OF = {unit: seconds for seconds, units in _UNITS.items() for unit in units}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind of store.

    Attributes:
        name: our name of it.
        kind: what its value must be.
        fsspec: other names that fsspec's file system has for it. The first is the one it is handed over by; where there
            is none, it is handed over by our name. A name with dots is a member of mappings: `client_kwargs.verify`.
        obstore: other names that obstore has for it, without the prefix of the cloud.
        ours_only: fsspec's file system has nothing like it.
        spelled: our values in the words of fsspec's file system, where those differ.
        about: what it does, in a line of the documentation.
    """

    name: str
    kind: Kind = "text"
    fsspec: tuple[str, ...] = ()
    obstore: tuple[str, ...] = ()
    ours_only: bool = False
    spelled: Mapping[Any, str] = field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Options of fsspec's file system or obstore's store that are no option here, and why.

    Attributes:
        names: their names, as in an `Option`.
        why: why they change nothing, or what to use in their place, in a line of the documentation.
        only: the values that are taken, because they are what is done anyway; None: any value is, and changes nothing.
            Other values are refused. What is empty is always taken.
    """

    names: tuple[str, ...]
    why: str
    only: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The options of one kind of store.

    Attributes:
        store: how messages speak of it, as in "an S3 store".
        options: all options, in the order in which messages list them.
        prefixes: what names may begin with besides, as obstore's: `aws_`.
        nested: options of fsspec's file system or of obstore's stores that are mappings of further options.
        without_effect: options of fsspec's file system that steer what is steered otherwise here (caches of listings,
            block sizes, loops); they are taken, whatever their value, and change nothing.
        foreign: other options of theirs that change nothing, or are refused.
    """

    store: str
    options: tuple[Option, ...]
    prefixes: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()
    foreign: tuple[Foreign, ...] = ()

    def translate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given under our names. An option that is None counts as not given.

        Raises:
            TypeError: an unknown option, one that cannot be followed, or a value of the wrong type; the message says
                what to use, or lists the known options.
            ValueError: one option is given twice with different values, or holds what cannot be sent.
        """
        by_name, foreign = self._by_name(), self._foreign_by_name()
        found: dict[str, Any] = {}
        for name, value in self._flat(given, by_name.keys() | foreign.keys()):
            option = by_name.get(name) or by_name.get(self._plain(name))
            if option is None:
                other = foreign.get(name) or foreign.get(self._plain(name))
                if other is None:
                    raise self._unknown(name)
                _refuse_unless_idle(name, other, value)
                continue
            value = _in_our_words(option, value)
            if value is None:
                continue
            value = _checked(option, value)
            before = found.setdefault(option.name, value)
            if before is not value and before != value:
                raise ValueError(f"the storage option {option.name!r} is given twice, with different values")
        return found

    def to_fsspec(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return `given` with our and obstore's names of options in the words of fsspec's file system.

        What is no option of ours is handed over as it is: the file system knows more than the table does.

        Raises:
            TypeError: a value of the wrong type, or an option that the file system has nothing for.
            ValueError: as `translate`.
        """
        theirs = {name for option in self.options for name in option.fsspec}
        by_name = self._by_name()
        native: dict[str, Any] = {}
        ours: dict[str, Any] = {}
        for name, value in given.items():
            option = (
                None if name in theirs or name in self.nested else by_name.get(name) or by_name.get(self._plain(name))
            )
            if option is None:
                native[name] = value
            elif option.ours_only:
                raise TypeError(f"fsspec's file system has nothing for the storage option {name!r}")
            elif value is not None:
                value = _checked(option, value)
                spelled = option.spelled.get(value, value) if option.spelled else value
                ours[option.fsspec[0] if option.fsspec else option.name] = spelled
        for name, value in ours.items():
            _place(native, name, value, name)
        return native

    def knows(self, name: str) -> bool:
        """Return whether `name` is one of ours, of fsspec's or of obstore's."""
        by_name = self._by_name()
        return name in self.nested or name in by_name or self._plain(name) in by_name

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return tuple(option.name for option in self.options)

    def _by_name(self) -> dict[str, Option]:
        return {name: option for option in self.options for name in (option.name, *option.fsspec, *option.obstore)}

    def _foreign_by_name(self) -> dict[str, Foreign]:
        idle = (Foreign(self.without_effect, "it is steered otherwise here"), *self.foreign)
        return {name: foreign for foreign in idle for name in foreign.names}

    def _plain(self, name: str) -> str:
        """Return a name of obstore's without prefix and capitals."""
        plain = name.lower()
        for prefix in self.prefixes:
            if plain.startswith(prefix):
                return plain.removeprefix(prefix)
        return plain

    def _flat(self, given: Mapping[str, Any], known: frozenset[str] | set[str]) -> Iterator[tuple[str, Any]]:
        """Iterate over the options, and over the members of those that are mappings of options."""
        for name, value in given.items():
            if name not in self.nested:
                yield name, value
            elif isinstance(value, Mapping):
                for inner, each in value.items():
                    if not isinstance(inner, str):
                        raise TypeError(f"the storage option {name!r} has a member that is no str")
                    dotted = f"{name}.{inner}"
                    if dotted in self.nested:
                        yield from self._flat({dotted: each}, known)
                    else:
                        yield (dotted if dotted in known else inner), each
            elif value is not None:
                raise TypeError(f"the storage option {name!r} is a mapping")

    def _unknown(self, name: str) -> TypeError:
        return TypeError(f"unknown storage option {name!r}; {self.store} knows {', '.join(self.names)}")


def _place(into: dict[str, Any], name: str, value: Any, path: str) -> None:
    outer, dot, inner = name.partition(".")
    if dot:
        members = into[outer] = dict(into.get(outer) or {})
        _place(members, inner, value, path)
    elif into.setdefault(outer, value) != value:
        raise ValueError(f"the storage option {path!r} is given twice, with different values")


def _refuse_unless_idle(name: str, foreign: Foreign, value: object) -> None:
    if foreign.only is None or any(value is idle for idle in (None, *foreign.only)):
        return
    with suppress(Exception):  # whatever a value of somebody else's, such as an array, makes of a comparison
        if not value or value in foreign.only:
            return
    raise TypeError(f"the storage option {name!r} cannot be followed: {foreign.why}")


def _in_our_words(option: Option, value: object) -> object:
    if isinstance(value, str):
        for ours, theirs in option.spelled.items():
            if value == theirs:
                return ours
    return value


def _checked(option: Option, value: object) -> object:
    name = option.name
    match option.kind:
        case "flag":
            return as_bool(name, value)
        case "seconds":
            return _as_seconds(name, value)
        case "count":
            number = int(value) if isinstance(value, Integral) and not _is_bool(value) else 0
            if number <= 0:
                raise TypeError(f"the storage option {name!r} is a whole number above 0")
            return number
        case "mapping":
            if not isinstance(value, Mapping):
                raise TypeError(f"the storage option {name!r} is a mapping")
        case "text" | "words":
            if not isinstance(value, str):
                raise TypeError(f"the storage option {name!r} is a str, not {type(value).__name__}")
            if option.kind == "text" and any(ord(character) <= 0x20 or ord(character) == 0x7F for character in value):
                raise ValueError(f"the storage option {name!r} holds blanks or control characters")
        case "any":
            pass
    return value


def as_bool(name: str, value: object) -> bool:
    """Return the bool that `value` is, or says.

    Raises:
        TypeError: it says none.
    """
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise TypeError(f"the storage option {name!r} is a bool")


def is_set(environ: Mapping[str, str], name: str) -> bool:
    """Return whether a variable of the environment says yes."""
    return environ.get(name, "").lower() in _YES


def _is_bool(value: object) -> bool:
    """Return whether a number is a bool, which counts as none here."""
    return isinstance(value, bool)


def _as_seconds(name: str, value: object) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, str) and re.fullmatch(f"(?:{_SPAN.pattern})+", value):
        spans = _SPAN.findall(value)
        value = sum(int(number) * _SECONDS_OF.get(unit, 0) for number, unit in spans)
    seconds = float(value) if isinstance(value, Real) and not _is_bool(value) else 0.0
    if not 0 < seconds < _LONGEST:
        raise TypeError(f"the storage option {name!r} is a number of seconds above 0")
    return seconds
