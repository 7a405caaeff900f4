"""A name for a store that means the same store in every process, now and later."""

from __future__ import annotations

import os
import secrets
from collections.abc import Hashable, Iterator
from functools import lru_cache
from hashlib import sha256

from aiozarr.stores.memory import MemoryStore

_HERE = secrets.token_hex(16)


@lru_cache(maxsize=256)
def lasting_name(identity: Hashable) -> str:
    """Return a name that is equal where identities are, and different where they are not.

    Stores that live in one process, such as `MemoryStore`, have a name that no other process has.
    """
    return sha256("".join(_words(identity)).encode("utf-8", "surrogatepass")).hexdigest()


def _words(part: object) -> Iterator[str]:
    match part:
        case tuple():
            yield f"({len(part)} "
            for each in part:
                yield from _words(each)
            if len(part) == 2 and isinstance(part[0], type) and type(part[1]) is int:
                yield _process()  # what `Store.identity` is by default: the id of an object
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
    return f"process {os.getpid()} {_HERE} "


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lasting_name.cache_clear)
