"""Cached properties without a lock."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from aiozarr.fork_safe_cached_property import fork_safe_cached_property


@dataclass(frozen=True)
class Square:
    side: int

    @fork_safe_cached_property
    def areas(self) -> list[int]:
        """Area of the square."""
        return [self.side**2]

    @fork_safe_cached_property
    def broken(self) -> int:
        raise LookupError("no value")


def test_a_value_is_computed_once_per_instance() -> None:
    small, large = Square(2), Square(3)
    assert (small.areas, large.areas) == ([4], [9])
    assert small.areas is small.areas
    assert small == Square(2)


def test_an_error_is_not_cached() -> None:
    square = Square(2)
    for _ in range(2):
        with pytest.raises(LookupError, match="no value"):
            _ = square.broken
    assert "broken" not in vars(square)


def test_the_class_has_the_property_with_its_documentation() -> None:
    assert isinstance(Square.areas, fork_safe_cached_property)
    assert Square.areas.__doc__ == "Area of the square."


def test_no_thread_waits_for_the_computation_of_another() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        @fork_safe_cached_property
        def value(self) -> int:
            if threading.current_thread() is slow:
                begun.set()
                assert go_on.wait(10)
            return 1

    one = Slow()
    slow = threading.Thread(target=lambda: one.value)
    slow.start()
    assert begun.wait(10)
    assert one.value == Slow().value == 1
    go_on.set()
    slow.join()
