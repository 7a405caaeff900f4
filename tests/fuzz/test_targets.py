"""Each fuzz target finds nothing within a few inputs, which are the same in every run. `make fuzz` draws others."""

from __future__ import annotations

import asyncio

import pytest

from tests.fuzz.machine import TARGETS, fuzz

SEED = 1


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_finds_nothing(name: str) -> None:
    target = TARGETS[name]()
    run = asyncio.run(fuzz(target, SEED, numbers=range(target.quick)))
    assert run.inputs == target.quick
    assert run.found == []
