"""The options of readers and writers."""

from __future__ import annotations

import re
from dataclasses import fields
from inspect import getdoc
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.settings import Settings, _checks
from aiozarr.stores import MemoryStore

PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_requests": 0},
        {"merge_gap_bytes": -1},
        {"decode_threads": 0},
        {"max_bytes_in_flight": 0},
        {"retries": -1},
        {"idle_timeout": 0},
        {"timeout": 0},
        {"max_over_read": 0.5},
        {"missing_chunks": "ignore"},
        {"max_requests": "many"},
        {"max_chunk_bytes": 1.5},
        {"chunk_cache_bytes": -1},
        {"chunk_cache_seconds": 0},
        {"missing_status": 404},
        {"missing_status": ("404",)},
        {"on_event": 3},
        {"timeout": "1"},
        {"idle_timeout": None},
        {"max_over_read": "2"},
        {"strict": "yes"},
    ],
)
def test_an_invalid_value_is_rejected_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises((ValueError, TypeError), match=name):
        Settings(**wrong)


def test_each_setting_has_a_check() -> None:
    assert _checks().keys() == {field.name for field in fields(Settings)}


def test_each_setting_is_documented() -> None:
    page = PAGE.read_text("utf-8")
    described = getdoc(Settings) or ""
    for name in [field.name for field in fields(Settings)]:
        assert f"\n    {name}: " in described, "describe the setting in the docstring of Settings"
        assert re.search(f"`{name}[`=]", page), f"name the setting in {PAGE.name}"


def test_repr_shows_only_changed_settings() -> None:
    assert repr(Settings(merge_gap_bytes=3)) == "Settings(merge_gap_bytes=3)"
    assert repr(Settings()) == "Settings()"


async def test_other_values_than_settings_are_type_errors() -> None:
    with pytest.raises(TypeError, match="Settings"):
        await aiozarr.open(MemoryStore(), settings={"timeout": 1})  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="storage_options"):
        await aiozarr.open("memory://x", storage_options="anon")  # type: ignore[arg-type]  # that is the point
