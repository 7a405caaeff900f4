"""A task of a conversion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConversionTask:
    """One region of a conversion."""

    number: int
