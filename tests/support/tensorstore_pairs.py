"""Pairs of a spec and what TensorStore 0.1.86 made of it, recorded from that release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PAIRS = Path(__file__).parents[1] / "data" / "tensorstore-pairs"


def pairs(name: str) -> list[Any]:
    """The recorded pairs of one file."""
    found: list[Any] = json.loads((PAIRS / f"{name}.json").read_text("utf-8"))
    return found


def label_of(pair: dict[str, Any]) -> str:
    """The name of a pair, for the name of its test."""
    return str(pair["label"])
