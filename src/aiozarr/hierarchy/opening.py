"""`Opening`: what `open_*` and `create_*` return, an awaitable that is also an asynchronous context manager."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Protocol, Self, TypeVar

P = ParamSpec("P")

# Names that users of other libraries try, and the names to use.
ALIASES = {
    "compressors": "codecs",
    "serializer": "codecs",
    "dims": "dimension_names",
    "dim_names": "dimension_names",
    "dimensions": "dimension_names",
    "attrs": "attributes",
    "name": "path",
    "store": "target",
    "url": "target",
    "chunk_shape": "chunks",
    "chunksize": "chunks",
    "shard_shape": "shards",
    "fillvalue": "fill_value",
    "zarr_version": "zarr_format",
    "values": "data",
    "consolidated": "use_consolidated",
}

# Words of other libraries that no keyword stands for, and what to write.
ADVICE = {
    "mode": "an existing node is replaced only with overwrite=True, and opened by require_array and require_group",
    "exist_ok": "require_array and require_group open what exists",
    "config": "settings=aiozarr.Settings(...) has the policies of reads and writes",
    "write_empty_chunks": "chunks that hold only the fill value are not stored",
    "synchronizer": "writers exclude each other without one",
    "object_codec": "filters=[codec] has it in format 2; dtype=str or bytes needs none",
    "index_location": "shards={'shape': ..., 'index_location': 'start'} has it",
    "shuffle": "codecs=[{'name': 'blosc', 'shuffle': 'bitshuffle'}] has it",
    "compression_level": "codecs=[{'name': 'zstd', 'level': 9}] has it",
    "level": "codecs=[{'name': 'zstd', 'level': 9}] has it",
    "maxshape": "every array can be resized",
    "cache_attrs": "attributes are read with the array; refresh() reads them again",
    "cache_metadata": "metadata are read with the array; refresh() reads them again",
    "fletcher32": "codecs=['zstd', 'crc32c'] has a checksum",
}


class OpenNode(Protocol):
    """An opened array or group."""

    async def aclose(self) -> None:
        """Close it."""


N = TypeVar("N", bound=OpenNode)


class Opening(Coroutine[Any, Any, N]):
    """A coroutine that opens or creates a node. `await opening` gives the node, `async with opening as node` closes it.

    It is awaited or entered once, as any coroutine.
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._node is not None:
            await self._node.aclose()

    def __repr__(self) -> str:
        return f"<{self._name}(...), to be awaited>"

    # Type checkers do not see these: they would make every use of an awaitable valid for them.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__") and name.endswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise NotAwaitedError(self._advice(f"`.{name}`"))

        def __getitem__(self, selection: object) -> NoReturn:
            raise NotAwaitedError(self._advice("`[...]`"))

        def __enter__(self) -> Self:
            raise NotAwaitedError(self._advice("`with`"))

        def __exit__(self, *_: object) -> None: ...

    def _advice(self, use: str) -> str:
        self.close()
        return (
            f"{use} needs an opened node: `await {self._name}(...)` or `async with {self._name}(...) as node:` opens it"
        )


class NotAwaitedError(TypeError, AttributeError):
    """An awaitable was used in place of its result. Also an `AttributeError`, so that `hasattr` answers False."""


def opens(function: Callable[P, Coroutine[Any, Any, N]]) -> Callable[P, Opening[N]]:
    """Return the coroutine function as one that returns an `Opening`, and names the right keyword for a wrong one."""
    known = signature(function).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())

    @wraps(function)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[N]:
        if not takes_any and (unknown := [name for name in kwargs if name not in known]):
            raise unknown_keyword_error(function.__name__, unknown[0], known)
        return Opening(function(*args, **kwargs), function.__qualname__)

    return opening


def unknown_keyword_error(function: str, name: str, known: Any) -> TypeError:
    """Return the error of an unknown keyword: with the name to use, or with the nearest one."""
    if name in ADVICE:
        return TypeError(f"{function} has no keyword {name!r}; {ADVICE[name]}")
    alias = ALIASES.get(name)
    nearest = [alias] if alias in known else get_close_matches(name, [each for each in known if each != "self"], n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return TypeError(f"{function} has no keyword {name!r}{hint}")
