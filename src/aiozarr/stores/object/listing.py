"""Pages of listings: what every cloud's are checked for, and followed to their end by the tokens that they tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from aiozarr.errors import InvalidKeyError, StoreError
from aiozarr.model import Entry, check_key
from aiozarr.stores.object.circle import Circle

MAX_PAGE_BYTES = 32 << 20
"""More than the longest names of a page take, written in escapes."""

MAX_SIZE_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing.

    Attributes:
        entries: the objects whose names can be keys, below the prefix that was asked for.
        prefixes: what is one level below it, each with a slash at its end.
        token: what leads to the next page; `""` for the last one.
    """

    entries: list[Entry]
    prefixes: list[str]
    token: str


def is_key(name: str, prefix: str) -> bool:
    """Return whether an object's name can be a store's key; those that stand for folders cannot."""
    if not name.startswith(prefix) or name == prefix:
        return False
    try:
        check_key(name)
    except InvalidKeyError:
        return False
    return True


def fault(words: str) -> StoreError:
    """Return the error of a page that is none."""
    return StoreError(f"the server's listing {words}")


def size_in(text: str, name: str) -> int:
    """Return the size that a page tells of the object `name`.

    Raises:
        StoreError: it is none.
    """
    if not text.isascii() or not text.isdigit() or len(text) > MAX_SIZE_DIGITS:
        raise fault(f"has no size for {name!r}")
    return int(text)


async def follow(ask: Callable[[str], Awaitable[Page]]) -> AsyncIterator[Page]:
    """Iterate over the pages that `ask` returns for their tokens, beginning with `""`.

    Raises:
        StoreError: the listing goes in a circle, by its tokens or by its keys.
    """
    token, tokens, keys = "", Circle(), Circle()
    while True:
        page = await ask(token)
        if page.entries:
            keys.check({entry.key for entry in page.entries}, page.entries[-1].key)
        yield page
        token = page.token
        if not token:
            return
        tokens.check((token,), token)


async def gather(pages: AsyncIterator[Page]) -> tuple[list[str], list[str]]:
    """Return the keys and the prefixes of all pages; a prefix may be told by more than one."""
    keys: list[str] = []
    prefixes: dict[str, None] = {}
    async for page in pages:
        keys.extend(entry.key for entry in page.entries)
        prefixes.update(dict.fromkeys(page.prefixes))
    return keys, list(prefixes)
