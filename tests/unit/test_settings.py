"""The options of readers and writers."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from inspect import getdoc
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.settings import SCOPES, Settings, _checks
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


def test_each_setting_is_documented_with_its_scope() -> None:
    described = getdoc(Settings) or ""
    names = [field.name for field in fields(Settings)]
    scopes = {name: SCOPES.get(name, "operation") for name in names}
    found = re.findall(r"\n    (\w+): (?:(?!\n    \w).)*?Scope:\s+(\w+)\.", described, re.DOTALL)
    assert dict(found) == scopes, "describe the setting in the docstring of Settings, with its scope at the end"
    assert set(SCOPES) <= set(names)
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (\w+) \| .+ \|$", page, re.MULTILINE)
    expected = [(field.name, default_text(field.name, field.default), scopes[field.name]) for field in fields(Settings)]
    assert rows == expected, f"give {PAGE.name} a table with the columns setting, default, scope and meaning"


def default_text(name: str, value: object) -> str:
    """A default as the page has it."""
    if isinstance(value, str):
        return f'`"{value}"`'
    if "bytes" in name and isinstance(value, int) and value:
        return f"{value >> 30} GiB" if value >= 1 << 30 else f"{value >> 20} MiB"
    if isinstance(value, float) and name != "max_over_read":
        return f"{value:g} s"
    return f"{value:,}" if type(value) is int else str(value)


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("timeouts", "timeout"), ("max_request", "max_requests"), ("gap", "merge_gap_bytes"), ("missing", "missing_")],
)
def test_the_error_of_an_unknown_setting_names_the_nearest_one(wrong: str, nearest: str) -> None:
    with pytest.raises(TypeError, match=f"unknown setting '{wrong}'; did you mean '{nearest}"):
        Settings(**{wrong: 1})  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="help"):
        replace(Settings(), zzz=1)  # type: ignore[call-arg]  # that is the point


def test_repr_shows_only_changed_settings() -> None:
    assert repr(Settings(merge_gap_bytes=3)) == "Settings(merge_gap_bytes=3)"
    assert repr(Settings()) == "Settings()"


async def test_other_values_than_settings_are_type_errors() -> None:
    with pytest.raises(TypeError, match="Settings"):
        await aiozarr.open(MemoryStore(), settings={"timeout": 1})  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="storage_options"):
        await aiozarr.open("memory://x", storage_options="anon")  # type: ignore[arg-type]  # that is the point
