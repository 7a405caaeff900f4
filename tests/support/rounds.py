"""How many rounds a seeded search runs, and from which seed: the profile and the seed of hypothesis say both."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings


def rounds(number: int) -> int:
    """Return half of `number`, and at least 1; in the profile `long` 25 times `number`."""
    return max(1, number * settings().max_examples // 100)


def chance_of(request: pytest.FixtureRequest) -> random.Random:
    """Return the random numbers of a test: the same in every run, unless `--hypothesis-seed` says otherwise."""
    return random.Random(f"{request.config.getoption('--hypothesis-seed') or 0} {request.node.name}")
