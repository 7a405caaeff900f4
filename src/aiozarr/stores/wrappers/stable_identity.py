"""A name for a store that identifies it in every process, now and later."""

from __future__ import annotations

import os
import secrets
from collections.abc import Hashable, Iterator
from functools import lru_cache
from hashlib import sha256

from aiozarr.stores.memory_store import MemoryStore

_PROCESS_TOKEN = secrets.token_hex(16)


@lru_cache(maxsize=256)
def stable_name(identity: Hashable) -> str:
    """Return a name that is equal for equal identities, and different for others.

    The names of stores of one process, such as `MemoryStore`, are unique to this process.
    """
    return sha256("".join(_terms(identity)).encode("utf-8", "surrogatepass")).hexdigest()


def _terms(part: object) -> Iterator[str]:
    match part:
        case tuple():
            yield f"({len(part)} "
            for each in part:
                yield from _terms(each)
            if len(part) == 2 and isinstance(part[0], type) and type(part[1]) is int:
                yield _process()  # the default of `Store.identity`: one object of this process
        case type():
            yield f"class {part.__module__}.{part.__qualname__} "
            if issubclass(part, MemoryStore):
                yield _process()
        case str() | bytes() | int() | float() | None:
            text = repr(part)
            yield f"{len(text)} {text} "
        case _:
            text = repr(part)
            yield f"object {len(text)} {text} {_process()}"


def _process() -> str:
    return f"process {os.getpid()} {_PROCESS_TOKEN} "


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=stable_name.cache_clear)
