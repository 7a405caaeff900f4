"""No public coroutine lacks its blocking twin: same name, same parameters, and it blocks."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import aiozarr
from aiozarr import sync

# Where Python has a word of its own for the blocking form.
RENAMED = {"aclose": "close"}
CLASSES = ["Array", "ConversionPlan", "Group", "View"]


def waits(function: Any) -> bool:
    """Whether what `function` returns has to be awaited or iterated over asynchronously."""
    # Blocking twins carry the attributes of what they wrap, but not its code.
    is_opening = getattr(function, "__code__", None) is aiozarr.open.__code__  # type: ignore[attr-defined]
    return is_opening or inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def public_members(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def check_twin(name: str, twin: Any, original: Any) -> None:
    assert not waits(twin), f"make {name} block, by the bridge of aiozarr.sync"
    assert parameters(twin) == parameters(original), f"give {name} the parameters and defaults of its coroutine"
    assert twin.__doc__, f"give {name} the docstring of its coroutine"


MEMBERS = [(kind, name) for kind in CLASSES for name in public_members(getattr(aiozarr, kind))]
FUNCTIONS = [name for name in aiozarr.__all__ if waits(getattr(aiozarr, name))]


def test_there_are_coroutines_to_look_at() -> None:
    assert {"open", "open_array", "open_group", "create_array", "create_group", "read_many"} <= set(FUNCTIONS)
    assert ("Array", "resize") in MEMBERS
    assert ("Group", "members") in MEMBERS
    assert ("View", "read") in MEMBERS


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_coroutine_function_has_a_blocking_twin(name: str) -> None:
    assert name in sync.__all__, f"add a blocking {name} to aiozarr.sync and its __all__"
    check_twin(f"sync.{name}", getattr(sync, name), getattr(aiozarr, name))


@pytest.mark.parametrize(("kind", "name"), MEMBERS)
def test_every_public_member_of_a_node_has_a_blocking_twin(kind: str, name: str) -> None:
    original = inspect.getattr_static(getattr(aiozarr, kind), name)
    twin = inspect.getattr_static(getattr(sync, kind), RENAMED.get(name, name), None)
    assert twin is not None, f"add a blocking {name} to {kind} in aiozarr.sync"
    is_property = isinstance(original, property)
    assert isinstance(twin, property) == is_property, (
        f"make sync.{kind}.{name} a {'property' if is_property else 'method'}"
    )
    if inspect.isfunction(original):
        check_twin(f"sync.{kind}.{name}", twin, original)
    else:
        assert not waits(twin), f"make sync.{kind}.{name} block"


@pytest.mark.parametrize("kind", CLASSES)
def test_nothing_that_a_blocking_member_returns_is_asynchronous(kind: str) -> None:
    members = public_members(getattr(sync, kind)).items()
    hints = {name: str(inspect.signature(member).return_annotation) for name, member in members if callable(member)}
    wrong = [name for name, hint in hints.items() if hint.startswith(("Async", "Coroutine", "Awaitable"))]
    assert wrong == [], f"give these members of sync.{kind} a blocking return type: {wrong}"


async def test_the_check_tells_what_waits_from_what_does_not() -> None:
    async def iterate() -> AsyncIterator[int]:
        yield 1

    async def wait() -> None: ...

    assert waits(wait)
    assert waits(iterate)
    assert not waits(parameters)
    result = wait()
    assert isinstance(result, Awaitable)
    await result


def test_contexts_and_awaiting_have_their_blocking_forms() -> None:
    for name in ("Array", "Group"):
        assert hasattr(getattr(aiozarr, name), "__aenter__")
        assert hasattr(getattr(sync, name), "__enter__")
    assert hasattr(aiozarr.View, "__await__")
    assert callable(sync.View.read)
