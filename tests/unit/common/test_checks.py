"""Checks of members: each wrong value ends in the error of its kind of document, with its path and the reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from aiozarr.common.checks import Checks

checks = Checks(lambda path, expected, value, error: error(f"{path} must be {expected}, not {value!r}"))


@pytest.mark.parametrize(
    ("check", "value", "error", "text"),
    [
        (lambda v, p: checks.integer(v, p, 0, 9), True, TypeError, "an integer from 0 to 9"),
        (lambda v, p: checks.integer(v, p, 0, 9), 1.0, TypeError, "an integer from 0 to 9"),
        (lambda v, p: checks.integer(v, p, 0, 9), 10, ValueError, "an integer from 0 to 9"),
        (lambda v, p: checks.integer(v, p, 1), 0, ValueError, "an integer of at least 1"),
        (lambda v, p: checks.integers(v, p, 1), [1, True], ValueError, "a list of integers of at least 1"),
        (lambda v, p: checks.integers(v, p, 1), "12", TypeError, "a list of integers of at least 1"),
        (checks.number, False, TypeError, "a number"),
        (lambda v, p: checks.number(v, p, "positive", lambda it: it > 0), math.nan, ValueError, "positive"),
        (checks.boolean, 1, TypeError, "true or false"),
        (checks.text, 1, TypeError, "a string"),
        (checks.text, "\ud800", ValueError, "valid Unicode"),
        (lambda v, p: checks.one_of(v, p, ("a", 3)), "b", ValueError, "one of 'a', 3"),
        (lambda v, p: checks.one_of(v, p, (1,)), True, ValueError, "one of 1"),
        (checks.mapping, [], TypeError, "an object"),
    ],
)
def test_a_wrong_value_is_refused(
    check: Callable[[Any, str], object], value: object, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"^codecs.level must be {text}"):
        check(value, "codecs.level")


def test_a_valid_value_is_returned_as_it_is() -> None:
    assert (checks.integer(9, "", 0, 9), checks.number(math.inf, ""), checks.text("é", "")) == (9, math.inf, "é")
    assert (checks.integers([1, 2], "", 1), checks.mapping({"a": 1}, "")) == ((1, 2), {"a": 1})
    one = checks.one_of(3.0, "", ("a", 3))
    assert (one, type(one)) == (3, int)
