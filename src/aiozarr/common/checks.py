"""Checks of members: of documents, codec configurations, specs, storage options and settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeGuard, TypeVar

from aiozarr.model import is_unicode

T = TypeVar("T")
Reject: TypeAlias = Callable[[str, str, Any, type[Exception]], Exception]
"""Makes the error of a wrong value, as in `reject("level", "an integer from 0 to 9", 12, ValueError)`.

The arguments are the path of the value, what it must be, the value, and `TypeError` or `ValueError`.
"""


def _argument_error(path: str, expected: str, value: object, error: type[Exception]) -> Exception:
    return error(f"{path} must be {expected}, not {value!r}")


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether `value` is an integer of a JSON document. `true` and `false` are not."""
    return isinstance(value, int) and not isinstance(value, bool)


class Checks:
    """Checks of values and their paths. Documents, specs and settings share them and differ in their errors.

    Args:
        reject: makes the error of a wrong value; for arguments, a `TypeError` or a `ValueError`.
    """

    def __init__(self, reject: Reject = _argument_error) -> None:
        self._reject = reject

    def check(
        self,
        value: object,
        path: str,
        kind: type[T] | tuple[type[T], ...],
        expected: str,
        accepts: Callable[[T], bool] | None = None,
    ) -> T:
        """Return `value` if it is a `kind` and `accepts` returns True for it. A bool is not a number.

        Args:
            value: the value.
            path: the path of the value, for the error.
            kind: the class of a valid value, or several.
            expected: what the value must be, for the error.
            accepts: tests a value of this class; None accepts all.
        """
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self._reject(path, expected, value, TypeError)
        if accepts is not None and not accepts(value):
            raise self._reject(path, expected, value, ValueError)
        return value

    def integer(self, value: object, path: str, low: int, high: int | None = None) -> int:
        """Return an integer from `low` to `high`; None: without an upper bound."""
        return self.check(value, path, int, f"an integer{_range(low, high)}", lambda it: _is_within(it, low, high))

    def integers(
        self, value: object, path: str, low: int, high: int | None = None, *, kind: Any = (list, tuple)
    ) -> tuple[int, ...]:
        """Return a list of integers from `low` to `high` as a tuple; `kind` is its class."""
        expected = f"a {'tuple' if kind is tuple else 'list'} of integers{_range(low, high)}"
        return tuple(self.check(value, path, kind, expected, lambda it: all(_is_within(i, low, high) for i in it)))

    def number(
        self, value: object, path: str, expected: str = "a number", accepts: Callable[[float], bool] | None = None
    ) -> float:
        """Return an integer or a float, each as it is."""
        return self.check(value, path, int if isinstance(value, int) else float, expected, accepts)

    def boolean(self, value: object, path: str) -> bool:
        """Return a bool."""
        return self.check(value, path, bool, "true or false")

    def text(self, value: object, path: str) -> str:
        """Return a string without lone surrogates."""
        text = self.check(value, path, str, "a string")
        return self.check(text, path, str, "valid Unicode, without lone surrogates", is_unicode)

    def one_of(self, value: object, path: str, allowed: Collection[T]) -> T:
        """Return the item of `allowed` that equals `value`. A number without a fraction, such as 3.0, is an integer."""
        for each in allowed:
            if each == value and isinstance(each, bool | str) is isinstance(value, bool | str):
                return each
        raise self._reject(path, f"one of {', '.join(map(repr, allowed))}", value, ValueError)

    def mapping(self, value: object, path: str) -> Mapping[Any, Any]:
        """Return an object."""
        kind: Any = Mapping  # which type checkers refuse as a class, because it is abstract
        return self.check(value, path, kind, "an object")


def _range(low: int, high: int | None) -> str:
    return f" of at least {low}" if high is None else f" from {low} to {high}"


def _is_within(value: object, low: int, high: int | None) -> bool:
    return is_integer(value) and low <= value and (high is None or value <= high)
