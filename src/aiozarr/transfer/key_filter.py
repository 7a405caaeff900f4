"""Patterns that select the keys of a copy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

MAX_PATTERN_CHARACTERS = 1024
"""The longest key. Longer patterns match nothing but cost time for every key."""


class KeyFilter:
    """Keys that match one of `include`, or any key if there is none, and none of `exclude`.

    Patterns are those of the shell, as in `aws s3` and `s5cmd`: `*` matches any characters, slashes included, `?` one
    character, `[abc]` and `[!abc]` one of a set. A pattern matches the whole key, relative to the root of the copy.
    The time of a match is at most proportional to the product of the lengths of pattern and key.

    Args:
        include: patterns, or one pattern.
        exclude: likewise.

    Raises:
        TypeError: a pattern is not a str.
        ValueError: a pattern is empty, too long, or begins with a slash, which no key does.
    """

    def __init__(self, include: str | Iterable[str] = (), exclude: str | Iterable[str] = ()) -> None:
        self.include = _patterns(include, "include")
        self.exclude = _patterns(exclude, "exclude")
        self._included = _compiled(self.include)
        self._excluded = _compiled(self.exclude)

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)

    def matches(self, key: str) -> bool:
        """Return whether `key` is selected."""
        included, excluded = self._included, self._excluded
        if included and not any(pattern.match(key) for pattern in included):
            return False
        return not any(pattern.match(key) for pattern in excluded)


def _patterns(given: str | Iterable[str], option: str) -> tuple[str, ...]:
    patterns = (given,) if isinstance(given, str) else tuple(given)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"{option} is a pattern or several, such as 'air/*', not {type(pattern).__name__}")
        if not pattern or len(pattern) > MAX_PATTERN_CHARACTERS:
            raise ValueError(f"a pattern of {option} has 1 to {MAX_PATTERN_CHARACTERS} characters, not {len(pattern)}")
        if pattern.startswith("/"):
            raise ValueError(f"{option}={pattern!r} matches nothing: keys do not begin with a slash")
    return patterns


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    # The expressions of `fnmatch` cannot backtrack behind a star that has matched (atomic groups).
    return tuple(re.compile(translate(pattern)) for pattern in patterns)
