"""The error of two constraints of one spec that contradict each other."""

from __future__ import annotations

from aiozarr.errors import InvalidSpecError, SpecMismatchError


class SpecConflictError(InvalidSpecError, SpecMismatchError):
    """Two constraints of one spec contradict each other, so no array satisfies it. Nothing was read or written."""

    def _facts(self) -> list[str]:
        return SpecMismatchError._facts(self)

    def __init__(
        self,
        message: str,
        *,
        member: str | None = None,
        expected: object = None,
        found: object = None,
        url: str | None = None,
    ) -> None:
        SpecMismatchError.__init__(self, message, member=member, expected=expected, found=found, url=url)
