"""Index domains: per dimension a range of indices, whose bounds may be implicit, and a label (TensorStore)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiozarr.driver.json_members import (
    JSON,
    MAX_INDEX,
    Members,
    Parse,
    SpecConflictError,
    integer,
    invalid,
    ranked,
    text,
)
from aiozarr.driver.json_members import rank as parse_rank

INFINITY = MAX_INDEX + 1
"""Stands for an unbounded end: `-INFINITY` below and `INFINITY` above."""

Bound: TypeAlias = tuple[int, bool]
"""A bound, and whether it is implicit, which means that it follows the shape of the array when that is resized."""


@dataclass(frozen=True)
class Dimension:
    """The range of indices of one dimension.

    Attributes:
        inclusive_min: the first index; `-INFINITY` if unbounded.
        exclusive_max: the index after the last one; `INFINITY` if unbounded.
        label: the name; "" for none.
        implicit_lower: True if the lower bound follows a resize.
        implicit_upper: True if the upper bound follows a resize.
    """

    inclusive_min: int = -INFINITY
    exclusive_max: int = INFINITY
    label: str = ""
    implicit_lower: bool = True
    implicit_upper: bool = True

    @property
    def size(self) -> int:
        """Number of indices; meaningless if `is_finite` is false."""
        return self.exclusive_max - self.inclusive_min

    @property
    def is_finite(self) -> bool:
        """True if both ends are bounded."""
        return self.inclusive_min > -INFINITY and self.exclusive_max < INFINITY

    def __contains__(self, index: int) -> bool:
        return self.inclusive_min <= index < self.exclusive_max


@dataclass(frozen=True)
class IndexDomain:
    """The indices of a view, with a `Dimension` for each dimension."""

    dimensions: tuple[Dimension, ...]

    @classmethod
    def of_shape(cls, shape: Sequence[int], labels: Sequence[str] | None = None) -> IndexDomain:
        """Return the domain of a stored array: from 0, with implicit upper bounds."""
        names = labels if labels is not None else [""] * len(shape)
        return cls(tuple([Dimension(0, n, name, False, True) for n, name in zip(shape, names, strict=True)]))

    @classmethod
    def parse(cls, value: JSON, path: str) -> IndexDomain:
        """Parse an index domain from JSON."""
        with Members(value, path) as members:
            return cls.take(members)

    @classmethod
    def take(cls, members: Members, prefix: str = "") -> IndexDomain:
        """Parse an index domain from these members, which have the prefix `input_` in an index transform.

        Raises:
            InvalidSpecError: a member is not valid, or no member determines the rank.
        """
        count: int | None = members.take(prefix + "rank", parse_rank, None)
        low = members.take(prefix + "inclusive_min", _bounds("-inf", -INFINITY), None)
        names = ("shape", "inclusive_max", "exclusive_max")
        ends = {name: members.take(prefix + name, _bounds("+inf", INFINITY), None) for name in names}
        labels = members.take(prefix + "labels", parse_labels, None)
        given = {name: each for name, each in ends.items() if each is not None}
        if len(given) > 1:
            raise invalid(members.at(prefix + min(given)), f"at most one of {', '.join(given)} is allowed")
        kind, uppers = next(iter(given.items()), ("exclusive_max", None))
        ranks = {len(each) for each in (low, labels, uppers) if each is not None}
        if count is not None:
            ranks.add(count)
        if len(ranks) != 1:
            reason = f"the members have different ranks: {sorted(ranks)}" if ranks else "the rank is unknown"
            raise invalid(members.path, reason)
        (rank,) = ranks
        # With a shape, indices count from 0; without one, the lower bound is that of the array.
        lowest = (0, False) if "shape" in given else (-INFINITY, True)
        columns = zip(
            low or (lowest,) * rank, uppers or ((INFINITY, True),) * rank, labels or ("",) * rank, strict=True
        )
        return cls(tuple([_dimension(kind, *column, members.at(prefix + kind)) for column in columns]))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def origin(self) -> tuple[int, ...]:
        """The first index of each dimension."""
        return self.inclusive_min

    @property
    def inclusive_min(self) -> tuple[int, ...]:
        """The first index of each dimension."""
        return tuple([each.inclusive_min for each in self.dimensions])

    @property
    def exclusive_max(self) -> tuple[int, ...]:
        """The index after the last one of each dimension."""
        return tuple([each.exclusive_max for each in self.dimensions])

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of indices of each dimension."""
        return tuple([each.size for each in self.dimensions])

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each dimension; "" for none."""
        return tuple([each.label for each in self.dimensions])

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension follows a resize."""
        return tuple([each.implicit_lower for each in self.dimensions])

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension follows a resize."""
        return tuple([each.implicit_upper for each in self.dimensions])

    @property
    def is_finite(self) -> bool:
        """True if all dimensions are bounded."""
        return all(each.is_finite for each in self.dimensions)

    def __getitem__(self, dimension: int) -> Dimension:
        return self.dimensions[dimension]

    def __len__(self) -> int:
        return len(self.dimensions)

    def to_json(self, prefix: str = "") -> dict[str, JSON]:
        """Return the JSON of the domain; `prefix` is put before the names of members."""
        if not self.dimensions or all(each == Dimension() for each in self.dimensions):
            return {prefix + "rank": self.rank}
        found: dict[str, JSON] = {}
        if any(not each.implicit_upper or each.exclusive_max < INFINITY for each in self.dimensions):
            found[prefix + "exclusive_max"] = list(map(_bound_json, self.exclusive_max, self.implicit_upper_bounds))
        found[prefix + "inclusive_min"] = list(map(_bound_json, self.inclusive_min, self.implicit_lower_bounds))
        if any(self.labels):
            found[prefix + "labels"] = list(self.labels)
        return found

    def merged(self, other: IndexDomain, member: str) -> IndexDomain:
        """Return the domain that satisfies both domains. Explicit bounds must be equal, and replace implicit bounds.

        Labels must be equal, or one of them must be "".

        Raises:
            SpecConflictError: no domain satisfies both.
        """
        conflict = SpecConflictError(
            f"the domains {self} and {other} differ", member=member, expected=self.to_json(), found=other.to_json()
        )
        if self.rank != other.rank:
            raise conflict
        merged: list[Dimension] = []
        for a, b in zip(self.dimensions, other.dimensions, strict=True):
            lower = _merged_bound((a.inclusive_min, a.implicit_lower), (b.inclusive_min, b.implicit_lower))
            upper = _merged_bound((a.exclusive_max, a.implicit_upper), (b.exclusive_max, b.implicit_upper))
            if lower is None or upper is None or (a.label and b.label and a.label != b.label):
                raise conflict
            merged.append(Dimension(lower[0], upper[0], a.label or b.label, lower[1], upper[1]))
        return IndexDomain(tuple(merged))

    def with_labels(self, labels: Sequence[str]) -> IndexDomain:
        """Return the domain with other labels."""
        dimensions = [replace(each, label=label) for each, label in zip(self.dimensions, labels, strict=True)]
        return IndexDomain(tuple(dimensions))

    def resizable(self) -> IndexDomain:
        """Return the domain with explicit lower and implicit upper bounds, as stored arrays have them."""
        dimensions = [replace(each, implicit_lower=False, implicit_upper=True) for each in self.dimensions]
        return IndexDomain(tuple(dimensions))

    def __str__(self) -> str:
        return "{ " + ", ".join([_shown(each) for each in self.dimensions]) + " }"


def _shown(each: Dimension) -> str:
    low = "-inf" if each.inclusive_min <= -INFINITY else each.inclusive_min
    high = "+inf" if each.exclusive_max >= INFINITY else each.exclusive_max
    label = f'"{each.label}": ' if each.label else ""
    return f"{label}[{low}{'*' * each.implicit_lower}, {high}{'*' * each.implicit_upper})"


def parse_labels(value: JSON, path: str) -> tuple[str, ...]:
    """Return one label per dimension; labels other than "" are unique."""
    labels = ranked(value, path, text)
    if (repeated := repeated_label(labels)) is not None:
        raise invalid(path, f"the label {repeated!r} is not unique")
    return labels


def repeated_label(labels: Sequence[str]) -> str | None:
    """Return a label that two dimensions share, or None."""
    named = [label for label in labels if label]
    return next((label for i, label in enumerate(named) if label in named[:i]), None)


def _bounds(infinite: str, infinity: int) -> Parse[tuple[Bound, ...]]:
    return lambda value, path: ranked(value, path, lambda each, where: _bound(each, where, infinite, infinity))


def _bound(value: JSON, path: str, infinite: str, infinity: int) -> Bound:
    implicit = False
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise invalid(path, "an implicit bound must be an array with one number")
        value, implicit = value[0], True
    if value == infinite:
        return infinity, implicit
    return integer(value, path), implicit


def _dimension(kind: str, lower: Bound, upper: Bound, label: str, path: str) -> Dimension:
    end = upper[0]
    if kind == "shape" and end < INFINITY:
        end = max(-INFINITY, lower[0]) + end if lower[0] > -INFINITY else end
    elif kind == "inclusive_max" and end < INFINITY:
        end += 1
    if end < lower[0]:
        raise invalid(path, f"the range [{lower[0]}, {end}) ends before it starts")
    return Dimension(lower[0], end, label, lower[1], upper[1])


def _bound_json(value: int, implicit: bool) -> JSON:
    shown: Any = "-inf" if value <= -INFINITY else "+inf" if value >= INFINITY else value
    return [shown] if implicit else shown


def _merged_bound(a: Bound, b: Bound) -> Bound | None:
    """Return the bound that satisfies both, or None."""
    for one, other in ((a, b), (b, a)):
        if one[1] and abs(one[0]) >= INFINITY:
            return other
    return (a[0], a[1] and b[1]) if a[0] == b[0] else None
