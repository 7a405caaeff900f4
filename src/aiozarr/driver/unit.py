"""Units of dimensions: a multiplier and a base unit, such as 4 nm (TensorStore's `Unit`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aiozarr.common.formatting import shown
from aiozarr.driver.json_members import JSON, SpecConflictError, array, invalid, number, ranked, text

_MULTIPLIER = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Unit:
    """A unit, such as 4 nm.

    Attributes:
        multiplier: how many base units.
        base: the base unit; "" for numbers without one. It is compared as text and never converted.
    """

    multiplier: float
    base: str

    @classmethod
    def parse(cls, value: JSON, path: str) -> Unit:
        """Return the unit of `"4 nm"`, `4` or `[4, "nm"]`.

        Raises:
            InvalidSpecError: it is none of these.
        """
        if isinstance(value, str):
            return cls.parse_text(value, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return cls(number(value, path), "")
        pair = array(value, path)
        if len(pair) != 2:
            raise invalid(path, f"expected a multiplier and a base unit, not {shown(value)}")
        multiplier = number(pair[0], f"{path}[0]")
        if multiplier <= 0:
            raise invalid(f"{path}[0]", f"a multiplier is more than 0, not {shown(multiplier)}")
        return cls(multiplier, text(pair[1], f"{path}[1]").strip())

    @classmethod
    def parse_text(cls, value: JSON, path: str) -> Unit:
        """Return the unit of `"4 nm"`, the form in metadata documents."""
        found = _MULTIPLIER.fullmatch(text(value, path))
        assert found is not None
        return cls(float(found[1] or 1), found[2].strip())

    def to_json(self) -> list[JSON]:
        """Return `[4.0, "nm"]`, the form in schemas."""
        return [float(self.multiplier), self.base]

    def __str__(self) -> str:
        if self.multiplier == 1:
            return self.base or "1"
        return f"{self.multiplier:.6g} {self.base}".rstrip()


Units = tuple[Unit | None, ...]


def parse_units(value: JSON, path: str) -> Units:
    """Return one unit, or None, per dimension, of the `dimension_units` of a schema."""
    return ranked(value, path, lambda each, where: None if each is None else Unit.parse(each, where))


def parse_stored_units(value: JSON, path: str) -> Units:
    """Return one unit, or None, per dimension, of the `dimension_units` in attributes, which are strings."""
    return ranked(value, path, lambda each, where: None if each is None else Unit.parse_text(each, where))


def render_units(units: Sequence[Unit | None]) -> list[str | None]:
    """Return the form in attributes."""
    return [None if unit is None else str(unit) for unit in units]


def merge_units(a: Units | None, b: Units | None) -> Units | None:
    """Return the units that satisfy those of a document and those of a schema; None is compatible with every unit.

    Raises:
        SpecConflictError: two units of one dimension differ.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        raise SpecConflictError(
            f"the units {render_units(a)} and {render_units(b)} differ",
            member="schema.dimension_units",
            expected=render_units(b),
            found=render_units(a),
        )
    return tuple([y if x is None else x for x, y in zip(a, b, strict=True)])
