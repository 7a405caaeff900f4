"""The plan of a conversion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConversionStage:
    """One pass over an array."""

    tasks: int


@dataclass(frozen=True)
class ConversionPlan:
    """The stages of a conversion."""

    stages: tuple[ConversionStage, ...]
