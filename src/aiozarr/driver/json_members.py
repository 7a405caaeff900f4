"""Strict reading of JSON objects: every member has a type, no member is unknown, and errors name the member's path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from aiozarr.common.checks import Checks
from aiozarr.common.formatting import clip, did_you_mean, shown
from aiozarr.errors import InvalidSpecError, SpecMismatchError

JSON: TypeAlias = Any
T = TypeVar("T")
Parse: TypeAlias = Callable[[JSON, str], T]
"""Parses a JSON value; the second argument is its path in the spec."""

MAX_RANK = 32
MAX_REASON_CHARACTERS = 2000
MAX_INDEX = (1 << 62) - 2
"""TensorStore's largest index; larger ones mean infinity."""


class Members:
    """The members of one JSON object. `take` reads one; leaving the context refuses those that were not read."""

    def __init__(self, value: JSON, path: str) -> None:
        self._rest = dict(CHECKS.mapping(value, path))
        self._known: list[str] = []
        self.path = path

    def __enter__(self) -> Members:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._refuse_unknown()

    def __contains__(self, name: str) -> bool:
        return name in self._rest

    def take(self, name: str, parse: Parse[T], default: T) -> T:
        """Return the parsed member `name`, or `default` if it is missing."""
        self._known.append(name)
        return parse(self._rest.pop(name), self.at(name)) if name in self._rest else default

    def require(self, name: str, parse: Parse[T]) -> T:
        """Return the parsed member `name`.

        Raises:
            InvalidSpecError: it is missing.
        """
        if name not in self._rest:
            raise invalid(self.at(name), "the member is missing")
        self._known.append(name)
        return parse(self._rest.pop(name), self.at(name))

    def rest(self) -> dict[str, JSON]:
        """Return the remaining members, and mark them as read."""
        found, self._rest = self._rest, {}
        return found

    def at(self, name: str) -> str:
        """Return the path of the member `name`."""
        return f"{self.path}.{name}" if self.path else name

    def _refuse_unknown(self) -> None:
        for name in self._rest:
            hint = did_you_mean(name, self._known, f"expected one of {', '.join(self._known) or '(none)'}")
            raise invalid(self.at(str(name)), f"unknown member {str(name)!r}; {hint}")


def invalid(path: str, reason: str) -> InvalidSpecError:
    """Return the error of the member at `path`."""
    # The names and values of a spec may be of any length.
    return InvalidSpecError(clip(reason, MAX_REASON_CHARACTERS), member=clip(path) or None)


CHECKS = Checks(lambda path, expected, value, _: invalid(path, f"expected {expected}, not {shown(value)}"))
boolean = CHECKS.boolean
text = CHECKS.text


def integer(value: JSON, path: str, low: int = -MAX_INDEX, high: int = MAX_INDEX) -> int:
    """Return an integer. A number without fraction, such as 100.0, is one."""
    whole = isinstance(value, float) and value.is_integer()
    return CHECKS.integer(int(value) if whole else value, path, low, high)


def number(value: JSON, path: str) -> float:
    """Return a finite number."""
    return CHECKS.number(value, path, "a finite number", lambda number: abs(number) <= sys.float_info.max)


def one_of(*allowed: JSON) -> Parse[Any]:
    """Return a parser of one of these values."""
    return lambda value, path: CHECKS.one_of(value, path, allowed)


def items(value: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    """Iterate over the items of an array, with their paths."""
    return iter([(f"{path}[{i}]", each) for i, each in enumerate(array(value, path))])


def array(value: JSON, path: str) -> Sequence[JSON]:
    """Return an array."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise invalid(path, f"expected an array, not {shown(value)}")
    return value


def ranked(value: JSON, path: str, parse: Parse[T]) -> tuple[T, ...]:
    """Return the parsed items of an array with one item per dimension."""
    parsed = tuple([parse(each, where) for where, each in items(value, path)])
    if len(parsed) > MAX_RANK:
        raise invalid(path, f"an array may have at most {MAX_RANK} dimensions, not {len(parsed)}")
    return parsed


def lengths(value: JSON, path: str, low: int = 0) -> tuple[int, ...]:
    """Return an array of integers of at least `low`, one per dimension."""
    return ranked(value, path, lambda each, where: integer(each, where, low))


def rank(value: JSON, path: str) -> int:
    """Return a number of dimensions."""
    return integer(value, path, 0, MAX_RANK)


def permutation(value: JSON, path: str) -> tuple[int, ...]:
    """Return a permutation of dimensions."""
    order = lengths(value, path)
    if sorted(order) != list(range(len(order))):
        raise invalid(path, f"expected a permutation of 0 to {len(order) - 1}, not {shown(value)}")
    return order


def as_json(value: JSON, path: str) -> JSON:
    """Return any JSON value unchanged."""
    return value


def same_json(a: JSON, b: JSON) -> bool:
    """Return whether two JSON values are the same: numbers by value, booleans as such."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_json(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_json, a, b))
    return bool(a == b)


class SpecConflictError(InvalidSpecError, SpecMismatchError):
    """Two constraints of one spec contradict each other, so no array satisfies it. Nothing was read or written."""

    def _facts(self) -> list[str]:
        return SpecMismatchError._facts(self)
