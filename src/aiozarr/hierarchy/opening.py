"""`Opening`, the result of `open_*` and `create_*`: an awaitable that is also an asynchronous context manager.

The error of a missing node names a file in its place, or a sibling of nearly the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import wraps
from inspect import signature
from os.path import exists, isfile
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Protocol, Self, TypeVar

from aiozarr.common.formatting import argument, did_you_mean
from aiozarr.errors import AiozarrError, NodeNotFoundError
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, node_not_found_error, unfinished_work
from aiozarr.stores.blocking import in_thread

P = ParamSpec("P")


class OpenNode(Protocol):
    """An opened array or group."""

    async def aclose(self) -> None:
        """Close it."""


N = TypeVar("N", bound=OpenNode)


class Opening(Coroutine[Any, Any, N]):
    """A coroutine that opens or creates a node. `await opening` gives the node, `async with opening as node` closes it.

    It can be awaited or entered once, as any coroutine.
    """

    __slots__ = ("_coroutine", "_name", "_node")

    def __init__(self, coroutine: Coroutine[Any, Any, N], name: str) -> None:
        self._coroutine = coroutine
        self._name = name
        self._node: N | None = None

    def __await__(self) -> Generator[Any, Any, N]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Resume the coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the coroutine. Nothing is opened."""
        self._coroutine.close()

    async def __aenter__(self) -> N:
        self._node = await self._coroutine
        return self._node

    async def __aexit__(self, *_: object) -> None:
        if self._node is not None:
            await self._node.aclose()

    def __repr__(self) -> str:
        return f"<{self._name}(...), to be awaited>"

    # Hidden from type checkers, for which they would make every use of an awaitable valid.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # asyncio and debuggers read these attributes of the coroutine of every task that they show.
            if name.startswith(("cr_", "gi_", "ag_")) or name in ("__name__", "__qualname__"):
                return getattr(self._coroutine, name)
            if name.startswith("__") and name.endswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise NotAwaitedError(self._advice(f"`.{name}`"))

        def __getitem__(self, selection: object) -> NoReturn:
            raise NotAwaitedError(self._advice("`[...]`"))

        def __enter__(self) -> Self:
            raise NotAwaitedError(self._advice("`with`"))

        def __exit__(self, *_: object) -> None: ...

    def _advice(self, use: str) -> str:
        return (
            f"{use} needs an opened node: `await {self._name}(...)` or `async with {self._name}(...) as node:` opens it"
        )


class NotAwaitedError(TypeError, AttributeError):
    """An awaitable was used in place of its result. Also an `AttributeError`, so that `hasattr` returns False."""


def opens(function: Callable[P, Coroutine[Any, Any, N]]) -> Callable[P, Opening[N]]:
    """Make the coroutine function return an `Opening`, and suggest the right keyword for a wrong one."""
    known = signature(function).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())

    @wraps(function)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[N]:
        if not takes_any and (unknown := [name for name in kwargs if name not in known]):
            raise unknown_keyword_error(function.__name__, unknown[0], known)
        return Opening(function(*args, **kwargs), function.__qualname__)

    return opening


def unknown_keyword_error(function: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error of an unknown keyword, with the nearest known one."""
    hint = did_you_mean(name, [each for each in known if each != "self"])
    return TypeError(f"{function} has no keyword {name!r}{hint and f'; {hint}'}")


# Paths that are probably meant as a mode. `x` is a common name of a coordinate.
LIKELY_MODES = ("r", "a", "w")


def check_no_mode(path: object) -> None:
    """Refuse a path that can only be meant as a mode. `"a"` and `"w"` are names, too.

    Raises:
        TypeError: it is such a path.
    """
    if path in ("r+", "w-", "rb", "r+b"):
        raise TypeError(f"the second argument is a path, and {path!r} looks like a mode: write mode={path!r}")


async def missing_node_error(
    access: NodeAccess,
    zarr_format: int | None = None,
    siblings: Iterable[str] | None = None,
    other: NodeMetadata | None = None,
    *,
    may_be_mode: bool = False,
) -> NodeNotFoundError:
    """Return the error of the missing node at a path.

    Args:
        access: the access to the path.
        zarr_format: the requested format.
        siblings: the names of the nodes beside it; None: the store is listed if it can be.
        other: the node of another format at the path.
        may_be_mode: the path is an argument where other libraries take a mode.
    """
    error = node_not_found_error(access.store, access.path, zarr_format, other)
    if other is not None:
        return error
    hints = []
    file = await in_thread(lambda: _file_in_the_way(access))
    if file is not None:
        hints.append(f"{file}, and a node is a directory")
    parent, _, name = access.path.rpartition("/")
    beside: NodeAccess | None = access.sibling(parent)
    if not access.path:
        beside, name = _beside_root(access)
    if file is None:
        names = siblings
        if names is None:
            names = [] if beside is None else await _names_below(beside)
        names = {*names}
        # Make another request only if something may be stored.
        unfinished = await _unfinished_work(access) if beside is None or name in names else None
        nearest = did_you_mean(name, sorted(names - {name}))
        if unfinished is not None:
            again = f"the same {unfinished} with {argument('resume', True)} continues it"
            hints.append(f"an unfinished {unfinished} is stored there: {again}")
        elif nearest:
            hints.append(nearest)
        if may_be_mode and access.path in LIKELY_MODES:
            hints.append(f"{name!r} is a path here: a mode is given as mode={name!r}")
    if not hints and not access.path:
        root = _local_root(access)
        if root is not None and not await in_thread(lambda: exists(root)):
            hints.append("the directory does not exist")
    if hints:
        error = NodeNotFoundError("; ".join([error.message, *hints]), url=error.url, path=error.path)
    return error


async def _unfinished_work(access: NodeAccess) -> str | None:
    """Return "copy" or "conversion" if the journal of one is stored at a path, or None."""
    if not access.store.supports.listable:
        return None  # no destination of either
    try:
        return await unfinished_work(access)
    except AiozarrError:
        # Another error would hide that the node is missing.
        return None


def _file_in_the_way(access: NodeAccess) -> str | None:
    """Return a clause about a file at the path of a node in a local store, or above it; None: there is none."""
    from pathlib import Path

    root = _local_root(access)
    if root is None:
        return None
    place = Path(root, access.path)
    # The functions of os.path return False where those of pathlib raise, for example if a name is too long.
    if isfile(place):
        return "there is a file of this name"
    above = next(filter(isfile, place.parents), None)
    return None if above is None else f"{str(above)!r} is a file"


def _local_root(access: NodeAccess) -> str | None:
    """Return the root of a local store; None for other stores."""
    from aiozarr.stores.local.store import LocalStore

    return access.store.root if isinstance(access.store, LocalStore) else None


def _beside_root(access: NodeAccess) -> tuple[NodeAccess | None, str]:
    """Return the access to the directory with the store's root, and the name of the root in it.

    The root of a bucket, or of the local disk, may have any number of names, and is not listed.
    """
    parent = access.store.parent_store()
    if parent is None or parent[0].parent_store() is None:
        return None, ""
    return access._replace(store=parent[0], path=""), parent[1]


async def _names_below(access: NodeAccess) -> list[str]:
    """Return the names directly below a path; none if they cannot be listed."""
    if not access.store.supports.listable:
        return []
    try:
        _, prefixes = await access.scheduled.list_dir(access.prefix)
    except AiozarrError:
        # Another error would hide that the node is missing.
        return []
    return [prefix[len(access.prefix) :].removesuffix("/") for prefix in prefixes]
