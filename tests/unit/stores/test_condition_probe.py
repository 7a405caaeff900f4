"""Whether conditions hold is tested by writes that must fail and writes that must succeed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiozarr.errors import PreconditionFailedError
from aiozarr.model import IfAbsent, Precondition, Version
from aiozarr.stores.condition_probe import conditions_hold


def server(obeys: Callable[[Precondition, int], bool], *, versions: bool = True) -> Callable[..., object]:
    stored = 0

    async def put(value: bytes, condition: Precondition) -> Version | None:
        nonlocal stored
        if not obeys(condition, stored):
            raise PreconditionFailedError("no")
        stored += 1
        return Version(f'"{stored}"') if versions else None

    return put


def correct(condition: Precondition, stored: int) -> bool:
    return stored == 0 if isinstance(condition, IfAbsent) else condition.version.etag == f'"{stored}"'


@pytest.mark.parametrize(
    ("obeys", "holds"),
    [
        (correct, True),
        (lambda condition, stored: True, False),
        (lambda condition, stored: False, False),
        (lambda condition, stored: correct(condition, stored) if isinstance(condition, IfAbsent) else True, False),
        (lambda condition, stored: correct(condition, stored) if isinstance(condition, IfAbsent) else False, False),
    ],
)
async def test_a_server_is_trusted_that_refuses_and_accepts_rightly(
    obeys: Callable[[Precondition, int], bool], holds: bool
) -> None:
    assert await conditions_hold(server(obeys)) is holds  # type: ignore[arg-type]


async def test_without_versions_there_are_no_conditions() -> None:
    assert not await conditions_hold(server(correct, versions=False))  # type: ignore[arg-type]
